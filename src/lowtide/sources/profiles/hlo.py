"""Reads the buffer assignment of a compiled step from a serialized HloProto.

TensorFlow returns a compiled step as an HloProto: the optimized module with its buffer assignment. Only the fields
about memory are decoded; folded weights, sharding and window descriptions are skipped, so a module of tens of megabytes
is read quickly.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.errors import LowtideError
from lowtide.sources.profiles.hlo_module import HloModule, Instruction, Shape, integers, number, text
from lowtide.sources.protobuf.wire import WireError, read_fields, signed
from lowtide.units import format_count

# xla.HeapSimulatorTrace.Event.Kind
_EVENT_KINDS = {0: "allocate", 1: "free", 2: "share"}


@dataclass(frozen=True, slots=True)
class LogicalBuffer:
    """A value that needs memory, with its defining instruction."""

    instruction: str
    shape_index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """The range of a logical buffer in an allocation."""

    buffer: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """One block of memory of the compiled module. `assigned` values share it over time."""

    index: int
    size: int
    parameter_number: int | None
    is_constant: bool
    is_thread_local: bool
    is_tuple: bool
    is_live_out: bool
    assigned: tuple[Slice, ...]

    @property
    def is_requested_at_run_time(self) -> bool:
        """Whether running the module requests it from the device's allocator.

        Parameters are the caller's tensors, constants belong to the compiled module (host memory on the CPU), and
        thread-local values live on the stack of the generated code.
        """
        return self.parameter_number is None and not self.is_constant and not self.is_thread_local


@dataclass(frozen=True, slots=True)
class HeapEvent:
    """One event of XLA's own heap simulation: `kind` is allocate, free or share."""

    kind: str
    buffer: int
    instruction: str
    shared_with: int | None


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """The buffer assignment of a compiled module."""

    name: str
    instructions: dict[str, Instruction]
    buffers: dict[int, LogicalBuffer]
    allocations: tuple[Allocation, ...]
    heaps: tuple[tuple[HeapEvent, ...], ...]
    # Which output may take over the memory of which parameter, from the shape index of the output.
    aliases: dict[tuple[int, ...], int]
    parameters: tuple[Shape, ...]

    def instruction_of(self, buffer: int) -> Instruction | None:
        """Return the instruction that defines a logical buffer."""
        logical = self.buffers.get(buffer)
        return None if logical is None else self.instructions.get(logical.instruction)

    def written(self) -> frozenset[str]:
        """Return the TensorFlow nodes whose results have a buffer; nodes fused into another instruction have none."""
        found = set()
        for instruction in self.instructions.values():
            name = instruction.op_name or (instruction.origin.op_name if instruction.origin is not None else None)
            if name is not None:
                found.add(name)
        return frozenset(found)


def read_compiled_module(data: bytes) -> CompiledModule:
    """Decode a serialized HloProto with its buffer assignment."""
    try:
        return _read_proto(data)
    except (WireError, UnicodeDecodeError) as error:
        raise LowtideError(
            "the compiled module is not a serialized HloProto", given=format_count(len(data), "byte")
        ) from error


def _read_proto(data: bytes) -> CompiledModule:
    module: bytes | None = None
    assignment: bytes | None = None
    for field, value in read_fields(data):
        if field == 1 and isinstance(value, bytes):
            module = value
        elif field == 3 and isinstance(value, bytes):
            assignment = value
    if module is None or assignment is None:
        raise LowtideError(
            "the compiled module has no buffer assignment",
            cure='ask the compiler for stage="optimized_hlo_proto_serialized"',
        )
    raw_buffers, allocations, heaps = _read_assignment(assignment)
    source = HloModule(module)
    instructions: dict[str, Instruction] = {}
    buffers: dict[int, LogicalBuffer] = {}
    for key, (identity, name, shape_index) in raw_buffers.items():
        instruction = source.instruction(source.identity(identity, name))
        if instruction is not None:
            name = instruction.name
            instructions[name] = instruction
        buffers[key] = LogicalBuffer(name or f"instruction {identity}", shape_index)
    return CompiledModule(source.name, instructions, buffers, allocations, heaps, source.aliases, source.parameters)


# A logical buffer before its instruction has a name: instruction id, instruction name, shape index.
_RawBuffer = tuple[int, str, tuple[int, ...]]


def _read_assignment(
    data: bytes,
) -> tuple[dict[int, _RawBuffer], tuple[Allocation, ...], tuple[tuple[HeapEvent, ...], ...]]:
    buffers: dict[int, _RawBuffer] = {}
    allocations: list[Allocation] = []
    heaps: list[tuple[HeapEvent, ...]] = []
    for field, value in read_fields(data):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            key, raw = _read_logical_buffer(value)
            buffers[key] = raw
        elif field == 3:
            allocations.append(read_allocation(value))
        elif field == 4:
            heaps.append(tuple(_read_heap_event(event) for inner, event in read_fields(value) if inner == 1))
    return buffers, tuple(allocations), tuple(heaps)


def _read_logical_buffer(data: bytes) -> tuple[int, _RawBuffer]:
    key = identity = 0
    name = ""
    shape_index: list[int] = []
    for field, value in read_fields(data):
        if field == 1:
            key = number(value)
        elif field == 3 and isinstance(value, bytes):
            for inner, part in read_fields(value):
                if inner == 2:
                    name = text(part)
                elif inner == 3:
                    shape_index.extend(integers(part))
                elif inner == 4:
                    identity = number(part)
    return key, (identity, name, tuple(shape_index))


def read_allocation(data: bytes) -> Allocation:
    """Read one allocation of a BufferAssignmentProto."""
    numbers: dict[int, int] = {}
    assigned: list[Slice] = []
    for field, value in read_fields(data):
        if field == 9 and isinstance(value, bytes):
            slots = {inner: number(part) for inner, part in read_fields(value)}
            assigned.append(Slice(slots.get(1, 0), slots.get(2, 0), slots.get(3, 0)))
        elif isinstance(value, int):
            numbers[field] = signed(value)
    return Allocation(
        index=numbers.get(1, 0),
        size=numbers.get(2, 0),
        parameter_number=numbers.get(6, 0) if numbers.get(5) else None,
        is_constant=bool(numbers.get(12)),
        is_thread_local=bool(numbers.get(3)),
        is_tuple=bool(numbers.get(11)),
        is_live_out=bool(numbers.get(7)),
        assigned=tuple(assigned),
    )


def _read_heap_event(data: int | bytes) -> HeapEvent:
    kind = buffer = 0
    instruction = ""
    shared: int | None = None
    if isinstance(data, bytes):
        for field, value in read_fields(data):
            if field == 1:
                kind = number(value)
            elif field == 2:
                buffer = number(value)
            elif field == 4:
                instruction = text(value)
            elif field == 5:
                shared = number(value)
    return HeapEvent(_EVENT_KINDS.get(kind, "allocate"), buffer, instruction, shared)
