import os

import tensorflow as tf

x = tf.constant([1.0, 2.0])
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  # bad
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # bad
os.environ["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"  # bad


def main():
    dataset = tf.data.Dataset.range(10)
    devices = tf.config.list_physical_devices("GPU")
    if devices:
        tf.config.set_logical_device_configuration(  # bad
            devices[0], [tf.config.LogicalDeviceConfiguration(memory_limit=1024)]
        )
    print(dataset)
