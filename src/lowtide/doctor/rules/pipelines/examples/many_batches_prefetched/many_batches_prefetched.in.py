from tensorflow import data as tf_data

size = 32
pairs = tf_data.Dataset.range(100).batch(size).prefetch(size)
print([each.sum() for each in pairs.as_numpy_iterator()])
for each in tf_data.Dataset.range(100).batch(4).prefetch(buffer_size=50):
    print(each.numpy())
