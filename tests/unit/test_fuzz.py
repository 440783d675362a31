"""The runner that damages files notices what a reader must not do."""

import os
import signal

from benchmarks.explore.fuzz import fuzz, seeds_for
from benchmarks.explore.mutate import mutate
from benchmarks.explore.targets import TARGETS, FuzzTarget

from tests.unit.protos import GRAPH, event, events, message

SEEDS = [events(event(message(4, GRAPH))), GRAPH]


def run(call, count=1, **limits):
    return fuzz(FuzzTarget("tried", call, refusals=(KeyError,)), SEEDS, range(7, 7 + count), **limits)


def test_an_input_is_the_same_every_time():
    assert [mutate(SEEDS, number) for number in range(50)] == [mutate(SEEDS, number) for number in range(50)]
    assert len({mutate(SEEDS, number) for number in range(50)}) > 40


def test_answers_and_refusals_are_counted():
    def call(data):
        if data == mutate(SEEDS, 8):
            raise KeyError("refused")

    outcome = run(call, 5)
    assert (outcome.inputs, outcome.accepted, outcome.failures) == (5, 4, [])


def test_an_error_is_a_failure():
    def call(data):
        if data == mutate(SEEDS, 9):
            raise RecursionError("deep")

    (failure,) = run(call, 5).failures
    assert failure.number == 9
    assert "RecursionError: deep" in failure.what


def test_too_much_memory_is_a_failure():
    (failure,) = run(lambda data: bytearray(1 << 30), memory_bytes=64 << 20).failures
    assert "MemoryError" in failure.what


def test_too_long_is_a_failure():
    def call(data):
        while True:
            pass

    (failure,) = run(call, seconds=0.05).failures
    assert failure.what == "it took longer than 0.05 s"


def test_a_process_that_dies_or_hangs_loses_one_input():
    def die(data):
        if data == mutate(SEEDS, 8):
            os._exit(3)

    outcome = run(die, 4)
    assert [(failure.number, failure.what) for failure in outcome.failures] == [(8, "the process ended with 3")]
    assert (outcome.inputs, outcome.accepted) == (4, 3)

    def hang(data):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        while data == mutate(SEEDS, 8):
            pass

    (failure,) = run(hang, 3, seconds=0.2).failures
    assert (failure.number, failure.what) == (8, "it did not end")


def test_every_reader_is_fuzzed_with_damaged_files():
    seeds = {"tfevents": SEEDS[0], "frozen.pb": SEEDS[1]}
    for target in TARGETS:
        outcome = fuzz(target, seeds_for(target, seeds), range(20))
        assert (outcome.inputs, outcome.failures) == (20, [])
