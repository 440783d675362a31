import tensorflow as tf
from tensorflow import data
from tensorflow import keras


def read(path):
    image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (64, 64)), 0


def parse(record):
    features = tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([8], tf.float32)})
    return features["x"], 1.0


model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("adam", "mse")
photos = tf.data.Dataset.list_files("photos/*.jpg").map(read)
photos = photos.batch(32)  # bad
model.fit(photos, epochs=3)

records = data.TFRecordDataset(["a.tfrecord"]).map(parse).batch(32)  # bad


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    return tape.gradient(loss, model.trainable_variables)


for step, (x, y) in enumerate(records):
    train_step(x, y)
