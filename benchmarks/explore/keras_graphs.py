"""Graphs of a real model, EfficientNetV2L, as TensorFlow and Keras write them; for a process of its own.

python -m benchmarks.explore.keras_graphs FOLDER --output RESULT.json [--model MobileNetV2]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

# The number of nodes does not depend on the size of the images, and small ones are quicker to train on.
_SIDE, _BATCH, _CLASSES = 64, 2, 1000


def write_graphs(folder: Path, model_name: str) -> dict[str, int]:
    """Four forms of one model; returns how many nodes the training step and the frozen graph have."""
    import keras
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    build = getattr(keras.applications, model_name)
    model = build(weights=None, input_shape=(_SIDE, _SIDE, 3), classes=_CLASSES)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    images = tf.constant(np.zeros((_BATCH, _SIDE, _SIDE, 3), np.float32))
    labels = tf.constant(np.zeros(_BATCH, np.int64))

    @tf.function
    def step(x, y):  # type: ignore[no-untyped-def]
        return model.train_step((x, y))

    graph = step.get_concrete_function(images, labels).graph
    with tf.summary.create_file_writer(str(folder / "step")).as_default():
        tf.summary.graph(graph)

    with tf.summary.create_file_writer(str(folder / "trace")).as_default():
        tf.summary.trace_on(graph=True)
        step(images, labels)
        tf.summary.trace_export("step", step=0)

    model.export(str(folder / "saved"), verbose=False)

    called = tf.function(lambda x: model(x, training=False)).get_concrete_function(tf.TensorSpec(images.shape))
    frozen = convert_variables_to_constants_v2(called).graph.as_graph_def(add_shapes=True)
    (folder / "frozen.pb").write_bytes(frozen.SerializeToString())
    return {"step_nodes": len(graph.get_operations()), "frozen_nodes": len(frozen.node)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="EfficientNetV2L", help="one of keras.applications")
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(json.dumps(write_graphs(chosen.folder, chosen.model)))


if __name__ == "__main__":
    main()
