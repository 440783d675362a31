"""The note of predictions where TensorFlow sees GPUs."""

import tensorflow as tf

import lowtide as lt
from lowtide.tf.trace.gpu_note import gpu_notes, notes_on_gpus


def test_the_note_names_what_was_never_checked():
    assert notes_on_gpus([]) == ()
    (one,) = notes_on_gpus(["/physical_device:GPU:0"])
    assert "sees a GPU" in one
    assert "prediction for CPU kernels" in one
    assert "not been checked on a GPU" in one
    (two,) = notes_on_gpus(["/physical_device:GPU:0", "/physical_device:GPU:1"])
    assert "sees 2 GPUs" in two


def test_a_prediction_has_the_note_if_and_only_if_tensorflow_sees_a_gpu():
    weights = tf.Variable(tf.ones((8, 8)))
    gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
    assert gpu_notes() == notes_on_gpus(gpus)
    for compiled in (False, True):
        step = tf.function(lambda x: tf.reduce_sum(x @ weights), jit_compile=compiled)
        notes = lt.predict(step, tf.TensorSpec((4, 8))).notes
        assert any("GPU" in note for note in notes) == bool(gpus)
