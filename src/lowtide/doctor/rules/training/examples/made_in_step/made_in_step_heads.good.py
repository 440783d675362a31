import tensorflow as tf
from tensorflow import keras

features = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu")])
optimizer = keras.optimizers.SGD(0.1)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
tasks = tf.data.Dataset.from_tensor_slices((tf.zeros((4, 8)), tf.zeros((4,), tf.int32))).batch(2)

for images, labels in tasks:
    head = keras.layers.Dense(5)
    for _ in range(10):
        with tf.GradientTape() as tape:
            loss = loss_function(labels, head(features(images)))
        gradients = tape.gradient(loss, head.trainable_variables)
        optimizer.apply_gradients(zip(gradients, head.trainable_variables))
