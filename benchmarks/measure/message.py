"""What TensorFlow itself says when it runs out of memory, as facts read from its standard error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_RAN_OUT = re.compile(r"ran out of memory trying to allocate (\S+)(?: \(rounded to \d+\))?\s*requested by op (\S+)")
_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
_SHAPE = re.compile(r"OOM when allocating tensor with shape\s?(\[[^\]]*\]) and type (\w+)")
_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+Error):", re.MULTILINE)
_STATISTIC = re.compile(r"^\s*(?:Limit|InUse|MaxInUse|NumAllocs|MaxAllocSize|Reserved|PeakReserved|LargestFreeBlock):")
_KIND = re.compile(r"\b(?:weights?|activations?|gradients|optimizer|variables?)\b", re.IGNORECASE)
_ADVICE = ("If the cause is memory fragmentation", "Hint: If you want to see a list of allocated tensors")


@dataclass(frozen=True)
class Message:
    """What a reader of the message learns; None for what it does not say."""

    error: str | None = None
    """The class of the exception; None if the process died without one."""
    asked: str | None = None
    op: str | None = None
    shape: str | None = None
    line: str | None = None
    """The line of the program, from Python's traceback."""
    attempts: int = 0
    """How often the allocator said that it had nothing to give."""
    dump_lines: int = 0
    kinds: bool = False
    """Whether the allocator's dump distinguishes weights from activations."""
    advice: tuple[str, ...] = ()


def read_message(stderr: str, program: str) -> Message:
    """The facts in the standard error of a plain run of `program`.py."""
    asked = _RAN_OUT.findall(stderr)
    nodes, shapes, errors = _NODE.findall(stderr), _SHAPE.findall(stderr), _ERROR.findall(stderr)
    lines = re.findall(rf'File "[^"]*\b({re.escape(program)}\.py)", line (\d+)', stderr)
    dump = [line for line in stderr.splitlines() if "bfc_allocator.cc:" in line or _STATISTIC.match(line)]
    # The request's own line holds the name of a node, which says nothing about what is held.
    held = [line for line in dump if "requested by op" not in line]
    return Message(
        error=errors[-1] if errors else None,
        asked=asked[-1][0] if asked else None,
        op=nodes[-1] if nodes else (asked[-1][1] if asked else None),
        shape=" ".join(shapes[-1]) if shapes else None,
        line=f"{lines[-1][0]}:{lines[-1][1]}" if lines else None,
        attempts=len(asked),
        dump_lines=len(dump),
        kinds=any(_KIND.search(line) for line in held),
        advice=tuple(advice for advice in _ADVICE if advice in stderr),
    )


def layer_in(op: str | None, layers: Iterable[str]) -> str | None:
    """The layer whose name stands in the name of a node, minus the number of a scope that is entered again."""
    known = set(layers)
    for part in reversed((op or "").split("/")):
        for name in (part, re.sub(r"_\d+$", "", part)):
            if name in known:
                return name
    return None
