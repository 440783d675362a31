import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
loss_fn = keras.losses.MeanSquaredError()
every = 4


def over_steps(dataset):
    sums = [tf.zeros_like(each) for each in model.trainable_variables]
    for step, (x, y) in enumerate(dataset):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        sums = [old + new for old, new in zip(sums, gradients)]
        if (step + 1) % every == 0:
            optimizer.apply_gradients(zip(sums, model.trainable_variables))
            sums = [tf.zeros_like(each) for each in model.trainable_variables]


def over_pieces(dataset):
    for step, (x, y) in enumerate(dataset):
        sums = [tf.zeros_like(each) for each in model.trainable_variables]
        for piece in tf.split(x, every):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(piece))
            gradients = tape.gradient(loss, model.trainable_variables)
            sums = [old + new for old, new in zip(sums, gradients)]
        if tf.math.is_finite(loss):
            optimizer.apply_gradients(zip(sums, model.trainable_variables))


def two_losses(x, y, is_last):
    """The sum of the gradients of two losses of one step."""
    sums = [tf.zeros_like(each) for each in model.trainable_variables]
    for scale in (1.0, 0.5):
        with tf.GradientTape() as tape:
            loss = scale * loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        sums = [old + new for old, new in zip(sums, gradients)]
    if is_last:
        optimizer.apply_gradients(zip(sums, model.trainable_variables))


def reset_if_first(dataset):
    for step, (x, y) in enumerate(dataset):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        if step % every == 0:
            sums = [tf.zeros_like(each) for each in gradients]
        sums = [old + new for old, new in zip(sums, gradients)]
        if step % every == every - 1:
            optimizer.apply_gradients(zip(sums, model.trainable_variables))


def without_gaps(x, y):
    """Nothing is accumulated, and every step is applied."""
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = [tf.zeros_like(w) if g is None else g for g, w in zip(gradients, model.trainable_variables)]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


def with_a_second_loss(step, x, y):
    """The second loss counts in some steps only."""
    sums = [tf.zeros_like(each) for each in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    sums = [old + new for old, new in zip(sums, tape.gradient(loss, model.trainable_variables))]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    sums = [old + new for old, new in zip(sums, tape.gradient(loss, model.trainable_variables))]
    if step > 100:
        optimizer.apply_gradients(zip(sums, model.trainable_variables))
