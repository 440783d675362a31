"""From a traced function to one flat GraphDef, and from a flat GraphDef back to a function.

A traced step calls other functions: `fit`'s step is called from one that draws the batch, and a gradient calls
functions of the forward pass. Every call is inlined if possible, as TensorFlow's runtime does before it runs a
function, so that the forward and the backward pass are one graph to plan and to edit. Loops, branches and separately
compiled functions stay single nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, node_def_pb2, op_def_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry, versions

ARGUMENT, RESULT = "_Arg", "_Retval"
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
# A function with one of these attributes is meant to stay a call.
_STAYS_A_CALL = ("_noinline", "_XlaMustCompile", "_XlaCompile")


@dataclass
class FlatFunction:
    """A function as one graph: `_Arg` and `_Retval` nodes stand for its arguments and results."""

    name: str
    graph_def: graph_pb2.GraphDef
    control_results: list[str]
    """Nodes that must have run when the function returns."""
    attributes: dict[str, attr_value_pb2.AttrValue] = field(default_factory=dict)
    """Attributes of the function, for example that XLA compiles it."""
    is_optimized: bool = False
    """Whether Grappler has optimized it, and must not do so again."""


def flatten(concrete: Any) -> FlatFunction:
    """Return one graph of a concrete function and all that it calls."""
    definition: function_pb2.FunctionDef = concrete.function_def
    inliner = _Inliner()
    arguments = []
    for index, argument in enumerate(definition.signature.input_arg):
        node = inliner.add(inliner.reserve(argument.name), ARGUMENT)
        node.attr["T"].type = argument.type
        node.attr["index"].i = index
        for key, value in definition.arg_attr[index].attr.items():
            node.attr[key].CopyFrom(value)
        arguments.append(node.name)
    first = len(arguments) - len(concrete.captured_inputs)
    for node, handle in zip(inliner.nodes[first:], concrete.captured_inputs, strict=True):
        _describe_variable(node, handle)
    results, controls = inliner.inline(definition, arguments)
    for index, (result, reference) in enumerate(zip(definition.signature.output_arg, results, strict=True)):
        node = inliner.add(inliner.reserve(f"{result.name}_result"), RESULT)
        node.attr["T"].type = result.type
        node.attr["index"].i = index
        node.input.append(reference)
    nodes = _needed(inliner.settled_nodes(), controls)
    graph_def = graph_pb2.GraphDef(node=nodes)
    graph_def.versions.producer = versions.GRAPH_DEF_VERSION
    graph_def.library.function.extend(_called(nodes).values())
    return FlatFunction(definition.signature.name, graph_def, controls, dict(definition.attr))


def flat_of(concrete: Any, optimized: graph_pb2.GraphDef) -> FlatFunction:
    """Return a function as optimized by Grappler, which is flat; all of its nodes have to run."""
    graph_def = graph_pb2.GraphDef()
    graph_def.CopyFrom(optimized)
    read = {node_of(reference) for node in graph_def.node for reference in node.input}
    last = [node.name for node in graph_def.node if node.name not in read and node.op not in (ARGUMENT, RESULT)]
    signature = concrete.function_def.signature.input_arg
    # Grappler drops unused arguments, but callers still pass them.
    missing = set(range(len(signature))) - {node.attr["index"].i for node in graph_def.node if node.op == ARGUMENT}
    names = {node.name for node in graph_def.node}
    for index in sorted(missing):
        name = signature[index].name
        while name in names:
            name += "_unused"
        node = graph_def.node.add(name=name, op=ARGUMENT)
        node.attr["T"].type = signature[index].type
        node.attr["index"].i = index
    return FlatFunction(
        concrete.function_def.signature.name, graph_def, last, dict(concrete.function_def.attr), is_optimized=True
    )


class _Inliner:
    """Collects the nodes of nested functions under unique names."""

    def __init__(self) -> None:
        self.nodes: list[node_def_pb2.NodeDef] = []
        self.taken: set[str] = set()
        self.results: dict[str, list[str]] = {}
        """The results of inlined calls, and the inputs of IdentityN nodes, by name."""

    def reserve(self, wanted: str, prefix: str = "") -> str:
        """Return the name if it is unused, because layers are found by it; else the name that TensorFlow gives it."""
        name = wanted if wanted not in self.taken else prefix + wanted
        number, free = 0, name
        while free in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free)
        return free

    def add(self, name: str, op: str) -> node_def_pb2.NodeDef:
        node = node_def_pb2.NodeDef(name=name, op=op)
        self.nodes.append(node)
        return node

    def inline(
        self,
        definition: function_pb2.FunctionDef,
        arguments: list[str],
        prefix: str = "",
        after: str | None = None,
        device: str = "",
    ) -> tuple[list[str], list[str]]:
        """Add a function's nodes; returns its results, and the nodes that its caller has to wait for.

        Nodes that wait for nothing inside the function wait for `after`.
        """
        values = dict(zip((each.name for each in definition.signature.input_arg), arguments, strict=True))
        names = {node.name: self.reserve(node.name, prefix) for node in definition.node_def}
        ports = {node.name: _first_ports(node) for node in definition.node_def}

        def resolve(reference: str) -> str:
            # A function writes node:output:index where a graph writes node:port.
            if reference.startswith("^"):
                return f"^{names[reference[1:]]}"
            if reference in values:
                return values[reference]
            node, output, index = reference.split(":")
            return f"{names[node]}:{ports[node][output] + int(index)}"

        for node in definition.node_def:
            inputs = [resolve(reference) for reference in node.input]
            if after is not None and all(reference in values for reference in node.input):
                inputs.append(f"^{after}")
            callee = _callee(node)
            if callee is not None:
                self._replace(names[node.name], node.device or device, inputs, callee)
                continue
            copy = node_def_pb2.NodeDef()
            copy.CopyFrom(node)
            copy.name, copy.device = names[node.name], node.device or device
            del copy.input[:]
            copy.input.extend(inputs)
            self.nodes.append(copy)
            if node.op == "IdentityN" and not any(reference.startswith("^") for reference in inputs):
                # Its readers read its inputs directly, as Grappler does it. Otherwise every update would wait for all
                # gradients, which Keras's optimizers pass through one IdentityN.
                self.results[copy.name] = inputs
        waited = [names[definition.control_ret[output]] for output in definition.signature.control_output]
        if not waited:
            waited = [names[node.name] for node in definition.node_def if is_stateful(node.op)]
        return [resolve(definition.ret[result.name]) for result in definition.signature.output_arg], waited

    def _replace(self, name: str, device: str, inputs: list[str], callee: function_pb2.FunctionDef) -> None:
        """Inline a function; nodes that waited for the call wait for a node of its name."""
        data = [reference for reference in inputs if not reference.startswith("^")]
        control = [reference for reference in inputs if reference.startswith("^")]
        begin = None
        if control:
            begin = self.add(self.reserve(f"{name}/begin"), "NoOp")
            begin.device = device
            begin.input.extend(control)
        results, waited = self.inline(callee, data, f"{name}/", begin and begin.name, device)
        self.results[name] = results
        end = self.add(name, "NoOp")
        end.device = device
        ends = waited or [node_of(result) for result in results]
        if begin is not None:
            ends.append(begin.name)
        end.input.extend(f"^{each}" for each in dict.fromkeys(ends))

    def settled_nodes(self) -> list[node_def_pb2.NodeDef]:
        """Return the nodes, reading the results of inlined calls directly."""
        for node in self.nodes:
            for position, reference in enumerate(node.input):
                if reference.startswith("^"):
                    continue
                name, port = split(reference)
                while name in self.results:
                    name, port = split(self.results[name][port])
                node.input[position] = f"{name}:{port}" if port else name
        return self.nodes


def _describe_variable(node: node_def_pb2.NodeDef, handle: Any) -> None:
    """Describe the variable behind a handle, as TensorFlow does in placed functions."""
    data = getattr(handle, "_handle_data", None)
    if data is not None and data.is_set:
        node.attr["_handle_dtypes"].list.type.extend(each.dtype for each in data.shape_and_type)
        node.attr["_handle_shapes"].list.shape.extend(each.shape for each in data.shape_and_type)


def _called(nodes: Iterable[node_def_pb2.NodeDef]) -> dict[str, function_pb2.FunctionDef]:
    """Return the functions that the remaining loops, branches and calls need, directly or indirectly."""
    runtime = context.context()
    found: dict[str, function_pb2.FunctionDef] = {}
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            for value in node.attr.values():
                for function in (value.func, *value.list.func):
                    if function.name and function.name not in found and runtime.has_function(function.name):
                        found[function.name] = runtime.get_function_def(function.name)
                        waiting.append(found[function.name].node_def)
    return found


def _needed(nodes: list[node_def_pb2.NodeDef], controls: list[str]) -> list[node_def_pb2.NodeDef]:
    """Return the nodes that results and side effects depend on, and all arguments."""
    by_name = {node.name: node for node in nodes}
    waiting = [*controls, *(node.name for node in nodes if node.op in (ARGUMENT, RESULT))]
    found = set(waiting)
    while waiting:
        for reference in by_name[waiting.pop()].input:
            name = node_of(reference)
            if name not in found:
                found.add(name)
                waiting.append(name)
    return [node for node in nodes if node.name in found]


def _callee(node: node_def_pb2.NodeDef) -> function_pb2.FunctionDef | None:
    """Return the function that a node calls, if it can be inlined."""
    if node.op not in _CALLS or any(_is_set(node.attr, key) for key in _STAYS_A_CALL):
        return None
    name = node.attr["f"].func.name
    runtime = context.context()
    if not runtime.has_function(name):
        return None
    definition: function_pb2.FunctionDef = runtime.get_function_def(name)
    return None if any(_is_set(definition.attr, key) for key in _STAYS_A_CALL) else definition


def _is_set(attributes: object, key: str) -> bool:
    return key in attributes and attributes[key].b  # type: ignore[operator, index]


def split(reference: str) -> tuple[str, int]:
    """Return the node and the port of a tensor name."""
    name, _, port = reference.partition(":")
    return name, int(port) if port else 0


def node_of(reference: str) -> str:
    """Return the node of a data or control reference."""
    return reference.lstrip("^").partition(":")[0]


def is_stateful(op: str) -> bool:
    """Whether an op reads or changes state, by its definition; True for an op without one."""
    definition = op_def_registry.get(op)
    return definition is None or definition.is_stateful


def _outputs(node: node_def_pb2.NodeDef) -> Iterator[tuple[op_def_pb2.OpDef.ArgDef, int]]:
    """Yield the outputs in an op's definition, with the number of tensors of each."""
    definition = op_def_registry.get(node.op)
    for output in definition.output_arg if definition is not None else ():
        if output.type_list_attr:
            yield output, len(node.attr[output.type_list_attr].list.type)
        else:
            yield output, node.attr[output.number_attr].i if output.number_attr else 1


def _first_ports(node: node_def_pb2.NodeDef) -> dict[str, int]:
    """Return the first port of each output."""
    ports, port = {}, 0
    for output, count in _outputs(node):
        ports[output.name] = port
        port += count
    return ports


def function_of(flat: FlatFunction, name: str) -> function_pb2.FunctionDef:
    """Return the function of a flat graph, under a new name."""
    definition = function_pb2.FunctionDef()
    definition.signature.name = name
    for key, value in flat.attributes.items():
        definition.attr[key].CopyFrom(value)
    outputs: dict[str, list[str]] = {}
    results: list[node_def_pb2.NodeDef] = []
    for node in flat.graph_def.node:
        if node.op == ARGUMENT:
            outputs[node.name] = [node.name]
        elif node.op == RESULT:
            results.append(node)
        else:
            outputs[node.name] = [
                f"{node.name}:{output.name}:{index}" for output, count in _outputs(node) for index in range(count)
            ]

    def refer(reference: str) -> str:
        if reference.startswith("^"):
            return reference
        source, port = split(reference)
        return outputs[source][port]

    arguments = [node for node in flat.graph_def.node if node.op == ARGUMENT]
    for index, node in enumerate(sorted(arguments, key=lambda node: node.attr["index"].i)):
        definition.signature.input_arg.add(name=node.name, type=node.attr["T"].type)
        for key, value in node.attr.items():
            if key not in ("T", "index"):
                definition.arg_attr[index].attr[key].CopyFrom(value)
    for node in flat.graph_def.node:
        if node.op not in (ARGUMENT, RESULT):
            copy = definition.node_def.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(refer(reference) for reference in node.input)
    for index, node in enumerate(sorted(results, key=lambda node: node.attr["index"].i)):
        result = f"result_{index}"
        definition.signature.output_arg.add(name=result, type=node.attr["T"].type)
        definition.ret[result] = refer(node.input[0])
    for index, control in enumerate(flat.control_results):
        definition.signature.control_output.append(f"control_{index}")
        definition.control_ret[f"control_{index}"] = control
    definition.signature.is_stateful = True
    return definition
