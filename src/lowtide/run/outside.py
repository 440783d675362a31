"""Memory that is held outside of a recorded step: it was allocated before the step, and the step does not free it.

Weights, the optimizer's state, and whatever else the step's graph knows are the step's own.
"""

from __future__ import annotations

from dataclasses import replace

from lowtide.run.chunks import RecordedChunk
from lowtide.run.graph_names import GraphNames, owners_of
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner

# Its buffers exist as long as the variables, and are the step's.
_VARIABLE_HANDLE = "VarHandleOp"


def find_owners(chunk: RecordedChunk, first: int, end: int, names: GraphNames, *, is_step: bool = True) -> list[Owner]:
    """Return the owners of a chunk between two events of its window; if these are a step, it may be held outside."""
    is_held = chunk.owner is not None and chunk.owner.kind == OUTSIDE
    if not is_step:
        return owners_of(chunk, names)
    if not chunk.spans(first, end):
        # Python holds results of the step too, such as its loss; the graph knows them better.
        return owners_of(replace(chunk, owner=None) if is_held else chunk, names)
    return [
        replace(owner, kind=OUTSIDE) if (is_held or chunk.owner is None) and _is_foreign(owner) else owner
        for owner in owners_of(chunk, names)
    ]


def _is_foreign(owner: Owner) -> bool:
    return owner.kind == "other" and owner.op != _VARIABLE_HANDLE
