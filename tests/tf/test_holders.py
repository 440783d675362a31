"""Tensors that are alive, and what keeps them, named as in the user's program."""

import gc
import linecache
import sys
import types
from collections import deque
from typing import ClassVar, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from lowtide.tf.references.holders import kept_tensors

in_a_global = []


class Trainer:
    def __init__(self):
        self.history = {"loss": []}


class Slotted:
    __slots__ = ("value",)


def tensor(size):
    return tf.zeros((size, 7), tf.float32)


def holder_of(size):
    (kept,) = (kept for kept in kept_tensors(addresses=False) if kept.shape == (size, 7))
    assert kept.bytes == size * 7 * 4
    assert kept.dtype == "float32"
    return kept


def test_a_global():
    in_a_global.append(tensor(101))
    kept = holder_of(101)
    in_a_global.clear()
    assert kept.holder == "global `in_a_global` of test_holders.py"
    # The line that fills it: the one above with `append`.
    assert kept.source is not None
    assert kept.source.startswith("test_holders.py:")


def test_globals_of_many_modules():
    """Dictionaries are alike only in their type, which says nothing about where their content comes from."""
    modules = [types.ModuleType(f"module_{number}") for number in range(8)]
    for number, module in enumerate(modules):
        module.kept = tensor(3000 + number)
        exec("def read(): return kept", vars(module))
        sys.modules[module.__name__] = module
    holders = [holder_of(3000 + number).holder for number in range(8)]
    for module in modules:
        del sys.modules[module.__name__]
    assert holders == [f"global `kept` of module_{number}" for number in range(8)]


def test_a_local_and_a_list_in_it():
    alone = tensor(102)
    several = [{"deep": (tensor(103),)}]
    assert holder_of(102).holder == "local `alone` of test_a_local_and_a_list_in_it"
    assert holder_of(103).holder == "local `several['deep']` of test_a_local_and_a_list_in_it"
    assert alone is not several


def test_an_attribute_of_a_class_of_the_users():
    trainer = Trainer()
    trainer.history["loss"].append(tensor(104))
    keep = [trainer]
    assert holder_of(104).holder == "attribute `history['loss']` of Trainer"
    slotted = Slotted()
    slotted.value = tensor(105)
    keep.append(slotted)
    assert holder_of(105).holder == "attribute `value` of Slotted"


def load():
    return tensor(125)


def test_the_line_is_that_of_a_call_without_arguments_but_not_of_an_empty_container():
    rows = load()
    ring = deque()
    ring.append(tensor(126))
    for size, line in ((125, "rows = load()"), (126, "ring.append(tensor(126))")):
        source = holder_of(size).source
        assert source is not None
        assert linecache.getline(__file__, int(source.rpartition(":")[2])).strip() == line
    assert rows is not ring


class Shared:
    store: ClassVar = {"loss": []}


class Heir(Shared):
    pass


def test_an_attribute_of_a_class_itself():
    Heir.store["loss"].append(tensor(123))
    found = holder_of(123)
    assert found.holder == "attribute `store['loss']` of class Shared"
    assert found.source is not None
    assert linecache.getline(__file__, int(found.source.rpartition(":")[2])).lstrip().startswith("Heir.store")
    Shared.store["loss"].clear()


def test_a_closure_and_a_generator():
    def make():
        captured = tensor(106)
        return lambda: captured

    def produce():
        buffered = tensor(107)
        yield 1
        yield buffered

    function, generator = [make()], [produce()]
    next(generator[0])
    assert holder_of(106).holder.startswith("closure `captured` of function")
    assert holder_of(107).holder == "local `buffered` of generator produce"
    assert function


def test_a_deque_with_a_maximum_length_is_bounded():
    ring = deque([tensor(108)], maxlen=4)
    plain = deque([tensor(109)])
    places = [tensor(110), None]
    assert [holder_of(size).bounded for size in (108, 109, 110)] == [True, False, True]
    assert ring
    assert plain
    assert places


def test_what_a_tape_keeps_has_no_name():
    source = tf.Variable(tf.ones((111, 7)))
    with tf.GradientTape(persistent=True) as tape:
        total = tf.reduce_sum(tf.exp(source))
    # exp is held for its own gradient, and by nothing in Python.
    holders = {kept.holder for kept in kept_tensors(addresses=False) if kept.shape == (111, 7)}
    assert any("GradientTape" in holder for holder in holders)
    assert tape.gradient(total, source) is not None


def test_the_address_is_where_the_bytes_lie():
    value = tf.random.normal((112, 7))
    (kept,) = (kept for kept in kept_tensors() if kept.shape == (112, 7))
    capsule = tf.experimental.dlpack.to_dlpack(value)
    again = tf.experimental.dlpack.from_dlpack(capsule)
    assert kept.address is not None
    assert kept.address == np.asarray(again).__array_interface__["data"][0]


def test_asking_keeps_nothing_alive():
    def ask():
        short = tensor(113)
        assert holder_of(113).holder == "local `short` of ask"
        del short
        gc.collect()
        return [kept for kept in kept_tensors(addresses=False) if kept.shape == (113, 7)]

    assert ask() == []


@pytest.mark.parametrize("count", [500])
def test_many_tensors_in_one_list_are_all_named(count):
    many = [tf.zeros((114, 7)) for _ in range(count)]
    kept = [kept for kept in kept_tensors(min_bytes=114 * 7 * 4, addresses=False) if kept.shape == (114, 7)]
    assert len(kept) == count == len(many)
    assert {each.holder for each in kept} == {"local `many` of test_many_tensors_in_one_list_are_all_named"}


COUNT = 300


class Record:
    def __init__(self, value):
        self.value = value


class Pair(NamedTuple):
    first: tf.Tensor
    second: tf.Tensor


def roots_of(size):
    gc.collect()
    return {kept.root for kept in kept_tensors(addresses=False) if kept.shape == (size, 7)}


def _fail(size):
    value = tensor(size)
    raise ValueError(value.shape)


def _error(size):
    try:
        _fail(size)
    except ValueError as error:
        return error


def _later(size):
    held = tensor(size)
    return lambda value=held: value


def _chain(size):
    head = None
    for _ in range(COUNT):
        head = (tensor(size), head)
    return head


@pytest.mark.parametrize(
    "make",
    [
        lambda: [(tensor(115), 1.0) for _ in range(COUNT)],
        lambda: [{"loss": tensor(115), "deep": [(tensor(115),)]} for _ in range(COUNT)],
        lambda: {step: (step, (tensor(115), (tensor(115),))) for step in range(COUNT)},
        lambda: deque([tensor(115)] for _ in range(COUNT)),
        lambda: [Record(tensor(115)) for _ in range(COUNT)],
        lambda: [Pair(tensor(115), tensor(115)) for _ in range(COUNT)],
        lambda: np.array([*(Record(tensor(115)) for _ in range(COUNT)), None], object),
        lambda: [_later(115) for _ in range(COUNT)],
        lambda: [_error(115) for _ in range(COUNT)],
        lambda: _chain(115),
        lambda: {tensor(115).ref() for _ in range(COUNT)},
    ],
    ids="tuples dicts nested deque objects named-tuples array functions errors linked references".split(),
)
def test_what_holds_many_containers_is_named(make):
    kept = make()
    assert roots_of(115) == {"local `kept` of test_what_holds_many_containers_is_named"}
    assert kept is not None


def test_a_default_argument_has_its_name():
    def collect(value, seen=[]):  # noqa: B006
        seen.append(value)

    keep = [collect]
    keep[0](tensor(116))
    assert holder_of(116).holder == "default `seen` of function test_a_default_argument_has_its_name.collect"


def test_a_class_is_searched_for_the_line_in_its_own_code():
    class Collector:
        def __init__(self):
            self.several = []

        def add(self, value):
            self.several.append(value)

    keep = [Collector()]
    keep[0].add(tensor(117))
    kept = holder_of(117)
    assert kept.holder.startswith("attribute `several` of test_a_class_is")
    # `several` is also a variable of a test above.
    assert kept.source == f"test_holders.py:{Collector.add.__code__.co_firstlineno + 1}"


class Spy(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.holders = set()

    def on_train_batch_end(self, batch, logs=None):
        self.holders |= {(kept.holder, kept.source) for kept in kept_tensors(addresses=False)}


def test_what_fit_keeps_is_described_without_names_of_keras():
    model = keras.Sequential([keras.Input((118,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    spy = Spy()
    model.fit(np.ones((16, 118), "float32"), np.ones((16, 1), "float32"), batch_size=8, verbose=0, callbacks=[spy])
    described = {holder: source for holder, source in spy.holders if "`fit`" in holder}
    assert "the dataset iterator of `fit`" in described
    assert all(source.startswith("test_holders.py:") for source in described.values())
    assert not [holder for holder, _ in spy.holders if "._" in holder or "epoch_iterator" in holder]


class LookingArray:
    """An array that looks for tensors while TensorFlow converts it."""

    def __init__(self):
        self.holders = []

    def __array__(self, *arguments, **options):
        self.holders += [kept.holder for kept in kept_tensors(addresses=False) if kept.shape == (119, 7)]
        return np.zeros((119, 7), "float32")


def test_a_tensor_that_is_being_made_is_left_out():
    """It has no handle yet; its type is a pointer to nothing."""
    looking = LookingArray()
    tf.constant(looking)
    tf.constant(looking)
    assert len(looking.holders) <= 1
    before = len(kept_tensors(addresses=False))
    kept = tensor(120)
    assert len(kept_tensors(addresses=False)) == before + 1
    assert kept.shape == (120, 7)


def test_what_a_function_of_tensorflow_is_given_is_described_by_its_name():
    looking = LookingArray()
    tf.stack([tensor(119), looking])
    assert looking.holders == ["the running call of `stack`"]
