"""Probes of single ops: run one op on the real BFC allocator and note each byte its kernel takes.

`python probe.py THREADS OUT` is the child process: it traces every case twice, once with inputs that have
another reference and once with inputs that have none (a copy made just for the op, so that the kernel may take
its buffer over), runs all of them under the profiler, and writes what it saw as JSON. The parent process
reads that with `run_probes` and compares it with the op's fact; it needs no TensorFlow.
"""

from __future__ import annotations

import json
import sys
import tempfile
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Input:
    """A tensor made for the probe: random contents below `high`, or one-hot-like for probabilities."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    high: int = 2


@dataclass(frozen=True)
class Variable:
    """A resource variable, passed by its handle."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Case:
    """One op with the shapes of its inputs. An input that is a NumPy array becomes a constant."""

    op: str
    inputs: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    chance: float = 0.0
    """The share of the temporaries that a run may do without: 0 where the fact is exact."""

    @property
    def label(self) -> str:
        shapes = "_".join(_input_label(value) for value in self.inputs.values())
        extra = "_".join(f"{key}={value}" for key, value in self.attributes.items())
        return f"{self.op}-{shapes}-{extra}".strip("-").replace(" ", "")


def _input_label(value: Any) -> str:
    if isinstance(value, list):
        return "[" + "_".join(_input_label(item) for item in value) + "]"
    if isinstance(value, Input | Variable):
        return "x".join(map(str, value.shape)) + ("" if value.dtype == "float32" else value.dtype)
    return "c" + "x".join(map(str, np.asarray(value).ravel()[:6]))


@dataclass(frozen=True)
class Observed:
    """One run of an op: its node as TensorFlow saw it, and what its kernel allocated."""

    attributes: dict[str, Any]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    kept: list[int]
    """Requested bytes of each buffer that outlives the kernel."""
    peak_extra: int
    """Chunk bytes beyond those kept, at the kernel's peak."""
    stream: list[tuple[int, str]]
    """Each allocation (bytes) and free (minus bytes) with its region type, in order."""
    ran_as_expensive: bool
    """Whether the executor took the kernel for expensive; it notes the time of no other."""
    error: str | None = None


@dataclass(frozen=True)
class Probes:
    """All that one child process saw: (index of the case, inputs free) -> the run; and the ops it knows."""

    runs: dict[tuple[int, bool], Observed]
    registered_ops: set[str]


def run_probes(cases: list[Case], intra_op_threads: int) -> Probes:
    """Run all cases in a child process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "observed.json"
        # The child runs this file, and imports tests.children only here, in the parent.
        from tests.children import run_python

        Path(folder, "cases.pickle").write_bytes(_pickle(cases))
        done = run_python(
            __file__, intra_op_threads, folder, limit_mib=2000, ends_well=False, TF_ENABLE_ONEDNN_OPTS="0"
        )
        if not out.exists():
            raise RuntimeError(f"the probe process failed:\n{done.stderr[-3000:]}")
        seen = json.loads(out.read_text())
    runs = {(row["case"], row["free"]): _observed(row) for row in seen["rows"]}
    return Probes(runs, set(seen["registered_ops"]))


def _pickle(cases: list[Case]) -> bytes:
    import pickle

    rows = [(case.op, _plain_inputs(case.inputs), case.attributes) for case in cases]
    return pickle.dumps(rows)


def _plain_inputs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_inputs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_inputs(item) for item in value]
    if isinstance(value, Input):
        return ("input", value.shape, value.dtype, value.high)
    if isinstance(value, Variable):
        return ("variable", value.shape, value.dtype)
    return np.asarray(value)


def _observed(row: dict[str, Any]) -> Observed:
    names = ("attributes", "inputs", "outputs", "kept", "peak_extra", "stream", "ran_as_expensive", "error")
    return Observed(**{name: row[name] for name in names})


# ---------------------------------------------------------------------------------------------------------
# The child process.


def _child(threads: int, folder: Path) -> None:
    import pickle

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    rows, runs = [], []
    for index, case in enumerate(pickle.loads(Path(folder, "cases.pickle").read_bytes())):
        names = [f"probe{index}{kind}" for kind in ("held", "free")]
        pair = [_empty_row(index, free) for free in (False, True)]
        rows += pair
        try:
            arguments, traced = _trace(tf, case, names)
            results = tf.nest.flatten(traced(*arguments))
        except Exception as error:  # reported by the test as a broken probe
            for row in pair:
                row["error"] = f"{type(error).__name__}: {error}"[:500]
            continue
        for row, name in zip(pair, names, strict=True):
            row |= _describe(tf, traced, name, results[: len(results) // 2])
        runs.append((names, pair, arguments, traced))
    spans, memory = _record(tf, runs, folder)
    for names, pair, _, _ in runs:
        for name, row in zip(names, pair, strict=True):
            row |= _read_stream(spans, memory, name)
    Path(folder, "observed.json").write_text(json.dumps({"rows": rows, "registered_ops": _registered_ops()}))


def _registered_ops() -> list[str]:
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    ops = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return [op.name for op in op_def_pb2.OpList.FromString(ops).op]


def _empty_row(index: int, free: bool) -> dict[str, Any]:
    row = {"case": index, "free": free, "error": None, "attributes": {}, "inputs": [], "outputs": []}
    return row | {"kept": [], "peak_extra": 0, "stream": [], "ran_as_expensive": False}


def _trace(tf: Any, case: tuple, names: list[str]) -> tuple[list[Any], Any]:
    """The arguments of a probe and the function that runs the op twice: first on held inputs, then on free ones."""
    op, inputs, attributes = case
    arguments: list[Any] = []

    def prepare(value: Any) -> Any:
        if isinstance(value, list):
            return [prepare(item) for item in value]
        if isinstance(value, np.ndarray):
            return value
        arguments.append(_make(tf, value))
        return len(arguments) - 1

    prepared = {key: prepare(value) for key, value in inputs.items()}

    def fill(value: Any, given: list[Any]) -> Any:
        if isinstance(value, list):
            return [fill(item, given) for item in value]
        return given[value] if isinstance(value, int) else tf.constant(value)

    def run(name: str, given: list[Any]) -> list[Any]:
        made = {key: fill(value, given) for key, value in prepared.items()}
        result = _apply(tf, op, name, made | attributes)
        return [] if isinstance(result, tf.Operation) or result is None else tf.nest.flatten(result)

    def body(*given: Any) -> Any:
        held = run(names[0], list(given))
        graph = tf.compat.v1.get_default_graph()
        # The kernel may take over a buffer without another reference: a copy made for it alone.
        first = graph.get_operation_by_name(names[0])
        with tf.control_dependencies([first]):
            owned = [x if x.dtype == tf.resource else tf.raw_ops.DeepCopy(x=x) for x in given]
        with tf.control_dependencies([first, *owned]):
            return held + run(names[1], owned)

    # Shapes are left open where the kernel asks for the shape only: else a constant would take its place.
    is_open = op in ("Shape", "ShapeN", "Size", "Rank")
    specs = [x if x.dtype == tf.resource else tf.TensorSpec(None if is_open else x.shape, x.dtype) for x in arguments]
    return arguments, tf.function(body, autograph=False).get_concrete_function(*specs)


def _apply(tf: Any, op: str, name: str, arguments: dict[str, Any]) -> Any:
    """The op's outputs. Ops that only rewriting passes make have no Python function."""
    if hasattr(tf.raw_ops, op):
        return getattr(tf.raw_ops, op)(**arguments, name=name)
    from tensorflow.python.framework import op_def_library

    return op_def_library._apply_op_helper(op, name=name, **arguments)[2].outputs


def _make(tf: Any, value: tuple) -> Any:
    generator = np.random.default_rng(7)
    kind, shape, dtype = value[:3]
    real = tf.as_dtype(dtype)
    if kind == "variable":
        return tf.Variable(tf.cast(tf.fill(shape, 0.5), real)).handle
    if real.is_floating or real.is_complex:
        array = generator.random(shape, dtype=np.float32)
    else:
        array = generator.integers(0, value[3], shape)
    return tf.cast(tf.constant(array), real)


def _describe(tf: Any, traced: Any, name: str, results: list[Any]) -> dict[str, Any]:
    """The node as lowtide's graph holds it: plain attributes, shapes, dtypes, constants."""
    operation = traced.graph.get_operation_by_name(name)
    inputs = []
    for tensor in operation.inputs:
        value = None
        if tensor.op.type == "Const":
            array = tf.make_ndarray(tensor.op.get_attr("value"))
            value = array.tolist() if array.size < 1024 else None
        shape = tensor.shape.as_list() if tensor.shape.rank is not None else None
        inputs.append({"shape": shape, "dtype": tensor.dtype.as_datatype_enum, "value": value})
    outputs = [{"shape": list(x.shape), "dtype": x.dtype.as_datatype_enum} for x in results]
    attributes = {key: _plain(value) for key, value in operation.node_def.attr.items()}
    return {"attributes": attributes, "inputs": inputs, "outputs": outputs}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "list":
        for entry, items in value.list.ListFields():
            return [_plain_item(entry.name, item) for item in items]
        return []
    return _plain_item(kind, getattr(value, kind))


def _plain_item(kind: str, item: Any) -> Any:
    if kind == "s":
        return item.decode("latin-1")
    if kind == "shape":
        return None if item.unknown_rank else [dim.size for dim in item.dim]
    return item if isinstance(item, int | float | bool) else str(item)


def _record(tf: Any, runs: list[Any], folder: Path) -> tuple[dict[str, tuple[int, int]], list[Any]]:
    """Run each probe once more under the profiler: the span of each node, and all events of the allocator."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
    tf.profiler.experimental.start(str(folder), options)
    for _, _, arguments, traced in runs:
        traced(*arguments)
    tf.profiler.experimental.stop()
    (path,) = folder.rglob("*.xplane.pb")
    spans: dict[str, tuple[int, int]] = {}
    memory: list[Any] = []
    for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
        stat_names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                begin = line.timestamp_ns * 1000 + event.offset_ps
                if name.startswith("probe"):
                    spans[name.partition(":")[0]] = (begin, begin + event.duration_ps)
                elif name in ("MemoryAllocation", "MemoryDeallocation"):
                    stats = {stat_names[stat.metadata_id]: stat for stat in event.stats}
                    texts = [_text(stats.get(key), stat_names) for key in ("region_type", "tf_op")]
                    numbers = [_number(stats[key]) for key in ("addr", "requested_bytes")]
                    memory.append((begin, name, *numbers, *texts))
    return spans, sorted(memory)


def _number(stat: Any) -> int:
    return getattr(stat, stat.WhichOneof("value"))


def _text(stat: Any, stat_names: dict[int, str]) -> str:
    return "" if stat is None else stat.str_value or stat_names.get(stat.ref_value, "")


def _read_stream(spans: dict[str, tuple[int, int]], memory: list[Any], name: str) -> dict[str, Any]:
    """What happened on any thread while the node's kernel ran."""
    # Cheap and asynchronous kernels leave no span; then the allocator's own note of the node has to do.
    begin, end = spans.get(name, (memory[0][0], memory[-1][0]))
    has_span = name in spans
    stream: list[tuple[int, str]] = []
    alive: dict[int, int] = {}
    in_use = peak = 0
    for row in range(bisect_left(memory, (begin,)), len(memory)):
        time, kind, address, size, region, node = memory[row]
        if time > end:
            break
        # Without a span it is not known when outputs were freed: they count as kept.
        if not has_span and (node != name or kind != "MemoryAllocation"):
            continue
        if kind == "MemoryAllocation":
            alive[address] = size
            in_use += -(-size // 256) * 256
            stream.append((size, region))
        else:
            in_use -= -(-alive.pop(address) // 256) * 256 if address in alive else 0
            stream.append((-size, region))
        peak = max(peak, in_use)
    kept = list(alive.values())
    return {"kept": kept, "peak_extra": peak - in_use, "stream": stream, "ran_as_expensive": has_span}


if __name__ == "__main__":
    _child(int(sys.argv[1]), Path(sys.argv[2]))
