import keras
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LinearRegression
from tensorflow.keras import layers, models

model = models.Sequential([keras.Input((4,)), layers.Dense(2)])
x_test = np.load("x_test.npy")
predictions = model.predict(x_test, batch_size=256)
for epoch in range(100):
    model.predict(x_test)
for x in x_test:
    model(x[None], training=False)
for batch in tf.data.TFRecordDataset(["a.tfrecord"]).batch(32):
    model.predict_on_batch(batch)
for batch in tf.data.TFRecordDataset(["a.tfrecord"]).batch(32).take(3):
    model.predict(batch)
data = tf.data.TFRecordDataset(["a.tfrecord"]).batch(32)
for iteration in range(len(x_test)):
    model.predict(data)
    if iteration % 1_000 == 0:
        model.predict(x_test)
for path in ("a.npy", "b.npy"):
    model.predict(np.load(path))
for i in range(9):
    model.predict(x_test[i : i + 1])

linear = LinearRegression().fit(x_test, x_test)
for i in range(1_000):
    linear.predict(x_test[i : i + 1])


def given(model, rows):
    for row in range(1_000):
        model.predict(rows[row])


class Player(keras.Model):
    def predict(self, x):
        return tf.argmax(self(x), axis=-1)


player = Player()
for _ in range(1_000):
    player.predict(x_test[:1])

while True:
    model.predict(x_test[int(input("row: "))][None])


def score(model, test_dataset, rounds):
    for _ in range(rounds):
        model.predict(test_dataset)


with tf.compat.v1.Session():
    for i in range(1_000):
        model.predict(x_test[i : i + 1])

error = 1.0
while error > 0.1:
    model.fit(x_test, x_test)
    error = np.abs(model.predict(x_test) - x_test).mean()

chosen = np.random.randint(0, 3_000, 5)
for place in chosen:
    model.predict(x_test[place][None])
