import tensorflow as tf
from tensorflow import data, function


def square(x):
    return x * x


for i in range(100):
    traced = tf.function(square)  # bad
    traced(tf.constant(2.0))

for batch in data.Dataset.range(100):
    print(function(square, jit_compile=True)(batch))  # bad

while True:

    @tf.function
    def step(x):  # bad
        return x + 1

    if step(tf.constant(1)) > 1:
        break


def gradient(x):
    compiled = tf.function(square)  # bad
    return compiled(x)


def train():
    for _ in range(1_000):
        gradient(tf.constant(2.0))
