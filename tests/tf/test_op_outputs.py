"""The dtypes of outputs in a graph file, for every op and as TensorFlow's registry declares them."""

import numpy as np
import pytest
import tensorflow as tf

from lowtide.atlas.atlas import Source
from lowtide.atlas.exports.output_dtypes import gives_reference, output_dtype
from lowtide.atlas.index_cache import open_atlas
from tests.tf.op_outputs import declare_outputs, registered_ops

# An op that a test or another package registers is in no graph of TensorFlow's own.
OPS = {op.name: op for op in registered_ops() if hasattr(tf.raw_ops, op.name)}
ANY, LISTED, COUNT = [tf.half, tf.int64, tf.bool, tf.string, tf.complex64], [tf.bool, tf.string, tf.double], 3


def node_of(op, definition: tf.compat.v1.GraphDef, *, with_defaults: bool) -> dict:
    """Add a node with attributes of different dtypes, as far as the op allows; return the dtypes in each attribute."""
    node = definition.node.add(name=op.name, op=op.name)
    values = {}
    for place, attribute in enumerate(op.attr):
        value = node.attr[attribute.name]
        if attribute.type == "type":
            allowed = list(attribute.allowed_values.list.type) or [dtype.as_datatype_enum for dtype in ANY]
            has_default = attribute.HasField("default_value")
            value.type = attribute.default_value.type if has_default else allowed[place % len(allowed)]
            values[attribute.name] = [value.type]
            if has_default and not with_defaults:
                del node.attr[attribute.name]
        elif attribute.type == "list(type)":
            value.list.type.extend(dtype.as_datatype_enum for dtype in LISTED)
            values[attribute.name] = list(value.list.type)
        elif attribute.type == "int":
            value.i = COUNT
        else:
            value.CopyFrom(attribute.default_value)
    return values


def outputs_of(op, values: dict) -> list[tuple[int, bool]]:
    outputs = []
    for output in op.output_arg:
        dtypes = values[output.type_list_attr or output.type_attr] if output.type == 0 else [output.type]
        outputs += [(dtype, output.is_ref) for dtype in dtypes] * (COUNT if output.number_attr else 1)
    return outputs


@pytest.mark.parametrize("with_defaults", [True, False], ids=["all attributes", "without defaults"])
def test_outputs_have_the_dtypes_that_tensorflow_declares(tmp_path, with_defaults):
    definition = tf.compat.v1.GraphDef()
    expected = {name: outputs_of(op, node_of(op, definition, with_defaults=with_defaults)) for name, op in OPS.items()}
    path = tmp_path / "graph.pb"
    path.write_bytes(definition.SerializeToString())
    atlas = open_atlas(Source(path, 0, path.stat().st_size, "graph"), cache=tmp_path / "cache")
    data = np.fromfile(path, np.uint8)
    found = {}
    for name, outputs in expected.items():
        node = atlas.find(name)
        found[name] = [
            (output_dtype(atlas, data, node, port), gives_reference(atlas, data, node, port))
            for port in range(len(outputs))
        ]
    first = {name: int(atlas.dtype[atlas.find(name)]) for name, outputs in expected.items() if outputs}
    wrong = {name: dtype for name, dtype in first.items() if dtype != expected[name][0][0]}
    assert wrong == {}, "the index knows another dtype"
    wrong = {name: declare_outputs(OPS[name]) for name in OPS if found[name] != expected[name]}
    assert wrong == {}, "python -m tests.tf.op_outputs writes the table"
