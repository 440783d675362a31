"""Shapes that TensorFlow's inference gets wrong."""

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from lowtide.tf.trace.convert import graph_from_def
from lowtide.tf.trace.shapes import infer_shapes


@pytest.mark.parametrize("op", ["_MklNativePadWithConv2D", "_MklNativePadWithFusedConv2D"])
def test_a_convolution_with_fused_padding_has_the_shape_of_a_pad_and_a_convolution(op):
    if op_def_registry.get(op) is None:
        pytest.skip("this TensorFlow is built without oneDNN")
    graph_def = tf.compat.v1.GraphDef()
    image = graph_def.node.add(name="image", op="_Arg")
    image.attr["T"].type, image.attr["index"].i = tf.float32.as_datatype_enum, 0
    for name, value in (("filter", tf.zeros((7, 7, 3, 8))), ("paddings", [[0, 0], [3, 3], [3, 3], [0, 0]])):
        constant = graph_def.node.add(name=name, op="Const")
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        constant.attr["dtype"].type = constant.attr["value"].tensor.dtype
    convolution = graph_def.node.add(name="convolution", op=op, input=["image", "filter", "paddings", "^image"])
    convolution.attr["T"].type = tf.float32.as_datatype_enum
    convolution.attr["Tpaddings"].type = tf.int32.as_datatype_enum
    convolution.attr["strides"].list.i.extend([1, 2, 2, 1])
    convolution.attr["padding"].s = b"VALID"
    if "Fused" in op:
        convolution.attr["num_args"].i = 0

    graph = graph_from_def(graph_def)
    shapes = infer_shapes(graph, graph_def, {0: (4, 224, 224, 3)})
    assert shapes[graph.first_output[graph.names.index("convolution")]] == (4, 112, 112, 8)
