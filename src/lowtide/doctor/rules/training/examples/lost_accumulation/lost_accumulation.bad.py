import keras
import tensorflow as tf
from tensorflow import zeros_like

model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
loss_fn = keras.losses.MeanSquaredError()
every = 4


def made_anew(dataset):
    for step, (x, y) in enumerate(dataset):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        sums = [zeros_like(each) for each in gradients]  # bad
        sums = [old + new for old, new in zip(sums, gradients)]
        if (step + 1) % every == 0:
            optimizer.apply_gradients(zip(sums, model.trainable_variables))


def zeroed_at_the_end(dataset):
    sums = [tf.zeros_like(each) for each in model.trainable_variables]
    for step, (x, y) in enumerate(dataset):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        for place, gradient in enumerate(gradients):
            sums[place] += gradient
        if (step + 1) % every == 0:
            optimizer.apply_gradients(zip(sums, model.trainable_variables))
        sums = [tf.zeros_like(each) for each in model.trainable_variables]  # bad


def begins_with_none(dataset):
    for step, (x, y) in enumerate(dataset):
        total = None  # bad
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        if total is None:
            total = gradients
        else:
            total = [old + new for old, new in zip(total, gradients)]
        if (step + 1) % every == 0:
            optimizer.apply_gradients(zip(total, model.trainable_variables))


class Trainer:
    def fit(self, dataset):
        sums = [tf.Variable(tf.zeros_like(each)) for each in model.trainable_variables]
        for step, (x, y) in enumerate(dataset):
            with tf.GradientTape() as tape:
                loss = loss_fn(y, model(x))
            gradients = tape.gradient(loss, model.trainable_variables)
            for each in sums:  # bad
                each.assign(tf.zeros_like(each))
            for total, gradient in zip(sums, gradients):
                total.assign_add(gradient)
            if step % every == every - 1:
                optimizer.apply_gradients(zip([each / every for each in sums], model.trainable_variables))


def in_each_call(step, x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    sums = [0] * len(gradients)  # bad
    sums = [tf.add(old, new) for old, new in zip(sums, gradients)]
    if step % every == 0:
        optimizer.apply_gradients(zip(sums, model.trainable_variables))
