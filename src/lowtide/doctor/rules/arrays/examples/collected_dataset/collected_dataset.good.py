import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow import keras

train = keras.utils.image_dataset_from_directory("flowers", batch_size=32)
few = list(train.take(2))
labels = np.concatenate([y for x, y in train])
shapes = [x.shape for x, y in train]
users = list(tfds.load("movielens/100k-ratings", split="train").map(lambda each: each["user_id"]))
only_labels = list(train.map(lambda x, y: y))
first = next(iter(train))
print(list(tf.data.Dataset.range(10).as_numpy_iterator()))
print([each.numpy() for each in tf.data.Dataset.from_tensor_slices([1, 2, 3])])
files = list(tf.data.Dataset.list_files("photos/*.jpg"))
train_split, test_split = list(tfds.load("mnist", split=["train", "test"]))
total = train.reduce(0, lambda count, _: count + 1)


def collect(dataset):
    return list(dataset)


for batch in train.as_numpy_iterator():
    print(batch[0].mean())
