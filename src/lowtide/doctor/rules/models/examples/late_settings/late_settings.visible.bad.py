import os

import tensorflow as tf
from tensorflow.config import list_physical_devices

print(list_physical_devices("GPU"))
os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # bad
strategy = tf.distribute.MirroredStrategy()
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # bad
