import tensorflow as tf
from tensorflow import keras


def read(name):
    return tf.strings.to_number(tf.io.read_file(name))[None], 1.0


tf.io.write_file("/tmp/lowtide-example.txt", "2.5")
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
model.compile("sgd", "mse")
numbers = (
    tf.data.Dataset.from_tensor_slices(["/tmp/lowtide-example.txt"] * 4)
    .map(read)
    .batch(2)
)
print(model.fit(numbers, verbose=0).history["loss"])
