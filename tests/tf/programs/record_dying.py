"""A training that ends in the way that is given."""

import ctypes
import os
import signal
import sys

import tensorflow as tf

weight = tf.Variable(tf.ones((256, 256)))


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(x @ weight))
    weight.assign_sub(0.01 * tape.gradient(loss, weight))


x = tf.ones((64, 256))
for _ in range(14):
    step(x)

if sys.argv[1] == "segmentation fault":
    ctypes.string_at(0)
elif sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[1] == "at once":
    os._exit(7)
elif sys.argv[1] == "code":
    # A child without a program of its own dies as it would have, too.
    child = os.fork()
    if child == 0:
        os.abort()
    print(os.WTERMSIG(os.waitpid(child, 0)[1]))
    sys.exit(3)
