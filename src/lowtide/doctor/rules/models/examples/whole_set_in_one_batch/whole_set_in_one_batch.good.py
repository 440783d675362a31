import keras
import tensorflow as tf
from tensorflow.keras.datasets import mnist

(x_train, y_train), (x_test, y_test) = mnist.load_data()
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])
scores = model.predict(x_test, batch_size=64)
first = model(x_test[:100])
one = model(x_test[0:1])
# Points of two coordinates are small.
points = tf.random.uniform((20000, 2))
net = keras.Sequential([keras.layers.Dense(20, "tanh"), keras.layers.Dense(1)])
print(net(points))
# Labels are no images.
embedding = keras.Sequential([keras.layers.Embedding(10, 4)])
print(embedding(y_test[:1000]))
for batch in tf.data.Dataset.from_tensor_slices(tf.random.normal((200, 100))).batch(64):
    print(model(batch))
