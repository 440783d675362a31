import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD()
loss_fn = keras.losses.MeanSquaredError()
dataset = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 1)))).batch(8)

for epoch in range(5):
    with tf.GradientTape() as tape:  # bad
        total = 0.0
        for x, y in dataset:
            total += loss_fn(y, model(x))
    gradients = tape.gradient(total, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


def train(train_ds, epochs):
    with tf.GradientTape(persistent=True) as recorder:  # bad
        for _ in range(epochs):
            for step, (images, labels) in enumerate(train_ds):
                loss = loss_fn(labels, model(images, training=True))
                gradients = recorder.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables))


class Trainer:
    @tf.function
    def epoch(self, loader):
        with tf.GradientTape() as tape:  # bad
            losses = []
            for images, labels in loader:
                losses.append(loss_fn(labels, model(images)))
            loss = tf.add_n(losses)
        return tape.gradient(loss, model.trainable_variables)
