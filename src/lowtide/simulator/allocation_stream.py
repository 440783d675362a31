"""The stream of allocations and frees that a simulated step makes."""

from __future__ import annotations

from dataclasses import dataclass, field

BufferId = int


@dataclass(slots=True)
class AllocationStream:
    """The allocations and frees of one step, in order.

    An event `i` allocates buffer i, `~i` frees it, as `BfcAllocator.replay` takes them.
    """

    events: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    """The node that caused each event."""
    sizes: list[int] = field(default_factory=list)
    """Requested bytes of each buffer."""
    owner_ids: list[int] = field(default_factory=list)
    """The content of each buffer: a tensor id, or -1 - node for temporary memory of the node's kernel."""
    handles: set[BufferId] = field(default_factory=set)
    """Buffers of resource handles; their owner is the variable that the handle refers to."""
    before: list[BufferId] = field(default_factory=list)
    """Buffers that exist before the step: variables, arguments, constants."""
    first_constant: BufferId = 0
    """The first buffer of a constant in `before`; all later ones are constants too."""
    renewed: dict[BufferId, BufferId] = field(default_factory=dict)
    """Variables that are in another buffer after the step than before it: old buffer to new buffer.

    The new buffer may be shared with a constant until the next update.
    """
    order: list[int] = field(default_factory=list)
    """The nodes in the order in which they finished."""
    guesses: set[int] = field(default_factory=set)
    """Switch nodes whose condition depends on the data."""
