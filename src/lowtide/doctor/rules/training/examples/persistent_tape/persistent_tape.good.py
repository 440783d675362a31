import tensorflow as tf
from tensorflow import keras

generator = keras.Sequential([keras.layers.Dense(8)])
critic = keras.Sequential([keras.layers.Dense(1)])
first = keras.optimizers.Adam()
second = keras.optimizers.Adam()


@tf.function
def train_step(x):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(critic(generator(x)))
    first.apply_gradients(zip(tape.gradient(loss, generator.trainable_variables), generator.trainable_variables))
    second.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))


for step in range(100):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(critic(generator(tf.ones((8, 8)))))
    first.apply_gradients(zip(tape.gradient(loss, generator.trainable_variables), generator.trainable_variables))
    second.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
    del tape


def row_by_row(x):
    """One call in the text, several when it runs."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        rows = tf.unstack(generator(x))
    return [tape.gradient(row, x) for row in rows]


def in_a_loop(x, targets):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        made = [generator(x) for _ in targets]
    for each in made:
        print(tape.gradient(each, x))


def jacobian(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = generator(x)
    return tape.gradient(y, x), tape.jacobian(y, x, experimental_use_pfor=False)


def given_away(x, compute):
    with tf.GradientTape(persistent=True) as tape:
        y = generator(x)
    return tape.gradient(y, x), compute(tape, y)


with tf.GradientTape() as tape:
    loss = tf.reduce_mean(generator(tf.ones((8, 8))))
print(tape.gradient(loss, generator.trainable_variables))
x = tf.Variable(3.0)
with tf.GradientTape(persistent=True) as powers:
    square = x * x
    cube = square * x
print(powers.gradient(square, x), powers.gradient(cube, x))
again = [number for number in range(10)]
