"""One kernel for each momentum update, where it computes the same bits as the nodes that it replaces."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from lowtide.planning.rewrite.control_edges import has_cycle
from lowtide.planning.rewrite.momentum import KERNEL, MomentumUpdate, momentum_updates
from lowtide.program.graph import Graph
from lowtide.tf.plan.flatten import FlatFunction, node_of

_DTYPES = (tf.float32, tf.float64)
_TRIED = 4_099


def with_momentum_kernels(flat: FlatFunction, graph: Graph) -> FlatFunction:
    """Return the function with one node for each momentum update; `graph` is the same graph with shapes."""
    nodes = {node.name: node for node in flat.graph_def.node}
    updates = [update for update in momentum_updates(graph) if _is_exact(update, nodes)]
    if not updates:
        return flat
    stand_in = {other: update.addition for update in updates for other in update.others}
    by_name = {update.addition: update for update in updates}
    graph_def = graph_pb2.GraphDef(versions=flat.graph_def.versions, library=flat.graph_def.library)
    for node in flat.graph_def.node:
        if node.name in stand_in:
            continue
        made = graph_def.node.add()
        made.CopyFrom(node)
        data = [reference for reference in node.input if not reference.startswith("^")]
        waits = [reference for reference in node.input if reference.startswith("^")]
        update = by_name.get(node.name)
        if update is not None:
            places = (update.weight, update.slot, update.rate, update.gradient, update.momentum)
            data = [nodes[name].input[position] for name, position in places]
            for other in update.others:
                waits += [reference for reference in nodes[other].input if reference.startswith("^")]
            made.op = KERNEL
            made.attr.clear()
            made.attr["T"].type = node.attr["dtype"].type
            made.attr["use_locking"].b = made.attr["use_nesterov"].b = False
        waited = dict.fromkeys(stand_in.get(node_of(reference), node_of(reference)) for reference in waits)
        waited.pop(node.name, None)
        del made.input[:]
        made.input.extend([*data, *(f"^{name}" for name in waited)])
    if has_cycle((node_of(reference), node.name) for node in graph_def.node for reference in node.input):
        return flat
    control_results = list(dict.fromkeys(stand_in.get(name, name) for name in flat.control_results))
    return dataclasses.replace(flat, graph_def=graph_def, control_results=control_results)


def _is_exact(update: MomentumUpdate, nodes: dict[str, tf.compat.v1.NodeDef]) -> bool:
    """Whether an update is complete, on the CPU, and computed to the same bits by the kernel."""
    if not all(name in nodes for name in (update.addition, *update.others)):
        return False
    if any("GPU" in nodes[name].device or "TPU" in nodes[name].device for name in (update.addition, *update.others)):
        # Accelerators round a product and a sum only once.
        return False
    dtype = tf.as_dtype(nodes[update.addition].attr["dtype"].type)
    return dtype in _DTYPES and _computes_the_same(dtype)


@functools.cache
def _computes_the_same(dtype: tf.DType) -> bool:
    """Whether the kernel computes the same bits as separate ops, tested on random numbers."""
    rng = np.random.default_rng(0)

    def numbers() -> tf.Tensor:
        drawn = rng.standard_normal(_TRIED) * 10.0 ** rng.integers(-8, 4, _TRIED)
        return tf.constant(drawn, dtype)

    with tf.init_scope(), tf.device("CPU:0"):
        weight, slot, gradient = numbers(), numbers(), numbers()
        rate, momentum = tf.constant(0.0123, dtype), tf.constant(0.9, dtype)
        value = slot * momentum - gradient * rate
        kept, moved = tf.Variable(weight), tf.Variable(slot)
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=kept.handle, accum=moved.handle, lr=rate, grad=gradient, momentum=momentum
        )
        pairs = ((kept, weight + value), (moved, value))
        return all(found.numpy().tobytes() == wanted.numpy().tobytes() for found, wanted in pairs)
