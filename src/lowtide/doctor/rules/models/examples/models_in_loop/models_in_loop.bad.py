import keras
import numpy as np
import tensorflow as tf
from tensorflow.keras.models import Sequential

x, y = np.zeros((64, 4)), np.zeros((64, 1))

for units in range(8, 256, 8):
    model = Sequential([keras.layers.Dense(units), keras.layers.Dense(1)])  # bad
    model.compile("adam", "mse")
    model.fit(x, y)


def make_model(rate):
    inputs = keras.Input((4,))
    made = tf.keras.Model(inputs, keras.layers.Dense(1)(inputs))
    made.compile(keras.optimizers.Adam(rate), "mse")
    return made


def search(rates):
    best = None
    for rate in rates:
        net = make_model(rate)  # bad
        history = net.fit(x, y, verbose=0)
        loss = history.history["loss"][-1]
        best = loss if best is None else min(best, loss)
    return best


for number in range(50):
    make_model(number / 50).fit(x, y)  # bad


class Net(keras.Model):
    def call(self, x):
        return x


scores = []
for fold in range(100):
    net = Net()  # bad
    net.compile("sgd", "mse")
    for epoch in range(5):
        net.fit(x, y)
    scores.append(net.evaluate(x, y))
    del net
