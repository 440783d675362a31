"""Functions that are traced repeatedly, and the cause: what differs from one trace to the next."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.util import tf_decorator

from lowtide.tf.call_stack import outermost_caller, user_line
from lowtide.tf.trace.source_lines import is_user_file
from lowtide.tf.watch.finding import Finding
from lowtide.units import format_count

_KERAS_LOOPS = frozenset(("fit", "evaluate", "predict"))
_DATASET = "Dataset_"
_TENSORFLOW = f"{os.sep}tensorflow{os.sep}python{os.sep}"
_LOOPS_TO_NAME = ("predict", "evaluate")
# Traces of one function that are compared; further ones are only counted.
_MAX_COMPARED = 64
# A function that is traced in this share of its recent calls will be traced further.
_FREQUENT_SHARE = 0.4
_MIN_TRACES = 5
# If a function is traced only now and then, such as once in an epoch, this number of traces shows that it continues. A
# learning rate that is a float keeps changing; phases of a training are few, and so are the shapes of buckets.
_MIN_TRACES_BY_CAUSE = {"float": 8, "shape": 32}
_MIN_TRACES_BY_OTHERS = 20
_MIN_DATASETS = 12
_EVERY_STEP_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class TracedLeaf:
    """One leaf of a traced argument: a tensor's shape and dtype, a Python value, or an object."""

    argument: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One trace of a function: the line that called it, the tf.function, and its arguments."""

    line: str | None
    function: int
    leaves: tuple[TracedLeaf, ...]


@dataclass(slots=True)
class TracedFunction:
    """All traces of one Python function, over all tf.functions that wrap it."""

    name: str
    loop: str | None
    traces: list[TraceEvent] = field(default_factory=list)
    calls_at: list[int] = field(default_factory=list)


class TraceMonitor:
    """Counts the calls of functions and records their traces."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.by_code: dict[tuple[str, int, str, str | None], TracedFunction] = {}
        self.compiles = False

    def note_trace(self, function_type: Any, options: Any) -> None:
        self.compiles = self.compiles or bool((options.attributes or {}).get("_XlaMustCompile"))
        if ops.inside_function():
            # Part of the trace of an outer function.
            return
        code = getattr(tf_decorator.unwrap(options.python_function)[1], "__code__", None)
        if code is not None and _TENSORFLOW in code.co_filename and not options.name.startswith(_DATASET):
            # TensorFlow's own functions, such as those that initialize variables, do not count.
            return
        # A user's function that a callback calls is not part of Keras's loop.
        own = code is not None and is_user_file(code.co_filename) and not options.name.startswith(_DATASET)
        loop = None if own else outermost_caller(_KERAS_LOOPS, f"{os.sep}keras{os.sep}")
        location = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
        traced = self.by_code.setdefault((*location, options.name, loop), TracedFunction(options.name, loop))
        traced.calls_at.append(self.calls[options.name])
        if len(traced.traces) < _MAX_COMPARED:
            function = id(options.function_cache)
            traced.traces.append(TraceEvent(user_line(), function, _leaves(function_type)))

    def findings(self, steps: int, growth: int | None) -> list[Finding]:
        """The functions that are still being traced; `growth` is that of the process, in bytes per step."""
        found = []
        loops: set[str] = set()
        for traced in self.by_code.values():
            loop = traced.loop
            if loop is None:
                found += (
                    _dataset_findings(traced, steps, growth)
                    if _is_of_dataset(traced)
                    else _retracing_findings(traced, self.calls[traced.name], growth)
                )
            elif loop in _LOOPS_TO_NAME and loop not in loops and _is_called_in_a_loop(traced, steps):
                loops.add(loop)
                found.append(_keras_loop(traced, loop, growth))
        return found


def _is_of_dataset(traced: TracedFunction) -> bool:
    """Whether this is a function of tf.data: never called from Python, and traced again for each new dataset."""
    return traced.name.startswith(_DATASET)


def _count_recent(calls_at: list[int], calls: int) -> int:
    """The number of traces in the later half of the calls."""
    return sum(call >= calls / 2 for call in calls_at)


def _retracing_findings(traced: TracedFunction, calls: int, growth: int | None) -> list[Finding]:
    count = len(traced.calls_at)
    # A function that creates variables is traced twice for one call; one that is traced to be saved is not called.
    if count < _MIN_TRACES or count > 2 * calls:
        return []
    recent = _count_recent(traced.calls_at, calls)
    cause = _cause(traced.traces)
    often = recent >= max(3, _FREQUENT_SHARE * calls / 2)
    continues = count >= _MIN_TRACES_BY_CAUSE.get(cause.kind, _MIN_TRACES_BY_OTHERS) and recent >= count / 3
    if not (often or continues):
        return []
    what = f"`{traced.name}` was traced {count} times in {format_count(max(calls, count), 'call')}"
    return [Finding("retracing", what, cause.description, _usual_line(traced), growth, cause.fix)]


def _dataset_findings(traced: TracedFunction, steps: int, growth: int | None) -> list[Finding]:
    """A pipeline that is built in each step; building one for each epoch is usual."""
    count = len(traced.calls_at)
    if count < _MIN_DATASETS or count < _EVERY_STEP_SHARE * steps:
        return []
    what = f"a dataset was built {count} times in {format_count(steps, 'step')}, and `{traced.name}` traced for each"
    fix = "build the dataset once, before the loop, and take batches from it"
    return [Finding("retracing", what, "a new dataset is created each time", _usual_line(traced), growth, fix)]


def _usual_line(traced: TracedFunction) -> str | None:
    return Counter(trace.line for trace in traced.traces).most_common(1)[0][0]


@dataclass(frozen=True, slots=True)
class _RetraceCause:
    kind: str
    description: str
    fix: str


def _cause(traces: list[TraceEvent]) -> _RetraceCause:
    """What differs between consecutive traces: of several arguments, the one with the most values."""
    if len({trace.function for trace in traces}) > len(traces) / 2:
        return _RetraceCause(
            "function",
            "a new tf.function is created each time",
            "create the tf.function once, outside of the loop, and call that one",
        )
    examples: dict[tuple[str, str], dict[str, None]] = {}
    for before, after in pairwise(traces):
        for argument, kind, texts in _differences(before, after):
            examples.setdefault((argument, kind), {}).update(dict.fromkeys(texts))
    if not examples:
        return _RetraceCause("other", "no argument differs: the scope or device it is called under does", _OTHER_FIX)
    argument, kind = max(examples, key=lambda key: len(examples[key]))
    shown = ", ".join(list(examples[argument, kind])[:3])
    return _RetraceCause(
        kind, f"argument `{argument}`: {_WORDS[kind]} ({shown}, …)", _FIXES[kind].format(argument=argument)
    )


def _differences(before: TraceEvent, after: TraceEvent) -> list[tuple[str, str, tuple[str, str]]]:
    if [leaf.argument for leaf in before.leaves] != [leaf.argument for leaf in after.leaves]:
        counts = (Counter(leaf.argument for leaf in trace.leaves) for trace in (before, after))
        first, second = counts
        names = [name for name in {**first, **second} if first[name] != second[name]]
        texts = {name: (_leaf_count(first[name]), _leaf_count(second[name])) for name in names}
        return [(name, "structure", texts[name]) for name in names]
    pairs = zip(before.leaves, after.leaves, strict=True)
    return [(a.argument, b.kind if a.kind == b.kind else "type", (a.text, b.text)) for a, b in pairs if a != b]


def _leaf_count(count: int) -> str:
    return format_count(count, "leaf", "leaves")


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
    "object": "create the object behind `{argument}` once, or pass what the step needs of it as tensors",
    "structure": "pass `{argument}` with the same structure each time",
    "type": "pass `{argument}` with the same type each time: a tensor of one dtype",
}


def _leaves(function_type: Any) -> tuple[TracedLeaf, ...]:
    return tuple(
        TracedLeaf(name, *_describe(leaf))
        for name, parameter in function_type.parameters.items()
        for leaf in _flat(parameter.type_constraint)
    )


def _flat(kind: Any) -> list[Any]:
    """The leaves of a traced type, whose containers have components, a mapping, or attributes."""
    parts = getattr(kind, "components", None)
    if parts is None and hasattr(kind, "mapping"):
        parts = list(kind.mapping.values())
    if parts is None and type(kind).__name__ in ("NamedTuple", "Attrs"):
        parts = getattr(kind, "attributes", None)
    if isinstance(parts, (list, tuple)):
        return [leaf for part in getattr(parts, "components", parts) for leaf in _flat(part)]
    return [kind]


def _describe(leaf: Any) -> tuple[str, str]:
    if isinstance(leaf, tf.TensorSpec):
        return "shape", f"{leaf.dtype.name}{leaf.shape}"
    value = getattr(leaf, "value", leaf)
    if isinstance(value, float):
        return "float", repr(value)[:40]
    if value is None or isinstance(value, (bool, int, complex, str, bytes)):
        return "value", repr(value)[:40]
    return "object", repr(leaf)[:60]


def _is_called_in_a_loop(traced: TracedFunction, steps: int) -> bool:
    count = len(traced.calls_at)
    return _is_of_dataset(traced) and count >= _MIN_DATASETS and count >= _FREQUENT_SHARE * steps


def _keras_loop(traced: TracedFunction, loop: str, growth: int | None) -> Finding:
    instead = (
        "model(x, training=False) or model.predict_on_batch(x)" if loop == "predict" else "model.test_on_batch(x, y)"
    )
    return Finding(
        f"{loop} in a loop",
        f"`model.{loop}` was called {len(traced.calls_at)} times, each with a new array;"
        " each call creates a dataset and traces its functions, which TensorFlow keeps",
        f"`model.{loop}` called for a batch or two at a time",
        _usual_line(traced),
        growth,
        f"call {instead} in the loop, or model.{loop} once for all of the data",
    )
