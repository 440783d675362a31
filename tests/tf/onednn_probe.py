"""The child process of the oneDNN probes: trace each case, run all under the profiler, write what was seen.

`python onednn_probe.py THREADS OUT` runs each case twice: with inputs that have another reference, and with copies
that have none, which a kernel may take over.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from onednn_cases import CASES, Case
from tensorflow.python.eager import context
from tensorflow.python.framework import kernels
from tensorflow.tsl.profiler.protobuf import xplane_pb2


def main(threads: int, out: Path) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    rows, runs = [], []
    for index, case in enumerate(CASES):
        for free in (False, True):
            arguments = [tf.random.uniform(shape) for shape in case.shapes]
            traced, node, graph = _trace(case, f"case{index}{'free' if free else 'held'}", free, arguments)
            row = {"case": index, "free": free, "node": None}
            if node is not None:
                row |= {"node": node.name, **_describe(traced, node, graph, arguments)}
            rows.append(row)
            runs.append((traced, arguments))
    events = _record(runs)
    for row in rows:
        mine = [event for event in events if event.get("tf_op") == row["node"]]
        row |= {"op": CASES[row["case"]].op, "label": CASES[row["case"]].label}
        row["allocations"] = [(event["requested_bytes"], event.get("region_type", "")) for event in mine]
    registered = {kernel.op for kernel in kernels.get_all_registered_kernels().kernel}
    found = {
        "rows": rows,
        "kernels": sorted(op for op in registered if "Mkl" in op),
        "allocators": sorted({event["allocator_name"] for event in events}),
        "memory": tf.config.experimental.get_memory_info("CPU:0"),
    }
    out.write_text(json.dumps(found))


def _trace(case: Case, scope: str, free: bool, arguments: list[Any]) -> tuple[Any, Any, Any]:
    def body(*given: Any) -> Any:
        with tf.name_scope(scope):
            owned = [tf.raw_ops.DeepCopy(x=x) for x in given] if free else given
            return tf.nest.flatten(case.function(*owned))

    specs = [tf.TensorSpec(argument.shape) for argument in arguments]
    traced = tf.function(body, autograph=False).get_concrete_function(*specs)
    run = context.context()
    run.enable_run_metadata()
    traced(*arguments)
    graph = run.export_run_metadata().function_graphs[-1].partition_graphs[0]
    run.disable_run_metadata()
    return traced, next((node for node in graph.node if node.op == case.op), None), graph


def _describe(traced: Any, node: Any, graph: Any, arguments: list[Any]) -> dict[str, Any]:
    """The node as lowtide's graph holds it. TensorFlow keeps the names of nodes that it rewrites."""
    by_name = {other.name: other for other in graph.node}
    inputs = []
    for reference in node.input:
        if not reference.startswith("^"):
            name, _, port = reference.partition(":")
            inputs.append(_tensor(traced, by_name[name], int(port or 0), arguments))
    outputs = [_tensor(traced, node, 0, arguments)]
    attributes = {key: _plain(value) for key, value in node.attr.items() if not key.startswith("_")}
    return {"attributes": attributes, "inputs": inputs, "outputs": outputs}


def _tensor(traced: Any, node: Any, port: int, arguments: list[Any]) -> dict[str, Any]:
    if node.op == "_Arg":
        return {"shape": list(arguments[node.attr["index"].i].shape), "value": None}
    if node.op == "Const":
        array = tf.make_ndarray(node.attr["value"].tensor)
        return {"shape": list(array.shape), "value": array.tolist(), "dtype": int(node.attr["dtype"].type)}
    operation = traced.graph.get_operation_by_name(node.name)
    known = port < len(operation.outputs) and operation.outputs[port].shape.is_fully_defined()
    return {"shape": operation.outputs[port].shape.as_list() if known else None, "value": None}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "list":
        items = [list(entries) for _, entries in value.list.ListFields()]
        return [item.decode() if isinstance(item, bytes) else item for item in (items[0] if items else [])]
    item = getattr(value, kind)
    return item.decode("latin-1") if isinstance(item, bytes) else item if isinstance(item, int | float) else str(item)


def _record(runs: list[Any]) -> list[dict[str, Any]]:
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options)
        for traced, arguments in runs:
            traced(*arguments)
        tf.profiler.experimental.stop()
        (path,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    events = []
    for plane in space.planes:
        names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            events.extend(
                {names[stat.metadata_id]: _value(stat, names) for stat in event.stats}
                for event in line.events
                if plane.event_metadata[event.metadata_id].name == "MemoryAllocation"
            )
    return events


def _value(stat: Any, names: dict[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    return names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
