import tensorflow as tf
from tensorflow.compat.v1 import ConfigProto

config = tf.compat.v1.ConfigProto()
config.gpu_options.allow_growth = True
session = tf.compat.v1.InteractiveSession(config=config)


def make_config():
    config = ConfigProto(gpu_options=tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=0.3))
    return config


def without_memory():
    other = ConfigProto()
    other.allow_soft_placement = True


options = tf.compat.v1.GPUOptions(allow_growth=True)
with tf.compat.v1.Session(config=ConfigProto(gpu_options=options)) as other:
    print(other.run("x:0"))
