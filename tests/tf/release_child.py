"""What the allocator says while models come and go, and whether those that stay still work. Prints JSON."""

import gc
import json
import os

os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "true"
os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = "1024"

import keras
import numpy as np
import tensorflow as tf

import lowtide as lt
from lowtide.tf.watch.release import dead_models

keras.utils.set_random_seed(0)
x, y = np.ones((16, 64), "float32"), np.ones((16, 1), "float32")


def in_use():
    gc.collect()
    return tf.config.experimental.get_memory_info("CPU:0")["current"]


def fitted():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y, verbose=0)
    model.evaluate(x, y, verbose=0)
    return model


def build_and_drop(times, *, release):
    figures = []
    for _ in range(times):
        model = fitted()
        if release:
            lt.release(model)
        del model
        keras.backend.clear_session()
        figures.append(in_use())
    return figures


def as_json(released):
    return {name: getattr(released, name) for name in released.__slots__}


def sharing():
    """Two models share a layer; one is released. The other one goes on, also where it has to be traced again."""
    shared, inputs = keras.layers.Dense(32, activation="relu"), keras.Input((64,))
    kept = keras.Model(inputs, keras.layers.Dense(1)(shared(inputs)))
    other = keras.Model(inputs, keras.layers.Dense(1)(shared(inputs)))
    for model in (kept, other):
        model.compile("adam", "mse")
        model.fit(x, y, verbose=0)
    scaled = tf.custom_gradient(lambda value: (value * 2.0, lambda upstream: upstream * 3.0))

    # Traced before the release and differentiated after it: its gradient is looked up only then.
    feature = tf.function(lambda value: tf.reduce_sum(scaled(shared(value)[:, :1] * 0.0 + value[:, :1])))
    feature(tf.constant(x))
    before = shared.kernel.numpy().copy()
    released = lt.release(other)
    del other
    gc.collect()
    kept.fit(x, y, verbose=0)
    kept.fit(x[:5], y[:5], verbose=0)
    kept.compile("sgd", "mse")
    kept.fit(x, y, verbose=0)
    value = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(value)
        total = feature(value)
    return {
        "entries": released.entries,
        "trained": bool(np.any(shared.kernel.numpy() != before)),
        "prediction_is_finite": bool(np.isfinite(kept.predict(x, verbose=0)).all()),
        "gradient": tape.gradient(total, value)[0, 0].numpy().item(),
    }


def used_again():
    model = fitted()
    lt.release(model)
    model.fit(x, y, epochs=3, verbose=0)
    return {
        "iterations": int(model.optimizer.iterations),
        "prediction_is_finite": bool(np.isfinite(model.predict(x, verbose=0)).all()),
        "entries": lt.release(model).entries,
    }


fitted()
results = {"kept": build_and_drop(3, release=False), "dead": [model.bytes for model in dead_models()]}
results["all"] = as_json(lt.release())
results["released"] = build_and_drop(3, release=True)
results["dead_after"] = len(dead_models())
results["sharing"] = sharing()
results["used_again"] = used_again()
print(json.dumps(results))
