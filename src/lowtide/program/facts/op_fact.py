"""What each op does with memory: one fact per op, each checked by running that op alone.

A fact says which outputs share an input's buffer (`aliases`), which may reuse an input's buffer that has no other
reference (`forwards`), how much temporary memory the kernel allocates (`temporaries`), and whether the executor treats
the kernel as cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lowtide.program.graph import NodeView

Temporaries = Callable[[NodeView], Sequence[int]]
"""Bytes of each temporary buffer that is alive at the same time at the kernel's peak."""

Pairs = Callable[[NodeView], Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class OpFact:
    """What one op does with memory.

    aliases:     (output, input): the output is another view of the input's buffer, always (Reshape, Identity).
    forwards:    (output, input): the kernel tries to reuse the input's buffer, in this order. It succeeds if the buffer
                 has no other reference and both have the same number of bytes.
                 Either may be a function of the node, where it depends on attributes, shapes or the input count.
    temporaries: bytes that the kernel allocates while it runs and frees before its inputs are released.
    sizes:       bytes of outputs whose shape inference is missing or differs, by output.
    cheap:       the kernel is registered as inexpensive, so the executor always runs it inline.
    """

    aliases: tuple[tuple[int, int], ...] | Pairs = ()
    forwards: tuple[tuple[int, int], ...] | Pairs = ()
    temporaries: Temporaries | None = None
    sizes: Callable[[NodeView], Mapping[int, int]] | None = None
    cheap: bool = False


_FACTS: dict[str, OpFact] = {}


def register(ops: str, fact: OpFact) -> None:
    """Register the fact of one op or of several, separated by blanks; each op can have one fact only."""
    for op in ops.split():
        if op in _FACTS:
            raise ValueError(f"two facts for op {op}: state each op once")
        _FACTS[op] = fact


def fact_of(op: str) -> OpFact | None:
    """Return the fact of an op, or None for an op that is not modelled."""
    return _FACTS.get(op)


def known_ops() -> list[str]:
    return sorted(_FACTS)
