"""A compiled step as a tide: what its blocks do in the allocator, and which layers fill them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.simulator.bfc import (
    FIRST_REGION_BYTES,
    LARGEST_WASTE_BYTES,
    BfcAllocator,
    OutOfMemory,
    Replay,
    round_up,
)
from lowtide.sources.profiles.hlo_memory import HeldValue, TemporaryBlock
from lowtide.tf.trace.layer_origins import COPY
from lowtide.tf.trace.xla.memory import TEMPORARY, VariableKind, XlaArgument, XlaMemory, xla_allocations
from lowtide.tide.columns import Building, Curve
from lowtide.tide.layers import find_layer, find_owner, find_slot_owners, without_number
from lowtide.tide.owner import Owner
from lowtide.tide.rows import BufferRow, buffers_of, split_block
from lowtide.tide.tide import Tide

# From the name of a TensorFlow node to its layer and the user's own line.
Locate = Callable[[str], tuple[str | None, str | None]]

_BACKWARD = "gradient_tape/"
# The first run of a step may fetch regions that later runs find free; from then on every run is the same.
_RUNS_UNTIL_STEADY = 3
# How many orders of what is there before the step are tried.
_HISTORIES = 8


def predict_xla(
    function: Any,
    specs: Sequence[Any] = (),
    *,
    target: str,
    batch_size: int | None = None,
    variable_kind: VariableKind | None = None,
    others: Sequence[XlaArgument] = (),
    layers: Collection[str] = (),
    locate: Locate | None = None,
    building: Building | None = None,
) -> Tide:
    """Compile a step and predict its memory from the buffer assignment, without running it.

    `others` are tensors that live in the process without being given to the step.
    """
    concrete = function if hasattr(function, "captured_inputs") else function.get_concrete_function(*specs)
    memory = xla_allocations(concrete, specs, variable_kind=variable_kind)
    if building is None:
        graph = concrete.graph.as_graph_def()
        building = Building(len(graph.node), len(memory.module.instructions), graph.ByteSize(), None)
    return tide_of(
        memory,
        target=target,
        batch_size=batch_size,
        others=others,
        layers=layers,
        locate=locate,
        building=building,
    )


def tide_of(
    memory: XlaMemory,
    *,
    target: str,
    building: Building,
    batch_size: int | None = None,
    others: Sequence[XlaArgument] = (),
    layers: Collection[str] = (),
    locate: Locate | None = None,
    is_promise: bool = False,
) -> Tide:
    """Replay the allocations of a compiled step in the allocator, and name what is in them.

    The safe bound of a promise holds wherever the temporary block lies.
    """
    residents = sorted((*memory.arguments, *others), key=_place_in_history)
    allocator = BfcAllocator()
    chunks = _settle(allocator, residents)
    sizes, events = memory.stream()
    before = allocator.bytes_in_use
    replay = allocator.replay(sizes, events)
    for _ in range(_RUNS_UNTIL_STEADY - 1):
        replay = allocator.replay(sizes, events)
    in_use = np.concatenate([[before], replay.bytes_in_use]).astype(np.int64)
    find = locate or (lambda name: (find_layer(name, layers), None))
    rows = list(_resident_rows(residents, chunks, len(in_use), layers))
    rows += _step_rows(memory, replay, find)
    peak = int(in_use.max())
    safe = max(peak, smallest_limit(memory, residents)) + uncertain_bytes(residents)
    if is_promise:
        safe = max(safe, peak + _wasted_bytes(memory, replay))
    return Tide(
        target=target,
        method="xla",
        batch_size=batch_size,
        peak_bytes=peak,
        safe_bytes=safe,
        buffers=buffers_of(rows),
        curve=_curve(memory, in_use),
        building=building,
        notes=_notes(memory),
    )


def smallest_limit(memory: XlaMemory, residents: Sequence[XlaArgument]) -> int:
    """The smallest hard limit of the allocator under which the residents and the step still fit.

    A limit counts whole regions, and regions grow by doubling, so this is found by trying.
    """
    low = sum(round_up(resident.bytes) for resident in residents) + sum(memory.stream()[0])
    high = max(low, 1 << 20)
    while not _fits(memory, residents, high):
        high *= 2
    while high - low > max(high >> 10, 1 << 16):
        middle = (low + high) // 2
        if _fits(memory, residents, middle):
            high = middle
        else:
            low = middle
    return high


def uncertain_bytes(residents: Sequence[XlaArgument]) -> int:
    """How much more the residents may take than they seem to: a chunk that nobody cuts depends on what came before.

    What a program allocates beside its model is not known, so it is tried what other orders would take.
    """
    sizes = []
    for seed in (None, *range(_HISTORIES)):
        history = list(residents)
        if seed is not None:
            random.Random(seed).shuffle(history)
        allocator = BfcAllocator()
        _settle(allocator, history)
        sizes.append(allocator.bytes_in_use)
    return max(sizes) - sizes[0]


def most_temporary(memory: XlaMemory, residents: Sequence[XlaArgument], budget_bytes: int) -> int:
    """How large the temporary block may be for a step to keep a budget; the other blocks stay as they are.

    The allocator cuts a chunk only where enough remains, and regions double: what a block takes goes up in steps.
    """
    residents = sorted(residents, key=_place_in_history)
    budget_bytes -= uncertain_bytes(residents)
    low, high = 0, max(budget_bytes, 0)
    while high - low > max(budget_bytes >> 8, 1 << 14):
        middle = (low + high) // 2
        sized = _with_temporary(memory, middle)
        if _fits(sized, residents, budget_bytes) and _peak(sized, residents) <= budget_bytes:
            low = middle
        else:
            high = middle
    return low


def _with_temporary(memory: XlaMemory, size: int) -> XlaMemory:
    """The same allocations with temporary blocks of another size in all."""
    share = size / max(memory.temp_bytes, 1)
    allocations = (
        replace(each, bytes=int(each.bytes * share)) if each.role == TEMPORARY else each for each in memory.allocations
    )
    return replace(memory, allocations=tuple(allocations))


def _peak(memory: XlaMemory, residents: Sequence[XlaArgument]) -> int:
    """The highest peak, also if the temporary block lies elsewhere."""
    allocator = BfcAllocator()
    _settle(allocator, residents)
    replays = [allocator.replay(*memory.stream()) for _ in range(_RUNS_UNTIL_STEADY)]
    peak = int(replays[-1].bytes_in_use.max(initial=allocator.bytes_in_use))
    return peak + _wasted_bytes(memory, replays[-1])


def _wasted_bytes(memory: XlaMemory, replay: Replay) -> int:
    """How much more the temporary blocks take in a region that was fetched for them: all of it, if little is left."""
    wasted = 0
    for allocation, chunk in zip(memory.allocations, replay.allocated_bytes.tolist(), strict=True):
        if allocation.role == TEMPORARY:
            region = FIRST_REGION_BYTES
            while region < allocation.bytes:
                region *= 2
            if region - allocation.bytes < min(allocation.bytes, LARGEST_WASTE_BYTES):
                wasted += max(region - chunk, 0)
    return wasted


def _fits(memory: XlaMemory, residents: Sequence[XlaArgument], limit: int) -> bool:
    for with_spares in (False, True):
        allocator = BfcAllocator(limit)
        try:
            _settle(allocator, residents, with_spares)
            for _ in range(_RUNS_UNTIL_STEADY):
                allocator.replay(*memory.stream())
        except OutOfMemory:
            return False
    return True


def _place_in_history(resident: XlaArgument) -> tuple[bool, int]:
    return resident.kind == "input", resident.created or 0


def _settle(allocator: BfcAllocator, residents: Sequence[XlaArgument], with_spares: bool = False) -> list[int]:
    """Allocate what is there before the step, as a program does that builds a model; returns the chunk sizes.

    How much of a region is left for the step depends on what came before. Small tensors are the first in every
    process, and a weight with a random initial value is the third of three tensors of its size: the random
    numbers, their product with the range, and the sum with the lower end. With spares, so does every input, and
    two weights at once: regions that a program fetched for a moment are never given back.
    """
    first = allocator.allocate(1)
    chunks = []
    spares: list[int | None] = []
    for resident in residents:
        is_random = resident.kind == "weights" and len(resident.shape) > 1
        passing: list[int | None] = []
        if is_random or (with_spares and resident.kind == "input"):
            passing = [allocator.allocate(resident.bytes), allocator.allocate(resident.bytes)]
        address = allocator.allocate(resident.bytes)
        chunks.append(0 if address is None else allocator.chunk_bytes(address))
        for used in reversed(passing):
            allocator.free(used)
    if with_spares:
        largest = max((resident.bytes for resident in residents), default=0)
        inputs = [resident.bytes for resident in residents if resident.kind == "input"]
        spares = [allocator.allocate(size) for size in (largest, largest, *inputs, *inputs)]
    for spare in (first, *spares):
        allocator.free(spare)
    return chunks


def _resident_rows(
    residents: Sequence[XlaArgument], chunks: Sequence[int], events: int, layers: Collection[str]
) -> Iterator[BufferRow]:
    labels = {kind: [each.label for each in residents if each.kind == kind] for kind in ("weights", "optimizer")}
    owners = {label: find_owner(label, layers) for label in labels["weights"]}
    owners |= find_slot_owners(labels["optimizer"], labels["weights"], layers)
    for resident, chunk in zip(residents, chunks, strict=True):
        op = "VarHandleOp" if resident.is_resource else "Placeholder" if resident.kind == "input" else "Const"
        owner = Owner(
            resident.label, op, owners.get(resident.label), resident.kind, resident.dtype, resident.shape,
            chunk, resident.bytes,
        )  # fmt: skip
        yield BufferRow(owner, 0, events)


def _step_rows(memory: XlaMemory, replay: Replay, locate: Locate) -> Iterator[BufferRow]:
    for allocation, chunk in zip(memory.allocations, replay.allocated_bytes.tolist(), strict=True):
        if allocation.block is None:
            layer, source = locate(allocation.label)
            owners = [
                Owner(
                    allocation.label, allocation.role, layer, allocation.kind, allocation.dtype, allocation.shape,
                    chunk, allocation.bytes, source,
                )
            ]  # fmt: skip
        else:
            block = Owner(bytes=chunk, requested_bytes=allocation.bytes)
            owners = split_block(block, tuple(_parts(memory, allocation.block, locate)))
        yield from (BufferRow(owner, allocation.born, allocation.died) for owner in owners)


def block_parts(memory: XlaMemory, locate: Locate) -> dict[int, tuple[Owner, ...]]:
    """The values that lie in each temporary block at its fullest moment, by the size of the block."""
    return {
        allocation.bytes: tuple(_parts(memory, allocation.block, locate))
        for allocation in memory.allocations
        if allocation.block is not None
    }


def _parts(memory: XlaMemory, block: TemporaryBlock, locate: Locate) -> Iterator[Owner]:
    optimizers = {without_number(each.label.split("/")[0]) for each in memory.arguments if each.kind == "optimizer"}
    labels = _parameter_labels(memory)
    place = None if block.peak_event is None else block.instructions[block.peak_event]
    # The value that brought the block to its fullest comes first: it says where in the program that is.
    for value in sorted(block.held, key=lambda value: value.name != place):
        name, op, kind = _identify(value, labels, optimizers)
        layer, source = locate(name)
        shape = None if value.instruction is None else value.instruction.shape.part(value.shape_index)
        is_array = shape is not None and shape.dtype != "tuple"
        yield Owner(
            name, op, layer, kind,
            shape.dtype if shape is not None and is_array else "uint8",
            shape.dimensions if shape is not None and is_array else None,
            value.size, source=source,
        )  # fmt: skip


def _identify(value: HeldValue, labels: dict[int, str], optimizers: set[str]) -> tuple[str, str, str]:
    """The TensorFlow name, op and kind of a value, as far as the compiler kept them."""
    instruction = value.instruction
    if instruction is None:
        return value.name, "XlaLaunch", "workspace"
    origin = instruction.origin
    name = instruction.op_name or (origin.op_name if origin is not None else None)
    op = instruction.op_type or instruction.opcode
    if name is None:
        parameter = None if origin is None else origin.parameter_number
        label = None if parameter is None else labels.get(parameter)
        return f"{COPY}{label}" if label is not None else value.name, op, "workspace"
    if _BACKWARD in name:
        return name, op, "gradients"
    if without_number(name.split("/")[0]) in optimizers:
        return name, op, "workspace"
    return name, op, "activations"


def _parameter_labels(memory: XlaMemory) -> dict[int, str]:
    return {each.parameter: each.label for each in memory.arguments if each.parameter is not None}


def _curve(memory: XlaMemory, in_use: np.ndarray) -> Curve:
    """The curve as the allocator sees it: a plateau while the compiled program runs."""
    nodes = [memory.module.name]
    node = np.zeros(len(in_use), np.int32)
    for allocation in memory.allocations:
        if allocation.role == TEMPORARY and allocation.block is not None and allocation.block.peak_event is not None:
            name = allocation.block.instructions[allocation.block.peak_event]
            instruction = memory.module.instructions.get(name)
            node[allocation.born] = len(nodes)
            nodes.append(name if instruction is None else instruction.op_name or name)
    return Curve(in_use, node, nodes)


def _notes(memory: XlaMemory) -> tuple[str, ...]:
    notes = ["XLA allocates all temporary memory at once; the tensors named are those that fill it at its fullest"]
    if memory.constant_bytes >= 1 << 20:
        notes.append(f"{memory.constant_bytes:,} bytes of constants lie in the compiled program, not in the allocator")
    return tuple(notes)
