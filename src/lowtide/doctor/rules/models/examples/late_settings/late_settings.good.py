import os

import tensorflow as tf

# These are read when the devices are set up, not by the import.
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        print(len(tf.config.list_logical_devices("GPU")))
    except RuntimeError as error:
        print(error)


def step():
    return tf.constant(1.0)


def configure():
    """This may run before anything else."""
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)


x = tf.constant([1.0, 2.0])
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"


def either(gpus, is_new):
    if is_new:
        return tf.constant(1.0)
    tf.config.set_visible_devices(gpus[:1], "GPU")
    return None
