from tensorflow import data as tf_data

size = 32
pairs = tf_data.Dataset.range(100).batch(size).prefetch(tf_data.AUTOTUNE)
print([each.sum() for each in pairs.as_numpy_iterator()])
for each in tf_data.Dataset.range(100).batch(4).prefetch(buffer_size=tf_data.AUTOTUNE):
    print(each.numpy())
