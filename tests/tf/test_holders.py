"""Tensors that are alive, and who keeps them, by names that their owner knows."""

import gc
from collections import deque

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


def test_a_ring_has_room_for_so_many():
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
