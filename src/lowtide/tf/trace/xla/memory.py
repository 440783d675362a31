"""The memory of a step under `jit_compile=True`, from the module that XLA compiles for it.

XLA decides at compile time where every value goes, so nothing has to be simulated: the compiled module's buffer
assignment lists each block that TensorFlow requests from the device's allocator. The rules below were read in
`cpu_executable.cc` and `xla_launch_util.cc` and checked against recorded allocations:

* Parameters are the caller's tensors. Constants belong to the module and do not come from the allocator.
* Every other block is allocated before the first instruction runs, in the order of its index: the outputs, the
  table of pointers of a tuple, and one block for all temporary values. Outputs thus count all the time.
* An updated variable takes no new memory: its output is aliased to its parameter and the buffer is donated. (Only if
  another tensor still refers to the variable's buffer is a copy allocated, for the outputs one by one.)
* After the run the temporary blocks are freed, then the table; outputs are freed with the tensors that hold them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from lowtide.errors import LowtideError
from lowtide.sources.profiles.hlo import Allocation, CompiledModule, read_compiled_module
from lowtide.sources.profiles.hlo_memory import TemporaryBlock, open_block
from lowtide.sources.profiles.hlo_module import Instruction, Shape
from lowtide.tf.trace.keras_models import guess_variable
from lowtide.tide.owner import Owner

VariableKind = Callable[[tf.Variable], str]

# The attribute of functions that XLA must compile as a whole, and of nodes that call them.
MUST_COMPILE = "_XlaMustCompile"

OUTPUT, TABLE, TEMPORARY = "output", "table", "temporary"
# The ops of arguments in a tide, by the kind of argument.
VARIABLE, PLACEHOLDER, CONSTANT = "VarHandleOp", "Placeholder", "Const"


@dataclass(frozen=True)
class XlaArgument:
    """A tensor that exists before the compiled step starts: an input, a variable or a captured constant."""

    owner: Owner
    is_updated: bool = False
    parameter: int | None = None  # its number in the compiled module; None if it has no parameter
    created: int | None = None  # a variable's serial number, in the order of creation

    @property
    def name(self) -> str:
        """The name of the variable, of the input, or of the captured tensor."""
        return self.owner.name or ""


@dataclass(frozen=True)
class XlaAllocation:
    """A block that the compiled step requests from the allocator; `born` and `died` count its events from 1."""

    owner: Owner
    born: int
    died: int
    block: TemporaryBlock | None

    @property
    def role(self) -> str | None:
        """OUTPUT, TABLE or TEMPORARY."""
        return self.owner.op


@dataclass(frozen=True)
class XlaMemory:
    """The arguments of a compiled step, and its allocations in TensorFlow's order."""

    arguments: tuple[XlaArgument, ...]
    allocations: tuple[XlaAllocation, ...]
    constant_bytes: int  # in the module itself, outside the allocator
    module: CompiledModule
    compile_seconds: float

    @property
    def workspace_bytes(self) -> int:
        """Bytes that are allocated when the step starts and freed when it ends."""
        return sum(allocation.owner.bytes for allocation in self.allocations if allocation.role != OUTPUT)

    @property
    def temp_bytes(self) -> int:
        """Bytes of the blocks that hold the intermediate values."""
        return sum(allocation.owner.bytes for allocation in self.allocations if allocation.role == TEMPORARY)

    def stream(self) -> tuple[list[int], list[int]]:
        """Sizes and events as `BfcAllocator.replay` takes them: `i` allocates sizes[i], `~i` frees it."""
        sizes = [allocation.owner.bytes for allocation in self.allocations]
        moments = [(allocation.born, row) for row, allocation in enumerate(self.allocations)]
        moments += [(allocation.died, ~row) for row, allocation in enumerate(self.allocations)]
        return sizes, [event for _, event in sorted(moments)]


def compile_step(function: Any, specs: Sequence[Any] = (), *, variable_kind: VariableKind | None = None) -> XlaMemory:
    """Compile a step for the shapes of `specs`, without running it, and read its memory.

    `function` is a tf.function, or a concrete function. A concrete function may have been traced with unknown
    dimensions: `specs` gives the shapes to compile for, so that one trace serves all batch sizes.
    """
    concrete = function if hasattr(function, "captured_inputs") else function.get_concrete_function(*specs)
    inputs = _flat_inputs(concrete, specs)
    captures = list(concrete.captured_inputs)
    started = time.perf_counter()
    data = compile_function(concrete.name, inputs, captures)
    seconds = time.perf_counter() - started
    arguments = [describe_input(spec.name, spec) for spec in inputs]
    arguments += _captured_arguments(
        concrete, captures, variable_kind or (lambda variable: guess_variable(variable)[0])
    )
    return read_memory(data, arguments, seconds)


def is_compiled(concrete: Any) -> bool:
    """Whether a concrete function runs under XLA as a whole: it was made with `jit_compile=True`."""
    attributes = concrete.function_def.attr
    return MUST_COMPILE in attributes and bool(attributes[MUST_COMPILE].b)


def compile_function(name: str | bytes, inputs: Sequence[tf.TensorSpec], captures: Sequence[tf.Tensor]) -> bytes:
    """Have XLA compile a function of the eager context; return the HloProto with its buffer assignment.

    Parameters come in the order of the function: first `inputs`, which are not allocated, then `captures`. The compiled
    program stays in TensorFlow's cache, so that a later call of the step does not compile again.
    """
    context.ensure_initialized()
    try:
        return context.context().get_compiler_ir(
            device_name=_device_name(),
            platform_name=None,
            function_name=name,
            flat_args=list(inputs),
            captured_inputs=list(captures),
            stage="optimized_hlo_proto_serialized",
        )
    except (tf.errors.OpError, ValueError, TypeError) as error:
        reason = str(error).removeprefix("Failed getting HLO text: ").partition("\n")[0] or type(error).__name__
        raise LowtideError(
            f"XLA cannot compile the step: {reason}",
            given=tf.compat.as_str(name),
            cure="use jit_compile=False, or replace the op that XLA does not support",
        ) from error


def read_memory(data: bytes, arguments: Sequence[XlaArgument], compile_seconds: float = 0.0) -> XlaMemory:
    """Turn a serialized HloProto into the allocations of a run."""
    module = read_compiled_module(data)
    requested = [allocation for allocation in module.allocations if allocation.is_requested_at_run_time]
    # Blocks of zero bytes are requested as well, but the allocator allocates nothing for them.
    requested = sorted((block for block in requested if block.size), key=lambda block: block.index)
    roles = [_role(block) for block in requested]
    # The temporary blocks are freed first, in order, then the table of results, then the results.
    ranks = {TEMPORARY: 0, TABLE: 1, OUTPUT: 2}
    order = sorted(range(len(requested)), key=lambda row: (ranks[roles[row]], row))
    died = {row: len(requested) + 1 + position for position, row in enumerate(order)}
    allocations = [_describe(module, block, roles[row], row + 1, died[row]) for row, block in enumerate(requested)]
    constants = sum(allocation.size for allocation in module.allocations if allocation.is_constant)
    return XlaMemory(_match_parameters(module, arguments), tuple(allocations), constants, module, compile_seconds)


def _device_name() -> str:
    gpus = tf.config.list_logical_devices("GPU")
    device = gpus[0] if gpus else tf.config.list_logical_devices("CPU")[0]
    return f"/job:localhost/replica:0/task:0{device.name}"


def _flat_inputs(concrete: Any, specs: Sequence[Any]) -> list[tf.TensorSpec]:
    """Return specs of a function's inputs with all dimensions known; `specs` gives those that it leaves open."""
    count = len(concrete.inputs) - len(concrete.captured_inputs)
    placeholders = [tf.TensorSpec(each.shape, each.dtype, each.op.name) for each in concrete.inputs[:count]]
    given = [spec for spec in tf.nest.flatten(list(specs), expand_composites=True) if hasattr(spec, "shape")]
    if len(given) == count:
        placeholders = [
            tf.TensorSpec(spec.shape, own.dtype, own.name) for spec, own in zip(given, placeholders, strict=True)
        ]
    for spec in placeholders:
        if not spec.shape.is_fully_defined():
            raise LowtideError(
                f"XLA compiles for exact shapes, and the input {spec.name} has an unknown dimension",
                given=str(spec.shape),
                cure="give every dimension a size",
            )
    return placeholders


def describe_input(name: str, spec: tf.TensorSpec) -> XlaArgument:
    """Describe an input of a compiled step or call."""
    shape = tuple(spec.shape.as_list())
    return XlaArgument(Owner(name, PLACEHOLDER, None, "input", spec.dtype.name, shape, _bytes_of(spec.dtype, shape)))


def _bytes_of(dtype: tf.DType, shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.size


def _captured_arguments(concrete: Any, captures: Sequence[Any], kind_of: VariableKind) -> Iterator[XlaArgument]:
    variables = {id(variable.handle): variable for variable in concrete.graph.variables}
    for position, tensor in enumerate(captures):
        variable = variables.get(id(tensor))
        if variable is not None:
            yield _variable_argument(variable, kind_of(variable))
        else:
            is_resource = tensor.dtype == tf.resource
            shape = () if is_resource else tuple(tensor.shape.as_list())
            size = 0 if is_resource else _bytes_of(tensor.dtype, shape)
            op = VARIABLE if is_resource else CONSTANT
            yield XlaArgument(Owner(f"captured {position}", op, None, "constants", tensor.dtype.name, shape, size))


def _variable_argument(variable: tf.Variable, kind: str) -> XlaArgument:
    shape = tuple(variable.shape.as_list())
    # The id of a variable ends in a serial number.
    serial = getattr(variable, "_unique_id", "").rpartition("_")[2]
    size = _bytes_of(variable.dtype, shape)
    owner = Owner(variable.name.removesuffix(":0"), VARIABLE, None, kind, variable.dtype.name, shape, size)
    return XlaArgument(owner, created=int(serial) if serial.isdigit() else None)


def _match_parameters(module: CompiledModule, arguments: Sequence[XlaArgument]) -> tuple[XlaArgument, ...]:
    """Find the parameter of each argument, and whether an output reuses its memory.

    The module has no parameter for an argument that became a compile-time constant or is never read, so parameters
    are matched with arguments in order, by dtype and shape.
    """
    updated = set(module.aliases.values())
    result = list(arguments)
    position = 0
    for number, shape in enumerate(module.parameters):
        while position < len(result) and not _matches(result[position], shape):
            position += 1
        if position == len(result):
            break
        result[position] = replace(result[position], is_updated=number in updated, parameter=number)
        position += 1
    return tuple(result)


def _matches(argument: XlaArgument, shape: Shape) -> bool:
    return argument.owner.dtype == shape.dtype and argument.owner.shape == shape.dimensions


def _role(block: Allocation) -> str:
    if not block.is_live_out:
        return TEMPORARY
    return TABLE if block.is_tuple else OUTPUT


def _describe(module: CompiledModule, block: Allocation, role: str, born: int, died: int) -> XlaAllocation:
    if role == TEMPORARY:
        opened = open_block(module, block)
        owner = Owner("temporary block", role, None, "workspace", "uint8", None, block.size)
        return XlaAllocation(owner, born, died, opened)
    # Several values may use an output's memory in turn; the last that fills it has the output's type.
    filling = [each for each in block.assigned if each.size == block.size]
    instruction = module.instruction_of(filling[-1].buffer) if filling else None
    shape = None if instruction is None else instruction.shape.part(module.buffers[filling[-1].buffer].shape_index)
    label = "table of results" if role == TABLE else _name_of(instruction, "result")
    kind = "workspace" if role == TABLE else "activations"
    return XlaAllocation(Owner(label, role, None, kind, *array_type(shape), block.size), born, died, None)


def array_type(shape: Shape | None) -> tuple[str, tuple[int, ...] | None]:
    """Return dtype and dimensions of an HLO shape; plain bytes if it is unknown or a tuple."""
    return ("uint8", None) if shape is None or shape.dtype == "tuple" else (shape.dtype, shape.dimensions)


def _name_of(instruction: Instruction | None, otherwise: str) -> str:
    if instruction is None:
        return otherwise
    if instruction.op_name is None and instruction.origin is not None:
        return instruction.origin.op_name or instruction.name
    return instruction.op_name or instruction.name
