"""Run in a child: bfloat16 needs kernels that oneDNN may not have on this machine, and dies without them."""

from __future__ import annotations

import json
import os
import sys

os.environ |= {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

import keras
import numpy as np
from keras import layers

from lowtide.tf.plan.precision import restore_precision, set_precision


def nested() -> keras.Model:
    keras.utils.set_random_seed(1)
    inner = keras.Sequential(
        [keras.Input((6, 6, 8)), layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization()], name="inner"
    )
    inputs = keras.Input((8, 8, 3))
    hidden = inner(layers.Conv2D(8, 3, name="first")(inputs))
    hidden = layers.Dropout(0.1)(layers.Flatten()(hidden))
    outputs = layers.Dense(4, activation="softmax", name="last")(hidden)
    model = keras.Model(inputs, outputs)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(32, 8, 8, 3)).astype("float32"), generator.integers(0, 4, size=32)


def main(policy: str, path: str) -> dict:
    """Train plainly, in half precision, and plainly again, with a save and a load on the way."""
    model = nested()
    x, y = data()
    model.fit(x, y, epochs=2, verbose=0)
    weights = [np.array(weight) for weight in model.get_weights()]
    iterations = int(model.optimizer.iterations.numpy())
    plainly = model.predict(x, verbose=0)
    before = set_precision(model, policy)
    report = {
        "weights kept": all(map(np.array_equal, weights, model.get_weights())),
        "iterations": [iterations, int(model.optimizer.iterations.numpy())],
        "computes in": {name: model.get_layer(name).compute_dtype for name in ("first", "inner", "last")},
        "inside": [layer.compute_dtype for layer in model.get_layer("inner").layers],
        "variables": sorted({weight.dtype for weight in model.weights}),
        "off by": float(np.max(np.abs(model.predict(x, verbose=0) - plainly))),
        "output": str(model(x[:2]).dtype),
        "scaled": type(model.optimizer).__name__,
    }
    history = model.fit(x, y, epochs=12, verbose=0).history
    report["losses"] = [history["loss"][0], history["loss"][-1]]
    model.save(path)
    loaded = keras.models.load_model(path)
    same = np.max(np.abs(loaded.predict(x, verbose=0) - model.predict(x, verbose=0)))
    report["loaded"] = [float(same), loaded.get_layer("first").compute_dtype, type(loaded.optimizer).__name__]
    steps = [int(each.optimizer.iterations.numpy()) for each in (model, loaded)]
    report["loaded state"] = [steps, all(map(np.array_equal, *_state(model, loaded)))]
    loaded.fit(x, y, epochs=1, verbose=0)
    restore_precision(model, before)
    report["restored"] = [model.get_layer("first").compute_dtype, type(model.optimizer).__name__]
    report["loss after"] = model.fit(x, y, epochs=1, verbose=0).history["loss"][0]
    return report


def _state(*models: keras.Model) -> list[list[np.ndarray]]:
    return [[variable.numpy() for variable in model.optimizer.variables] for model in models]


if __name__ == "__main__":
    print(json.dumps({policy: main(policy, sys.argv[1]) for policy in sys.argv[2:]}))
