import tensorflow as tf
from tensorflow import keras
from tensorflow.compat.v1 import ConfigProto

config = tf.compat.v1.ConfigProto()  # bad
config.gpu_options.allow_growth = True
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")


def setup():
    limits = ConfigProto(gpu_options=tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=0.3))  # bad
    limits.allow_soft_placement = True
    print(tf.config.list_physical_devices("GPU"))
