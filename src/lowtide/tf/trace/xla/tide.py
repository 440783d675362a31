"""The tide of a compiled step: its allocations replayed in the allocator, and the layers that fill them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lowtide.simulator.bfc import BfcAllocator, Replay
from lowtide.sources.profiles.hlo_memory import HeldValue, TemporaryBlock
from lowtide.tf.trace.gpu_note import gpu_notes
from lowtide.tf.trace.layer_origins import COPY
from lowtide.tf.trace.xla.limits import (
    allocate_residents,
    creation_order,
    replay_until_steady,
    smallest_limit,
    uncertain_bytes,
    unsplit_bytes,
)
from lowtide.tf.trace.xla.memory import TEMPORARY, XlaArgument, XlaMemory, array_type
from lowtide.tide.columns import Building, Curve
from lowtide.tide.layers import find_layer, find_variable_layers, without_number
from lowtide.tide.owner import Owner
from lowtide.tide.rows import BufferRow, buffers_of, split_block
from lowtide.tide.tide import Tide

# From the name of a TensorFlow node to its layer and the line of user code.
Locate = Callable[[str], tuple[str | None, str | None]]

_BACKWARD = "gradient_tape/"


def build_tide(
    memory: XlaMemory,
    *,
    target: str,
    building: Building,
    batch_size: int | None = None,
    others: Sequence[XlaArgument] = (),
    layers: Collection[str] = (),
    locate: Locate | None = None,
    is_planned: bool = False,
) -> Tide:
    """Replay the allocations of a compiled step in the allocator, and name their contents.

    `others` are tensors that exist in the process but are not given to the step. The safe bound of a planned step
    holds wherever the allocator places the temporary block.
    """
    residents = sorted((*memory.arguments, *others), key=creation_order)
    allocator = BfcAllocator()
    chunks = allocate_residents(allocator, residents)
    before = allocator.bytes_in_use
    replay = replay_until_steady(allocator, memory)
    in_use = np.concatenate([[before], replay.bytes_in_use]).astype(np.int64)
    find = locate or (lambda name: (find_layer(name, layers), None))
    rows = list(_resident_rows(residents, chunks, len(in_use), layers))
    rows += _step_rows(memory, replay, find)
    peak = int(in_use.max())
    safe = max(peak, smallest_limit(memory, residents)) + uncertain_bytes(residents)
    if is_planned:
        safe = max(safe, peak + unsplit_bytes(memory, replay))
    return Tide(
        target=target,
        method="xla",
        batch_size=batch_size,
        peak_bytes=peak,
        safe_bytes=safe,
        buffers=buffers_of(rows),
        curve=_curve(memory, in_use),
        building=building,
        notes=(*gpu_notes(), *_notes(memory)),
    )


def _resident_rows(
    residents: Sequence[XlaArgument], chunks: Sequence[int], events: int, layers: Collection[str]
) -> Iterator[BufferRow]:
    kinds = ((each.owner.kind, each.name) for each in residents)
    found = find_variable_layers(((kind, name) for kind, name in kinds if kind in ("weights", "optimizer")), layers)
    for resident, chunk in zip(residents, chunks, strict=True):
        yield BufferRow(_allocated(resident.owner, chunk, found.get(resident.name)), 0, events)


def _allocated(owner: Owner, chunk: int, layer: str | None, source: str | None = None) -> Owner:
    """Return the owner of a chunk that the allocator gave."""
    return replace(owner, layer=layer, bytes=chunk, requested_bytes=owner.bytes, source=source)


def _step_rows(memory: XlaMemory, replay: Replay, locate: Locate) -> Iterator[BufferRow]:
    for allocation, chunk in zip(memory.allocations, replay.allocated_bytes.tolist(), strict=True):
        if allocation.block is None:
            owners = [_allocated(allocation.owner, chunk, *locate(allocation.owner.name or ""))]
        else:
            block = Owner(bytes=chunk, requested_bytes=allocation.owner.bytes)
            owners = split_block(block, tuple(_parts(memory, allocation.block, locate)))
        yield from (BufferRow(owner, allocation.born, allocation.died) for owner in owners)


def block_parts(memory: XlaMemory, locate: Locate) -> dict[int, tuple[Owner, ...]]:
    """Return the values in each temporary block at the block's peak, by the size of the block."""
    return {
        allocation.owner.bytes: tuple(_parts(memory, allocation.block, locate))
        for allocation in memory.allocations
        if allocation.block is not None
    }


def _parts(memory: XlaMemory, block: TemporaryBlock, locate: Locate) -> Iterator[Owner]:
    slots = [each.name for each in memory.arguments if each.owner.kind == "optimizer"]
    optimizers = {without_number(name.split("/")[0]) for name in slots}
    labels = _parameter_labels(memory)
    peak = None if block.peak_event is None else block.instructions[block.peak_event]
    # The value that causes the block's peak comes first: it shows where in the program the peak is.
    for value in sorted(block.held, key=lambda value: value.name != peak):
        name, op, kind = _identify(value, labels, optimizers)
        layer, source = locate(name)
        shape = None if value.instruction is None else value.instruction.shape.part(value.shape_index)
        yield Owner(name, op, layer, kind, *array_type(shape), value.size, source=source)


def _identify(value: HeldValue, labels: dict[int, str], optimizers: set[str]) -> tuple[str, str, str]:
    """Return the TensorFlow name, op and kind of a value; the names of HLO where the compiler dropped them."""
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
    return {each.parameter: each.name for each in memory.arguments if each.parameter is not None}


def _curve(memory: XlaMemory, in_use: np.ndarray) -> Curve:
    """Return the curve as the allocator sees it: flat while the compiled program runs."""
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
    notes = ["XLA allocates all temporary memory at once; the tensors named are those that fill it at its peak"]
    if memory.constant_bytes >= 1 << 20:
        notes.append(f"{memory.constant_bytes:,} bytes of constants are in the compiled program, not in the allocator")
    return tuple(notes)
