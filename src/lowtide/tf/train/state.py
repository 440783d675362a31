"""What a training consists of besides its data: its variables, and the random generators of the process."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.random import seed_generator
from tensorflow.python.eager import context
from tensorflow.python.framework import op_def_registry
from tensorflow.python.ops import stateful_random_ops

# Objects with variables, whose attributes may be further ones: a GAN keeps two optimizers as attributes.
_OWNERS = (keras.Layer, keras.optimizers.Optimizer, keras.metrics.Metric, keras.losses.Loss, tf.Module)


def find_variables(model: Any, optimizers: Iterable[Any] = (), extra: Iterable[Any] = ()) -> list[Any]:
    """Return each variable of a training once, always in the same order, as variables of Keras or TensorFlow.

    These are the variables of the model (weights, averages, seeds), its metrics and optimizers, and those of optimizers
    and other objects that are given. `model` may be several models in a list or a dictionary. Optimizer slots and
    metrics count from when they are built: `prepare` of tf/trace builds them.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    for root in (model, list(optimizers), list(extra)):
        for variable in _variables_of(root, seen):
            value = variable if isinstance(variable, tf.Variable) else variable.value
            if isinstance(value, tf.distribute.DistributedValues):
                # One for each device of a strategy; averages and metrics differ between them.
                found.update({id(each.handle): each for each in value.values})
            else:
                found.setdefault(id(value.handle), variable)
    return list(found.values())


def has_variables(thing: Any) -> bool:
    """Whether a thing is of a kind that has variables, perhaps only after its first step."""
    kinds = (*_OWNERS, keras.Variable, tf.Variable, keras.random.SeedGenerator, tf.random.Generator)
    return isinstance(thing, kinds)


def _variables_of(thing: Any, seen: set[int]) -> Iterator[Any]:
    if isinstance(thing, (keras.Variable, tf.Variable)):
        yield thing
    elif isinstance(thing, (keras.random.SeedGenerator, tf.random.Generator)):
        yield thing.state
    elif isinstance(thing, (*_OWNERS, list, tuple, dict)) and id(thing) not in seen:
        seen.add(id(thing))
        if isinstance(thing, _OWNERS):
            yield from getattr(thing, "variables", ())
            yield from getattr(thing, "metrics_variables", ())
            members: Iterable[Any] = list(vars(thing).values())
        else:
            members = list(thing.values() if isinstance(thing, dict) else thing)
        for member in members:
            yield from _variables_of(member, seen)


def capture_random() -> dict[str, Any]:
    """Return the states of the process's random generators, as data for `save_state`.

    These are Python's and NumPy's global ones, TensorFlow's and Keras's if they were made, and the one from which
    operations without a seed get theirs. To be called in the thread that trains: Keras has one generator per thread.
    """
    state: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state(legacy=False)}
    keras_generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    if keras_generator is not None:
        state["keras"] = keras_generator.state.numpy()
    generator = stateful_random_ops.global_generator
    if generator is not None:
        state["tensorflow"] = (generator.state.numpy(), generator.algorithm)
    seeds = getattr(context.context(), "_rng", None)
    if seeds is not None:
        state["operations"] = seeds.getstate()
    return state


def restore_random(state: Mapping[str, Any]) -> None:
    """Bring the random generators to a state that `capture_random` returned."""
    if "keras" in state:
        # Made if this process has not needed it yet; its seed is drawn from Python's generator, so this comes first.
        seed_generator.global_seed_generator().state.assign(state["keras"])
    if "tensorflow" in state:
        values, algorithm = state["tensorflow"]
        if stateful_random_ops.global_generator is None:
            tf.random.set_global_generator(tf.random.Generator.from_state(values, algorithm))
        else:
            tf.random.get_global_generator().reset(values)
    if "operations" in state:
        seeds = getattr(context.context(), "_rng", None)
        if seeds is not None:
            seeds.setstate(state["operations"])
    np.random.set_state(state["numpy"])
    random.setstate(state["python"])


def find_unrestored_random(graph: tf.Graph) -> list[str]:
    """Return the nodes of a function's graph whose random state no checkpoint can contain, with their ops.

    An op such as that of `tf.random.normal` keeps its position in its kernel: in another process it starts again. Ops
    of `keras.random` and `tf.random.Generator` keep theirs in variables.
    """
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return [f"{node.name} ({node.op})" for node in nodes if _keeps_random_state(node.op)]


def _keeps_random_state(op: str) -> bool:
    # A call of a function is not a registered op.
    definition = op_def_registry.get(op)
    if definition is None or not definition.is_stateful:
        return False
    return {"seed", "seed2"} <= {attribute.name for attribute in definition.attr}
