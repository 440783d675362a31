"""What each op does with memory: facts about kernels, one entry per op, each checked by a probe of that op alone.

A fact says which outputs share an input's buffer (`aliases`), which may take over an input's buffer when
nobody else holds it (`forwards`), which outputs get no buffer at all, how many bytes the kernel borrows while
it runs (`temporaries`), and whether the executor treats the kernel as cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lowtide.program.graph import NodeView

Temporaries = Callable[[NodeView], Sequence[int]]
"""Bytes of each temporary buffer that is alive at the same time at the kernel's peak."""

Pairs = Callable[[NodeView], Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class OpFact:
    """What one op does with memory.

    aliases:     (output, input): the output is another view of the input's buffer, always (Reshape, Identity).
    forwards:    (output, input): the kernel asks to reuse the input's buffer, in this order; it is granted when
                 the input's buffer has no other holder and both have the same number of bytes.
                 Either may be a function of the node where it depends on attributes, shapes or the input count.
    unallocated: outputs that get no buffer (not required, empty, or owned by someone else).
    temporaries: bytes the kernel borrows while it runs, given back before its inputs are released.
    sizes:       bytes of outputs for which shape inference says nothing, or something else, by output.
    cheap:       the kernel says that it is not expensive, so the executor always runs it inline.
    """

    aliases: tuple[tuple[int, int], ...] | Pairs = ()
    forwards: tuple[tuple[int, int], ...] | Pairs = ()
    unallocated: tuple[int, ...] | Callable[[NodeView], Sequence[int]] = ()
    temporaries: Temporaries | None = None
    sizes: Callable[[NodeView], Mapping[int, int]] | None = None
    cheap: bool = False


_FACTS: dict[str, OpFact] = {}


def register(ops: str | Iterable[str], fact: OpFact) -> None:
    """State a fact of one op or of several (names separated by blanks). Stating a second one is an error."""
    for op in ops.split() if isinstance(ops, str) else ops:
        if op in _FACTS:
            raise ValueError(f"two facts for op {op}: state each op once")
        _FACTS[op] = fact


def fact_of(op: str) -> OpFact | None:
    """The fact of an op, or None for an op that is not modelled."""
    return _FACTS.get(op)


def known_ops() -> list[str]:
    return sorted(_FACTS)
