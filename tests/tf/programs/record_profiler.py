"""A script that profiles itself, just when the recorder would have listened."""

import sys
from pathlib import Path

import tensorflow as tf
from step_peaks import StepPeaks

weight = tf.Variable(tf.ones((256, 256)))


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(x @ weight))
    weight.assign_sub(0.01 * tape.gradient(loss, weight))


x = tf.ones((64, 256))
folder = Path(sys.argv[1])
peaks = StepPeaks()
for number in range(1, 19):
    if number == 9:
        tf.profiler.experimental.start(str(folder))
    with peaks:
        step(x)
    if number == 12:
        tf.profiler.experimental.stop()
peaks.print(profiles=len(list(folder.rglob("*.xplane.pb"))))
