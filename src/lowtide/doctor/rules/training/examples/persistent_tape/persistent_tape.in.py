import tensorflow as tf

weight = tf.Variable(2.0)


def slope(x):
    with tf.GradientTape(persistent=True) as tape:
        y = weight * x
    return tape.gradient(y, weight)


def watched(x):
    with tf.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
        tape.watch(x)
        y = x**3
    return tape.gradient(y, x)


def by_position(x):
    with tf.GradientTape(True, True) as tape:
        y = weight * weight * x
    return tape.gradient(y, weight)


print(slope(3.0), watched(tf.constant(2.0)), by_position(5.0))
