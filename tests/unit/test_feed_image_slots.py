"""Slots of decoded images: batches from them, what happens when they are full, and readers at the same time."""

import threading

import numpy as np

from lowtide.feed.readers.image_slots import ImageSlots

SHAPE = (2, 3, 1)


def image(key):
    return np.full(SHAPE, key[0] * 1_000 + key[1], np.float32)


def make(slots):
    return ImageSlots(slots, SHAPE, image)


def test_batches_are_gathered_in_any_order_and_their_slots_are_free_again():
    slots = make(4)
    for low in range(0, 40, 4):
        for position in (low + 3, low, low + 1, low + 2):
            slots.put((0, position), image((0, position)))
        keys = [(0, low + each) for each in range(4)]
        np.testing.assert_array_equal(slots.take(keys), np.stack([image(key) for key in keys]))
    assert slots.decoded_again == 0


def test_images_of_iterators_that_are_gone_are_replaced():
    slots = make(3)
    for position in range(3):
        slots.put((0, position), image((0, position)))
    for position in range(3):
        slots.put((1, position), image((1, position)))
    assert slots.take([(1, position) for position in range(3)])[:, 0, 0, 0].tolist() == [1_000, 1_001, 1_002]
    assert slots.decoded_again == 0


def test_an_image_that_was_replaced_is_decoded_again():
    slots = make(2)
    for position in range(3):
        slots.put((0, position), image((0, position)))
    assert slots.take([(0, position) for position in range(3)])[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert slots.decoded_again == 1


def test_the_same_image_twice_takes_one_slot():
    slots = make(2)
    for _ in range(5):
        slots.put((0, 0), image((0, 0)))
    slots.put((0, 1), image((0, 1)))
    assert slots.take([(0, 0), (0, 1)])[:, 0, 0, 0].tolist() == [0, 1]
    assert slots.decoded_again == 0


def test_several_iterators_at_the_same_time_get_their_own_images():
    slots = make(5)
    wrong = []

    def iterate(epoch):
        for low in range(0, 200, 4):
            keys = [(epoch, low + each) for each in range(4)]
            for key in keys:
                slots.put(key, image(key))
            if not np.array_equal(slots.take(keys), np.stack([image(key) for key in keys])):
                wrong.append(keys)

    threads = [threading.Thread(target=iterate, args=(epoch,)) for epoch in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    # Every slot is free: a whole batch fits again.
    for position in range(5):
        slots.put((9, position), image((9, position)))
    before = slots.decoded_again
    slots.take([(9, position) for position in range(5)])
    assert slots.decoded_again == before
