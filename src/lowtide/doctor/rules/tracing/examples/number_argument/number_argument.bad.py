import tensorflow as tf
from tensorflow import function


@tf.function
def step(x, i):
    return x * tf.cast(i, tf.float32)


x = tf.ones((8, 8))
for i in range(1_000):
    step(x, i)  # bad

rate = 0
while rate < 10:
    step(x, rate)  # bad
    rate += 0.5


@function(jit_compile=True)
def update(x, rate=0.1):
    return x * rate


for number, batch in enumerate(tf.data.Dataset.range(100)):
    current = 0.1 * 0.99**number
    update(tf.cast(batch, tf.float32), rate=current)  # bad


class Trainer:
    @tf.function(reduce_retracing=True)
    def step(self, x, i):
        return x * i

    def run(self, x, steps):
        for i in range(steps):
            self.step(x, float(i))  # bad
