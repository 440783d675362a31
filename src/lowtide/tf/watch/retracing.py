"""Functions that are traced again and again, and why: what differs from one trace to the next."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.util import tf_decorator

from lowtide.tf.trace.source_lines import is_user_file
from lowtide.tf.watch.call_stack import outermost_caller, user_line
from lowtide.tf.watch.finding import Finding

_KERAS_LOOPS = frozenset(("fit", "evaluate", "predict"))
_DATASET = "Dataset_"
_TENSORFLOW = f"{os.sep}tensorflow{os.sep}python{os.sep}"
_LOOPS_TO_NAME = ("predict", "evaluate")
# Traces that are kept for comparing; beyond that they are counted.
_COMPARED = 64
# A function that is traced in so large a share of its recent calls is not about to stop.
_OFTEN = 0.4
_FEWEST = 5
# Where it is traced now and then, if only once in an epoch, so many traces say that it goes on. A rate that is a float
# changes for ever; stages of a training are few, and so are the shapes of buckets.
_FEWEST_BY_CAUSE = {"float": 8, "shape": 32}
_FEWEST_BY_OTHERS = 20
_FEWEST_LOOPS = 12
_EACH_STEP = 0.9


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of an argument as it was traced: a tensor's shape and dtype, a value of Python, an object."""

    argument: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One tracing of a function: from which line, of which tf.function, and with what."""

    line: str | None
    function: int
    leaves: tuple[Leaf, ...]


@dataclass(slots=True)
class Traced:
    """All tracings of one function of the source, whatever objects it was wrapped in."""

    name: str
    loop: str | None
    traces: list[Trace] = field(default_factory=list)
    calls_at: list[int] = field(default_factory=list)


class Traces:
    """Counts the calls of functions and notes their tracings."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.by_code: dict[tuple[str, int, str, str | None], Traced] = {}
        self.compiles = False

    def note_trace(self, function_type: Any, options: Any) -> None:
        self.compiles = self.compiles or bool((options.attributes or {}).get("_XlaMustCompile"))
        if ops.inside_function():
            # Part of the function that is being traced around it.
            return
        code = getattr(tf_decorator.unwrap(options.python_function)[1], "__code__", None)
        if code is not None and _TENSORFLOW in code.co_filename and not options.name.startswith(_DATASET):
            # What TensorFlow makes to initialize variables and the like is no function of anybody's.
            return
        # A function of the user's that a callback calls is not part of Keras's loop.
        own = code is not None and is_user_file(code.co_filename) and not options.name.startswith(_DATASET)
        loop = None if own else outermost_caller(_KERAS_LOOPS, f"{os.sep}keras{os.sep}")
        place = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
        traced = self.by_code.setdefault((*place, options.name, loop), Traced(options.name, loop))
        traced.calls_at.append(self.calls[options.name])
        if len(traced.traces) < _COMPARED:
            function = id(options.function_cache)
            traced.traces.append(Trace(user_line(), function, _leaves(function_type)))

    def findings(self, steps: int, growth: int | None) -> list[Finding]:
        """The functions whose tracing goes on; `growth` is that of the process, in bytes per step."""
        found = []
        loops: set[str] = set()
        for traced in self.by_code.values():
            loop = traced.loop
            if loop is None:
                found += (
                    _datasets(traced, steps, growth)
                    if _of_dataset(traced)
                    else _retracing(traced, self.calls[traced.name], growth)
                )
            elif loop in _LOOPS_TO_NAME and loop not in loops and _is_called_in_a_loop(traced, steps):
                loops.add(loop)
                found.append(_keras_loop(traced, loop, growth))
        return found


def _of_dataset(traced: Traced) -> bool:
    """Functions of tf.data are never called from Python, and a dataset made anew in each epoch traces its own."""
    return traced.name.startswith(_DATASET)


def _recent(calls_at: list[int], calls: int) -> int:
    """How many of the tracings fall in the later half of the calls."""
    return sum(call >= calls / 2 for call in calls_at)


def _retracing(traced: Traced, calls: int, growth: int | None) -> list[Finding]:
    count = len(traced.calls_at)
    # A function that makes its variables is traced twice for a call; one that is traced to be saved is not called.
    if count < _FEWEST or count > 2 * calls:
        return []
    recent = _recent(traced.calls_at, calls)
    cause = _cause(traced.traces)
    often = recent >= max(3, _OFTEN * calls / 2)
    goes_on = count >= _FEWEST_BY_CAUSE.get(cause.kind, _FEWEST_BY_OTHERS) and recent >= count / 3
    if not (often or goes_on):
        return []
    what = f"`{traced.name}` was traced {count} times in {max(calls, count)} calls"
    return [Finding("retracing", what, cause.who, _usual_line(traced), growth, cause.fix)]


def _datasets(traced: Traced, steps: int, growth: int | None) -> list[Finding]:
    """A pipeline that is built in each step; one for each epoch is usual."""
    count = len(traced.calls_at)
    if count < _FEWEST_LOOPS or count < _EACH_STEP * steps:
        return []
    what = f"a dataset was built {count} times in {steps} steps, and `{traced.name}` traced for each"
    fix = "build the dataset once, before the loop, and take batches from it"
    return [Finding("retracing", what, "a new dataset is made each time", _usual_line(traced), growth, fix)]


def _usual_line(traced: Traced) -> str | None:
    return Counter(trace.line for trace in traced.traces).most_common(1)[0][0]


@dataclass(frozen=True, slots=True)
class _Cause:
    kind: str
    who: str
    fix: str


def _cause(traces: list[Trace]) -> _Cause:
    """What differed between a trace and the one before it: of several arguments, the one with most values."""
    if len({trace.function for trace in traces}) > len(traces) / 2:
        return _Cause(
            "function",
            "a new tf.function is made each time",
            "make the tf.function once, outside of the loop, and call that one",
        )
    examples: dict[tuple[str, str], dict[str, None]] = {}
    for before, after in pairwise(traces):
        for argument, kind, texts in _differences(before, after):
            examples.setdefault((argument, kind), {}).update(dict.fromkeys(texts))
    if not examples:
        return _Cause("other", "no argument differs: the scope or device it is called under does", _OTHER_FIX)
    argument, kind = max(examples, key=lambda key: len(examples[key]))
    shown = ", ".join(list(examples[argument, kind])[:3])
    return _Cause(kind, f"argument `{argument}`: {_WORDS[kind]} ({shown}, …)", _FIXES[kind].format(argument=argument))


def _differences(before: Trace, after: Trace) -> list[tuple[str, str, tuple[str, str]]]:
    if [leaf.argument for leaf in before.leaves] != [leaf.argument for leaf in after.leaves]:
        counts = (Counter(leaf.argument for leaf in trace.leaves) for trace in (before, after))
        first, second = counts
        names = [name for name in {**first, **second} if first[name] != second[name]]
        return [(name, "structure", (f"{first[name]} leaves", f"{second[name]} leaves")) for name in names]
    pairs = zip(before.leaves, after.leaves, strict=True)
    return [(a.argument, b.kind if a.kind == b.kind else "type", (a.text, b.text)) for a, b in pairs if a != b]


_OTHER_FIX = "call it in the same scope each time"
_WORDS = {
    "shape": "a new shape",
    "value": "a new Python value",
    "float": "a new Python value",
    "object": "a new Python object",
    "structure": "a new structure",
    "type": "a new type",
}
_FIXES = {
    "shape": "pad to a few fixed shapes, or state it with input_signature=[tf.TensorSpec([None, ...])]"
    " or reduce_retracing=True",
    "value": "pass `{argument}` as a tensor: tf.constant({argument}) or a tf.Variable",
    "float": "pass `{argument}` as a tensor: tf.constant({argument}) or a tf.Variable",
    "object": "make the object behind `{argument}` once, or pass what the step needs of it as tensors",
    "structure": "pass `{argument}` with the same structure each time",
    "type": "pass `{argument}` with the same type each time: a tensor of one dtype",
}


def _leaves(function_type: Any) -> tuple[Leaf, ...]:
    return tuple(
        Leaf(name, *_described(leaf))
        for name, parameter in function_type.parameters.items()
        for leaf in _flat(parameter.type_constraint)
    )


def _flat(kind: Any) -> list[Any]:
    """The leaves of a traced type. Its containers have components, a mapping, or attributes."""
    parts = getattr(kind, "components", None)
    if parts is None and hasattr(kind, "mapping"):
        parts = list(kind.mapping.values())
    if parts is None and type(kind).__name__ in ("NamedTuple", "Attrs"):
        parts = getattr(kind, "attributes", None)
    if isinstance(parts, (list, tuple)):
        return [leaf for part in getattr(parts, "components", parts) for leaf in _flat(part)]
    return [kind]


def _described(leaf: Any) -> tuple[str, str]:
    if isinstance(leaf, tf.TensorSpec):
        return "shape", f"{leaf.dtype.name}{leaf.shape}"
    value = getattr(leaf, "value", leaf)
    if isinstance(value, float):
        return "float", repr(value)[:40]
    if value is None or isinstance(value, (bool, int, complex, str, bytes)):
        return "value", repr(value)[:40]
    return "object", repr(leaf)[:60]


def _is_called_in_a_loop(traced: Traced, steps: int) -> bool:
    count = len(traced.calls_at)
    return _of_dataset(traced) and count >= _FEWEST_LOOPS and count >= _OFTEN * steps


def _keras_loop(traced: Traced, loop: str, growth: int | None) -> Finding:
    instead = (
        "model(x, training=False) or model.predict_on_batch(x)" if loop == "predict" else "model.test_on_batch(x, y)"
    )
    return Finding(
        f"{loop} in a loop",
        f"`model.{loop}` was called {len(traced.calls_at)} times with an array of its own;"
        " each call makes a dataset and traces its functions, which TensorFlow keeps",
        f"`model.{loop}` called for a batch or two at a time",
        _usual_line(traced),
        growth,
        f"call {instead} in the loop, or model.{loop} once for all of the data",
    )
