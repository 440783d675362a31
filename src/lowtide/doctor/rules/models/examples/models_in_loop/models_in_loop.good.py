import gc

import keras
import lowtide as lt
import numpy as np
from keras import backend as K

x, y = np.zeros((64, 4)), np.zeros((64, 1))


def make_model(rate):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(rate), "mse")
    return model


for rate in np.linspace(0.1, 0.001, 20):
    model = make_model(rate)
    model.fit(x, y)
    lt.release(model)
    del model

for rate in np.linspace(0.1, 0.001, 20):
    K.clear_session()
    model = make_model(rate)
    model.fit(x, y)
    gc.collect()

# All models of an ensemble are needed.
ensemble = []
for seed in range(10):
    model = make_model(0.1)
    model.fit(x, y)
    ensemble.append(model)

# Two models are no search.
for rate in (0.1, 0.01):
    model = make_model(rate)
    model.fit(x, y)


def cross_validate(splitter, rate):
    scores = []
    for train, test in splitter.split(x):
        model = make_model(rate)
        model.fit(x[train], y[train])
        scores.append(model.evaluate(x[test], y[test]))
    K.clear_session()
    return scores


model = make_model(0.1)
for epoch in range(100):
    model.fit(x, y)

# A deep model is one model.
layers = keras.Sequential()
for _ in range(100):
    part = keras.Sequential([keras.layers.Dense(4)])
    layers.add(part)


def first_good(rates):
    for rate in rates:
        model = make_model(rate)
        history = model.fit(x, y)
        if history.history["loss"][-1] < 0.1:
            return model
    return None

for fold in range(5):
    small = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
    small.compile("sgd", "mse")
    small.fit(np.zeros((8, 2)), np.zeros((8, 1)))

activations = ["elu", "selu", "relu"]
for number in range(len(activations)):
    small = keras.Sequential([keras.layers.Dense(8, activations[number])])
    small.compile("sgd", "mse")
    small.fit(np.zeros((8, 2)), np.zeros((8, 8)))

loss = 1.0
while loss > 0.01:
    small = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
    small.compile("sgd", "mse")
    loss = small.fit(x, y).history["loss"][-1]
