import tensorflow as tf
from tensorflow import keras

tf.config.run_functions_eagerly(True)
print(tf.function(lambda x: x + 1)(tf.constant(1)))
tf.config.run_functions_eagerly(False)


class Printer(keras.Model):
    def train_step(self, data):
        print(data[0].numpy().mean())
        return super().train_step(data)


printer = Printer()
printer.compile("adam", "mse", run_eagerly=True)
printer.fit(tf.zeros((8, 4)), tf.zeros((8, 1)))
