import tensorflow as tf
from tensorflow import keras


def read(path):
    image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (64, 64)), 0


model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("adam", "mse")
photos = tf.data.Dataset.list_files("photos/*.jpg").map(read)
model.fit(photos.batch(32).prefetch(tf.data.AUTOTUNE), epochs=3)
model.fit(photos.batch(32).cache("/tmp/photos.cache"))
model.evaluate(photos.batch(32))
for image, label in photos.batch(9).take(1):
    print(image.shape)
doubled = tf.data.Dataset.range(100).map(lambda i: i * 2).batch(32)
model.fit(doubled)
