import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
cell = keras.layers.SimpleRNNCell(4)
optimizer = keras.optimizers.SGD()
loss_fn = keras.losses.MeanSquaredError()
dataset = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)

for epoch in range(5):
    for x, y in dataset:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))


def unrolled(sequence, state):
    """Backpropagation through time needs all steps of the sequence."""
    with tf.GradientTape() as tape:
        for x in tf.unstack(sequence, axis=1):
            output, state = cell(x, state)
        loss = tf.reduce_mean(output)
    return tape.gradient(loss, cell.trainable_variables)


def adapted(tasks):
    """The steps of an inner loop of meta-learning are differentiated."""
    with tf.GradientTape() as outer:
        total = 0.0
        for support_x, support_y, query_x, query_y in tasks:
            with tf.GradientTape() as inner:
                loss = loss_fn(support_y, model(support_x))
            inner.gradient(loss, model.trainable_variables)
            total += loss_fn(query_y, model(query_x))
    return outer.gradient(total, model.trainable_variables)


def meta(dataset):
    with tf.GradientTape() as outer:
        total = 0.0
        for x, y in dataset:
            with tf.GradientTape() as inner:
                loss = loss_fn(y, model(x))
            total += tf.reduce_sum(inner.gradient(loss, model.trainable_variables)[0])
    return outer.gradient(total, model.trainable_variables)


def two_batches(data):
    with tf.GradientTape() as tape:
        total = 0.0
        for x, y in data.take(2):
            total += loss_fn(y, model(x))
    return tape.gradient(total, model.trainable_variables)


def many_heads(x, heads):
    with tf.GradientTape() as tape:
        total = 0.0
        for head in heads:
            total += tf.reduce_mean(head(model(x)))
    return tape.gradient(total, model.trainable_variables)
