import tensorflow as tf


def square(x):
    return x * x


traced = tf.function(square)
for i in range(100):
    traced(tf.constant(2.0))

for options in ({}, {"jit_compile": True}):
    variant = tf.function(square, **options)
    variant(tf.constant(2.0))


def make_step(model):
    @tf.function
    def step(x):
        return model(x)

    return step


def train(model, batches):
    step = make_step(model)

    @tf.function
    def evaluate(x):
        return model(x, training=False)

    for x in batches:
        step(x)
        evaluate(x)


for epoch in range(100):
    train(square, [tf.constant(1.0)])
