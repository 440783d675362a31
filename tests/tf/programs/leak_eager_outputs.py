"""Outputs of a model kept in a list by a function that runs eagerly; nothing says where a step ends."""

import json

import keras
import tensorflow as tf

import lowtide as lt

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256)])


def infer(batches):
    outputs = []
    with lt.Watch() as watch:
        for _ in range(batches):
            outputs.append(model(tf.ones((32, 64))))
    return watch.findings


print(json.dumps([finding.as_json() for finding in infer(40)]))
