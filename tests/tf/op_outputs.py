"""The outputs of every op as TensorFlow declares them. `python -m tests.tf.op_outputs` writes the table of lowtide."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

import lowtide.atlas.index


def registered_ops() -> list[op_def_pb2.OpDef]:
    ops = pywrap_tf_session.TF_GetAllOpList()
    return list(op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(ops)).op)


def declare_outputs(op: op_def_pb2.OpDef) -> str:
    attributes = {attribute.name: attribute for attribute in op.attr}
    declared = []
    for output in op.output_arg:
        text = f"*{output.type_list_attr}" if output.type_list_attr else output.type_attr or str(output.type)
        if output.type_attr and attributes[output.type_attr].HasField("default_value"):
            text += f"={attributes[output.type_attr].default_value.type}"
        declared.append((f"{output.number_attr}*" if output.number_attr else "") + text + "&" * output.is_ref)
    return ",".join(declared)


def write_table() -> None:
    ops = defaultdict(list)
    for op in registered_ops():
        ops[declare_outputs(op)].append(op.name)
    lines = (f"{outputs}: {' '.join(sorted(names))}\n" for outputs, names in sorted(ops.items()) if outputs)
    Path(lowtide.atlas.index.__path__[0], "op_outputs.txt").write_text("".join(lines), "ascii")


if __name__ == "__main__":
    write_table()
