"""Programs that XLA compiles: one for each new shape, though the function is traced once.

TensorFlow does not report how many there are. On the CPU the code of each is in an anonymous executable mapping, which
the system lists. If a compiled function is called from Python, the shapes of its arguments are recorded too.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from lowtide.tf.call_stack import user_line
from lowtide.tf.watch.finding import Finding
from lowtide.units import format_count

_MIN_SHAPES = 8
_MIN_SAMPLES = 6
_FREQUENT_SHARE = 0.4
# More shapes of one function than this are not recorded; the mappings still count them.
_MAX_SHAPES = 4096


class XlaProgramMonitor:
    """The shapes with which compiled functions were called, and the number of executable mappings."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.shapes: dict[str, dict[tuple, int]] = {}
        self.arguments: dict[str, list[str]] = {}
        self.lines: dict[str, str | None] = {}
        self.mappings: list[tuple[int, int]] = []

    def note_call(self, function: Any, arguments: tuple, keywords: dict[str, Any]) -> None:
        """Record the shapes of a compiled function's arguments; runs at each call, so it must be fast."""
        name = function._name
        self.calls[name] += 1
        shapes = self.shapes.setdefault(name, {})
        key = tuple([_shape(each) for each in arguments] + [_shape(each) for each in keywords.values()])
        if key not in shapes and len(shapes) < _MAX_SHAPES:
            shapes[key] = self.calls[name]
            self.lines[name] = user_line()
            self.arguments[name] = [*list(function.function_type.parameters)[: len(arguments)], *keywords]

    def sample(self, step: int) -> None:
        count = _executable_mappings()
        if count is not None:
            self.mappings.append((step, count))

    def findings(self, traced: dict[str, int], growth: int | None) -> list[Finding]:
        """Functions that are compiled repeatedly, except those that are traced as often (`traced`)."""
        found = [self._finding(name, traced.get(name, 0), growth) for name in self.shapes if self._is_frequent(name)]
        named = [finding for finding in found if finding is not None]
        if not found and _keeps_growing(self.mappings):
            rise = self.mappings[-1][1] - self.mappings[0][1]
            what = f"XLA keeps compiling: it has added {format_count(rise, 'piece')} of compiled code"
            named.append(_finding(what, "batches of new shapes in a step with jit_compile=True", None, growth))
        return named

    def _is_frequent(self, name: str) -> bool:
        calls = self.calls[name]
        recent = sum(call > calls / 2 for call in self.shapes[name].values())
        return len(self.shapes[name]) >= _MIN_SHAPES and recent >= _FREQUENT_SHARE * calls / 2

    def _finding(self, name: str, traced: int, growth: int | None) -> Finding | None:
        shapes = self.shapes[name]
        if traced >= len(shapes) / 2:
            return None
        index = _most_varied(shapes)
        shown = ", ".join(str(list(key[index] or ())) for key in list(shapes)[:3])
        names = self.arguments[name]
        argument = f"`{names[index]}`" if index < len(names) else f"number {index}"
        times = "once" if traced <= 1 else f"{traced} times"
        calls = format_count(self.calls[name], "call")
        what = f"`{name}` was compiled for {len(shapes)} shapes in {calls}, and traced {times}"
        return _finding(what, f"argument {argument}: a new shape ({shown}, …)", self.lines[name], growth)


def _shape(argument: Any) -> Any:
    quick = getattr(argument, "_shape_tuple", None)
    return getattr(argument, "shape", None) if quick is None else quick()


def _keeps_growing(mappings: list[tuple[int, int]]) -> bool:
    """Whether code is still added in the later half of the samples, not only by the first steps."""
    more = [after[1] > before[1] for before, after in pairwise(mappings)]
    recent = more[len(more) // 2 :]
    return sum(more) >= _MIN_SAMPLES and sum(recent) >= max(3, _FREQUENT_SHARE * len(recent))


def _most_varied(shapes: dict[tuple, int]) -> int:
    """The index of the argument with the most shapes."""
    counts = [len({key[index] for key in shapes if index < len(key)}) for index in range(max(map(len, shapes)))]
    return counts.index(max(counts))


def _finding(what: str, who: str, source: str | None, growth: int | None) -> Finding:
    fix = "pad to a few fixed shapes (drop_remainder=True, bucket_by_sequence_length), or do without jit_compile=True"
    return Finding("XLA shapes", what, who, source, growth, fix)


def _executable_mappings() -> int | None:
    try:
        with open("/proc/self/maps", "rb", buffering=0) as file:
            text = file.readall()
    except OSError:
        return None
    # Anonymous memory: offset 0, device 0, no inode, no path.
    return sum(text.count(permissions + b" 00000000 00:00 0 \n") for permissions in (b" r-xp", b" rwxp"))
