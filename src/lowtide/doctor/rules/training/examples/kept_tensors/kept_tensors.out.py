import numpy as np
import tensorflow as tf

weights = tf.Variable(tf.ones((4, 4)))
dataset = tf.data.Dataset.from_tensor_slices(np.ones((64, 4), "float32")).batch(8)


@tf.function
def train_step(x):
    loss = tf.reduce_mean(tf.square(x @ weights))
    weights.assign_sub(0.01 * tf.ones((4, 4)))
    return loss


history = []
for epoch in range(3):
    for x in dataset:
        history.append(train_step(x).numpy())
print(np.mean(history), len(history))
