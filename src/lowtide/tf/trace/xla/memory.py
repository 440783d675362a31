"""The memory of a step under `jit_compile=True`, from the module that XLA compiles for it.

XLA decides at compile time where every value goes, so nothing has to be simulated: the compiled module's buffer
assignment names each block that TensorFlow will ask the device's allocator for. What TensorFlow does with it, read in
`cpu_executable.cc` and `xla_launch_util.cc` and checked against recorded allocations:

* Parameters are the caller's tensors. Constants belong to the module and do not come from the allocator.
* Every other block is allocated before the first instruction runs, in the order of its index: the outputs, the
  table of pointers of a tuple, and one block for all temporary values. Outputs thus count all the time.
* An updated variable takes no new memory: its output is aliased to its parameter and the buffer is donated. (Only if
  another tensor still refers to the variable's buffer is a copy allocated, for the outputs one by one.)
* After the run the temporary blocks are freed, then the table; outputs die with the tensors that hold them.
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

VariableKind = Callable[[tf.Variable], str]

# The attribute of functions, and of nodes that call one, which XLA has to compile as a whole.
MUST_COMPILE = "_XlaMustCompile"

OUTPUT, TABLE, TEMPORARY = "output", "table", "temporary"


@dataclass(frozen=True)
class XlaArgument:
    """A tensor that is there before the compiled step starts: an input, a variable or a captured constant."""

    label: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    is_resource: bool
    is_updated: bool = False
    parameter: int | None = None  # its number in the compiled module; None if the module does not take it
    created: int | None = None  # variables count up in the order in which the program made them


@dataclass(frozen=True)
class XlaAllocation:
    """A block that running the compiled step asks the allocator for; `born` and `died` count its events from 1."""

    label: str
    role: str  # OUTPUT, TABLE or TEMPORARY
    kind: str
    dtype: str
    shape: tuple[int, ...] | None
    bytes: int
    born: int
    died: int
    block: TemporaryBlock | None


@dataclass(frozen=True)
class XlaMemory:
    """What a compiled step needs: what it is given, and what it allocates, in TensorFlow's order."""

    arguments: tuple[XlaArgument, ...]
    allocations: tuple[XlaAllocation, ...]
    constant_bytes: int  # in the module itself, outside of the allocator
    module: CompiledModule
    compile_seconds: float

    @property
    def argument_bytes(self) -> int:
        """Bytes of inputs, variables and captured constants."""
        return sum(argument.bytes for argument in self.arguments)

    @property
    def aliased_bytes(self) -> int:
        """Bytes of variables that the step updates in place."""
        return sum(argument.bytes for argument in self.arguments if argument.is_updated)

    @property
    def output_bytes(self) -> int:
        """Bytes of the results that outlive the step, updated variables not among them."""
        return sum(allocation.bytes for allocation in self.allocations if allocation.role == OUTPUT)

    @property
    def workspace_bytes(self) -> int:
        """Bytes that are allocated when the step starts and freed when it ends."""
        return sum(allocation.bytes for allocation in self.allocations if allocation.role != OUTPUT)

    @property
    def temp_bytes(self) -> int:
        """Bytes of the blocks that hold the intermediate values."""
        return sum(allocation.bytes for allocation in self.allocations if allocation.role == TEMPORARY)

    def stream(self) -> tuple[list[int], list[int]]:
        """Sizes and events as `BfcAllocator.replay` takes them: `i` allocates sizes[i], `~i` frees it."""
        sizes = [allocation.bytes for allocation in self.allocations]
        moments = [(allocation.born, row) for row, allocation in enumerate(self.allocations)]
        moments += [(allocation.died, ~row) for row, allocation in enumerate(self.allocations)]
        return sizes, [event for _, event in sorted(moments)]


def xla_allocations(
    function: Any, specs: Sequence[Any] = (), *, variable_kind: VariableKind | None = None
) -> XlaMemory:
    """Compile a step for the shapes of `specs`, without running it, and read its memory.

    `function` is a tf.function, or a concrete function that may have been traced with unknown dimensions: `specs`
    then gives the shapes to compile for, so that one trace serves all batch sizes.
    """
    concrete = function if hasattr(function, "captured_inputs") else function.get_concrete_function(*specs)
    inputs = _flat_inputs(concrete, specs)
    captures = list(concrete.captured_inputs)
    started = time.perf_counter()
    data = compile_function(concrete.name, inputs, captures)
    seconds = time.perf_counter() - started
    arguments = [_input_argument(spec) for spec in inputs]
    arguments += _captured_arguments(concrete, captures, variable_kind or guess_kind)
    return read_memory(data, arguments, seconds)


def is_compiled(concrete: Any) -> bool:
    """Whether a concrete function runs under XLA as a whole: it was made with `jit_compile=True`."""
    attributes = concrete.function_def.attr
    return MUST_COMPILE in attributes and bool(attributes[MUST_COMPILE].b)


def compile_function(name: str | bytes, inputs: Sequence[tf.TensorSpec], captures: Sequence[tf.Tensor]) -> bytes:
    """Have XLA compile a function of the eager context; returns the HloProto with its buffer assignment.

    Parameters come in the order of the function: first `inputs`, of which nothing is allocated, then `captures`.
    The compiled program stays in TensorFlow's cache, so that a later call of the step does not compile again.
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
            cure="use jit_compile=False, or replace the op that XLA refuses",
        ) from error


def read_memory(data: bytes, arguments: Sequence[XlaArgument], compile_seconds: float = 0.0) -> XlaMemory:
    """Turn a serialized HloProto into the allocations of a run."""
    module = read_compiled_module(data)
    requested = [allocation for allocation in module.allocations if allocation.is_requested_at_run_time]
    # Blocks of no bytes are asked for as well, but the allocator gives nothing for them.
    requested = sorted((block for block in requested if block.size), key=lambda block: block.index)
    roles = [_role(block) for block in requested]
    # Temporary blocks go first, in their order, then the table of the result, then the results.
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
    """The inputs of a concrete function with all dimensions known, those of `specs` where it leaves them open."""
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
                cure="give every dimension",
            )
    return placeholders


def _input_argument(spec: tf.TensorSpec) -> XlaArgument:
    shape = tuple(spec.shape.as_list())
    return XlaArgument(spec.name, "input", spec.dtype.name, shape, _bytes_of(spec.dtype, shape), False)


def _bytes_of(dtype: tf.DType, shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.size


def _captured_arguments(concrete: Any, captures: Sequence[Any], kind_of: VariableKind) -> Iterator[XlaArgument]:
    variables = {id(variable.handle): variable for variable in concrete.graph.variables}
    for position, tensor in enumerate(captures):
        variable = variables.get(id(tensor))
        if variable is not None:
            yield variable_argument(variable, kind_of(variable))
        else:
            label = f"captured {position}"
            is_resource = tensor.dtype == tf.resource
            shape = () if is_resource else tuple(tensor.shape.as_list())
            size = 0 if is_resource else _bytes_of(tensor.dtype, shape)
            yield XlaArgument(label, "constants", tensor.dtype.name, shape, size, is_resource)


def variable_argument(variable: tf.Variable, kind: str) -> XlaArgument:
    """Describe a variable that a compiled step reads or updates."""
    shape = tuple(variable.shape.as_list())
    label = variable.name.removesuffix(":0")
    # TensorFlow ends the id of a variable in a number that counts up.
    serial = getattr(variable, "_unique_id", "").rpartition("_")[2]
    created = int(serial) if serial.isdigit() else None
    return XlaArgument(label, kind, variable.dtype.name, shape, _bytes_of(variable.dtype, shape), True, created=created)


def guess_kind(variable: tf.Variable) -> str:
    """Tell weights from optimizer state where nothing but the variable is known.

    Keras names the variables of an optimizer after the variable they belong to, all in one part:
    "adam/sequential_dense_kernel_momentum"; the others are the step's own counters.
    """
    parts = variable.name.removesuffix(":0").split("/")
    if variable.trainable or parts[-1] in ("moving_mean", "moving_variance"):
        return "weights"
    counters = ("iteration", "learning_rate", "loss_scale", "dynamic_scale", "step_counter")
    slots = ("_momentum", "_velocity", "_accumulator", "_average", "_v", "_m", "_r", "_c", "_norm", "_hat")
    if len(parts) == 2 and (parts[1] in counters or parts[1].endswith(slots) or "_accumulator" in parts[1]):
        return "optimizer"
    return "weights" if len(parts) > 2 else "other"


def _match_parameters(module: CompiledModule, arguments: Sequence[XlaArgument]) -> tuple[XlaArgument, ...]:
    """Find the parameter of each argument, and whether an output takes over its memory.

    The module has no parameter for an argument that became a compile-time constant, or that it never reads, so
    parameters are matched with arguments in order, by type and shape.
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
    return argument.dtype == shape.dtype and argument.shape == shape.dimensions


def _role(block: Allocation) -> str:
    if not block.is_live_out:
        return TEMPORARY
    return TABLE if block.is_tuple else OUTPUT


def _describe(module: CompiledModule, block: Allocation, role: str, born: int, died: int) -> XlaAllocation:
    if role == TEMPORARY:
        return XlaAllocation(
            "temporary block", role, "workspace", "uint8", None, block.size, born, died, open_block(module, block)
        )
    # Several values may pass through an output's memory in turn; any that fills it has its type.
    whole = [piece for piece in block.assigned if piece.size == block.size]
    instruction = module.instruction_of(whole[-1].buffer) if whole else None
    shape = None if instruction is None else instruction.shape.part(module.buffers[whole[-1].buffer].shape_index)
    is_array = shape is not None and shape.dtype != "tuple"
    kind = "workspace" if role == TABLE else "activations"
    return XlaAllocation(
        "table of results" if role == TABLE else _name_of(instruction, "result"),
        role,
        kind,
        shape.dtype if shape is not None and is_array else "uint8",
        shape.dimensions if shape is not None and is_array else None,
        block.size,
        born,
        died,
        None,
    )


def _name_of(instruction: Instruction | None, otherwise: str) -> str:
    if instruction is None:
        return otherwise
    if instruction.op_name is None and instruction.origin is not None:
        return instruction.origin.op_name or instruction.name
    return instruction.op_name or instruction.name
