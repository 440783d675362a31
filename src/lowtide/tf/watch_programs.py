"""Programs that XLA compiled: one for each new shape, though the function is traced once.

TensorFlow does not say how many there are. On the CPU the code of each lies in memory of its own that can be executed and
belongs to no file, and the system lists those. Where a compiled function is called from Python, the shapes it was
called with are seen as well.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from lowtide.tf.finding import Finding
from lowtide.tf.hooks import user_line
from lowtide.tide.growth import growth_of

_FEWEST = 8
_OFTEN = 0.4
# Shapes of one function that are told apart; beyond that they are only counted by the mappings.
_MOST_SHAPES = 4096


class Programs:
    """The shapes with which compiled functions were called, and how many programs the process holds."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.shapes: dict[str, dict[tuple, int]] = {}
        self.lines: dict[str, str | None] = {}
        self.mappings: list[tuple[int, int]] = []

    def note_call(self, function: Any, arguments: tuple) -> None:
        """Note the shapes of a compiled function's arguments. This is done at each call, so it is kept short."""
        name = function._name
        self.calls[name] += 1
        shapes = self.shapes.setdefault(name, {})
        key = tuple([tuple(each.shape) for each in arguments if hasattr(each, "shape")])
        if key not in shapes and len(shapes) < _MOST_SHAPES:
            shapes[key] = self.calls[name]
            self.lines[name] = user_line()

    def read(self, step: int) -> None:
        count = _executable_mappings()
        if count is not None:
            self.mappings.append((step, count))

    def findings(self, traced: dict[str, int], growth: int | None) -> list[Finding]:
        """Functions that are compiled again and again; those that are traced as often (`traced`) are named there."""
        found = []
        for name, shapes in self.shapes.items():
            calls = self.calls[name]
            recent = sum(call > calls / 2 for call in shapes.values())
            if len(shapes) >= _FEWEST and recent >= _OFTEN * calls / 2 and traced.get(name, 0) < len(shapes) / 2:
                shown = ", ".join(str(list(key[_varying(shapes)])) for key in list(shapes)[:3])
                what = f"`{name}` was compiled for {len(shapes)} shapes in {calls} calls and traced {traced.get(name, 0)} times"
                who = f"argument {_varying(shapes)}: a new shape ({shown}, …)"
                found.append(_finding(what, who, self.lines[name], growth))
        if not found and self.mappings and growth_of(self.mappings) is not None:
            rise = self.mappings[-1][1] - self.mappings[0][1]
            what = f"XLA goes on compiling: {rise} pieces of compiled code were added"
            found.append(_finding(what, "batches of new shapes in a step with jit_compile=True", None, growth))
        return found


def _varying(shapes: dict[tuple, int]) -> int:
    """Which of the tensors among the arguments has most shapes."""
    counts = [len({key[index] for key in shapes if index < len(key)}) for index in range(max(map(len, shapes)))]
    return counts.index(max(counts))


def _finding(what: str, who: str, source: str | None, growth: int | None) -> Finding:
    fix = "pad to a few fixed shapes (drop_remainder=True, bucket_by_sequence_length), or leave out jit_compile=True"
    return Finding("XLA shapes", what, who, source, growth, fix)


def _executable_mappings() -> int | None:
    try:
        with open("/proc/self/maps", "rb", buffering=0) as file:
            text = file.readall()
    except OSError:
        return None
    # Anonymous memory: offset 0, device 0, no inode, no path.
    return sum(text.count(rights + b" 00000000 00:00 0 \n") for rights in (b" r-xp", b" rwxp"))
