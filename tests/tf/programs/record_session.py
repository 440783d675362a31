"""A program of TensorFlow 1: a graph, a session, and a loop that runs it."""

import tensorflow.compat.v1 as tf
from step_peaks import StepPeaks

tf.disable_v2_behavior()
with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, (None, 64), name="x")
    kernel = tf.get_variable("kernel", (64, 1024), use_resource=True)
    out = tf.get_variable("out", (1024, 1))
    hidden = tf.nn.relu(tf.matmul(x, kernel), name="hidden/relu")
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out)))
    train = tf.train.AdamOptimizer().minimize(loss)
    initialize = tf.global_variables_initializer()
    # Additions are refused from now on.
    graph.finalize()
    peaks = StepPeaks()
    with tf.Session() as session:
        session.run(initialize)
        for _ in range(14):
            with peaks:
                session.run([train, loss], {x: [[1.0] * 64] * 32})
            # A look at the loss is no step.
            session.run(loss, {x: [[1.0] * 64]})
peaks.print()
