"""A traced step as one flat graph."""

import keras
import tensorflow as tf
from keras import layers

from lowtide.planning.order.order import lowest_order
from lowtide.simulator.executor import execute
from lowtide.simulator.workload import build_workload
from lowtide.tf.plan.flatten import flatten
from lowtide.tf.trace.convert import graph_from_def
from lowtide.tf.trace.keras_models import prepare, train_function
from lowtide.tf.trace.resolve_shapes import resolve_shapes
from tests.unit.graphs import peak_of


def test_an_update_waits_for_its_own_gradient_only():
    """Keras's optimizers hand all gradients through one IdentityN, which Grappler takes out."""
    model = keras.Sequential([keras.Input((256,)), *(layers.Dense(256) for _ in range(4))])
    model.compile(optimizer="adam", loss="mse")
    specs = (tf.TensorSpec((8, 256)), tf.TensorSpec((8, 256)))
    prepare(model, specs)
    concrete = train_function(model).get_concrete_function(*specs)
    flat = flatten(concrete)
    assert not any(node.op == "IdentityN" for node in flat.graph_def.node)
    shapes = {index: tuple(tensor.shape) for index, tensor in enumerate(concrete.inputs[:2])}
    work = build_workload(resolve_shapes(graph_from_def(flat.graph_def), flat.graph_def, shapes), fold=False)
    found = lowest_order(work)
    plain = execute(work)
    before = sum(plain.sizes[buffer] for buffer in plain.before)
    kernel = 256 * 256 * 4
    # A gradient and what Adam makes of it, not four of them.
    assert 2 * kernel <= found.peak_bytes - before < 3 * kernel
    assert found.peak_bytes <= peak_of(plain)
