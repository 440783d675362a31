"""Small files of every sort that lowtide reads, as TensorFlow and Keras write them: what damage starts from."""

from __future__ import annotations

import sys
from pathlib import Path


def write_seeds(folder: Path) -> None:
    """Write one file of each sort. TensorFlow is imported here, so this is for a process of its own."""
    import keras
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    @tf.function
    def step(x):  # type: ignore[no-untyped-def]
        for _ in tf.range(3):
            x = tf.nn.relu(x @ tf.ones((4, 4)))
        return tf.reduce_sum(x)

    x = tf.ones((2, 4))
    with tf.summary.create_file_writer(str(folder / "graph")).as_default():
        tf.summary.graph(step.get_concrete_function(x).graph)
    with tf.summary.create_file_writer(str(folder / "trace")).as_default():
        tf.summary.trace_on(graph=True)
        step(x)
        tf.summary.trace_export("step", step=0)

    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        total = tf.compat.v1.placeholder(tf.float32, (2,), name="x") + 1.0
        metadata, options = config_pb2.RunMetadata(), config_pb2.RunOptions(output_partition_graphs=True)
        session.run(total, {"x:0": [1, 2]}, options=options, run_metadata=metadata)
        writer = tf.compat.v1.summary.FileWriter(str(folder / "session"), graph)
        writer.add_run_metadata(metadata, "run")
        writer.close()
        tf.compat.v1.train.export_meta_graph(str(folder / "model.meta"), graph_def=graph.as_graph_def())

    inputs = keras.Input((4,), name="x")
    chain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.1)], name="chain")
    model = keras.Model(inputs, keras.layers.Add()([chain(inputs), keras.layers.Dense(3)(inputs)]), name="net")
    model.save(folder / "model.keras")
    model.export(str(folder / "saved"), verbose=False)
    callback = keras.callbacks.TensorBoard(str(folder / "keras"))
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_train_end()

    frozen = convert_variables_to_constants_v2(tf.function(model).get_concrete_function(x)).graph.as_graph_def()
    (folder / "frozen.pb").write_bytes(frozen.SerializeToString())
    (folder / "frozen.pbtxt").write_text(text_format.MessageToString(frozen))
    library = step.get_concrete_function(x).graph.as_graph_def()
    (folder / "library.pbtxt").write_text(text_format.MessageToString(library))


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))
