import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
loss_fn = keras.losses.MeanSquaredError()
dataset = tf.data.Dataset.from_tensor_slices((np.zeros((64, 4)), np.zeros((64, 1)))).batch(8)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


history = []
means = []
for epoch in range(20):
    losses = []
    for x, y in dataset:
        loss = train_step(x, y)
        history.append(float(loss))
        history.append(loss.numpy())
        # A list that lives for an epoch stays small.
        losses.append(loss)
    means.append(tf.reduce_mean(losses))

# A few numbers are no burden.
first = []
for x, y in dataset.take(5):
    first.append(train_step(x, y))

# A sum of tensors is one tensor.
total = 0.0
for x, y in dataset:
    total += train_step(x, y)

# The losses of the parts of one step are needed for its gradient.
for x, y in dataset:
    parts = []
    with tf.GradientTape() as tape:
        for head in range(3):
            loss = loss_fn(y, model(x))
            parts.append(loss)
        whole = tf.add_n(parts)
    optimizer.apply_gradients(zip(tape.gradient(whole, model.weights), model.weights))


def evaluate(data):
    """A list of the batches of one evaluation."""
    losses = []
    for inputs, targets in data:
        losses.append(loss_fn(targets, model(inputs)))
    return tf.reduce_mean(losses)


def policy_gradients(episodes, observe, rewards):
    """The gradients of each step get the weight of its reward when the episode is over."""
    for episode in range(episodes):
        gradients = []
        for step in range(500):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(observe(step)))
            gradients.append(tape.gradient(loss, model.trainable_variables))
        mean = [tf.reduce_mean(rewards * tf.stack(each), 0) for each in zip(*gradients)]
        optimizer.apply_gradients(zip(mean, model.trainable_variables))


def train_with_window(data):
    recent = []
    for inputs, targets in data:
        loss = train_step(inputs, targets)
        recent.append(loss)
        if len(recent) == 100:
            print(tf.reduce_mean(recent))
            recent = []
