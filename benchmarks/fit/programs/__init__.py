"""The programs of the suite, with all variables made: a compiled Keras model, or a step written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from benchmarks.accuracy.batches import data_specs
from benchmarks.fit.programs import generative, images, sequences
from benchmarks.fit.suite import Case

BUILDERS: dict[str, Callable[..., Any]] = {**images.BUILDERS, **sequences.BUILDERS, **generative.BUILDERS}


@dataclass(frozen=True)
class Program:
    """What can be trained: a step of a batch, and everything that it changes."""

    models: tuple[keras.Model, ...]
    optimizers: tuple[keras.optimizers.Optimizer, ...]
    specs: tuple[Any, ...]
    forward: Callable[..., Any]
    """The forward pass of a batch alone."""
    step: Callable[..., Any] | None = None
    """The step of a program that is no Keras model with a `train_step`."""

    @property
    def model(self) -> keras.Model | None:
        """The Keras model that `fit` trains; None where a loop of the program's own does."""
        return self.models[0] if self.step is None else None

    def variables(self) -> dict[str, dict[str, tf.Variable]]:
        """All that a step may change, by kind and name."""
        found: dict[str, dict[str, tf.Variable]] = {"weights": {}, "averages": {}, "seeds": {}, "optimizer": {}}
        for number, model in enumerate(self.models):
            trained = {id(variable) for variable in model.trainable_variables}
            for index, variable in enumerate(model.variables):
                kind = "weights" if id(variable) in trained else "averages"
                kind = "seeds" if variable.name == "seed_generator_state" else kind
                found[kind][f"{number}/{index}/{variable.path}"] = variable.value
        for number, optimizer in enumerate(self.optimizers):
            for index, variable in enumerate(optimizer.variables):
                found["optimizer"][f"{number}/{index}/{variable.path}"] = variable.value
        return found


def build(case: Case, batch_size: int | None = None, descent: bool = False) -> Program:
    """The program of a case, from the same seed each time; with `descent` a step just subtracts the gradient."""
    keras.utils.set_random_seed(0)
    batch_size = batch_size or case.batch_size
    built = BUILDERS[case.name]()
    if isinstance(built, keras.Model):
        if descent:
            images.compile_model(built, built.loss, keras.optimizers.SGD(1.0))
        specs = data_specs(built, batch_size)
        return Program((built,), (built.optimizer,), specs, lambda inputs, *_: built(inputs, training=True))
    models, optimizers, specs, forward, step = built(batch_size)
    return Program(models, optimizers, specs, forward, step)


def make_batch(specs: tuple[Any, ...], seed: int = 0) -> tuple[Any, ...]:
    """A batch of random numbers, made by ops, so that it lies in TensorFlow's allocator as a real one would."""
    count = iter(range(seed * 100, seed * 100 + 100))
    return tf.nest.map_structure(lambda spec: _random_tensor(spec, (7, next(count))), specs)


def _random_tensor(spec: tf.TensorSpec, seed: tuple[int, int]) -> tf.Tensor:
    if not spec.dtype.is_integer:
        return tf.random.stateless_uniform(spec.shape, seed, dtype=spec.dtype)
    is_label = spec.name is not None and spec.name.startswith("labels")
    most = images.CLASSES if is_label else sequences.VOCABULARY
    return tf.random.stateless_uniform(spec.shape, seed, maxval=most, dtype=spec.dtype)
