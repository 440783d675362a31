"""Growth is distinguished from warm-up, sawtooth patterns, jumps and noise."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.tide.growth import find_growth

MIB = 2**20


def series(function, steps=100, every=1):
    return [(step, round(function(step))) for step in range(0, steps, every)]


def test_a_straight_line_is_growth_and_its_slope_is_exact():
    growth = find_growth(series(lambda step: 1000 + 50 * step))
    assert growth is not None
    assert growth.bytes_per_step == 50
    assert (growth.first_step, growth.last_step) == (20, 99)
    assert growth.bytes == 50 * 79


@pytest.mark.parametrize("every", [1, 3, 7])
def test_samples_may_be_sparse(every):
    growth = find_growth(series(lambda step: 1000 + 50 * step, steps=200, every=every))
    assert growth is not None
    assert growth.bytes_per_step == 50


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda step: 7 * MIB, id="constant"),
        pytest.param(lambda step: 7 * MIB * min(step, 10), id="warm-up"),
        pytest.param(lambda step: 7 * MIB * (1 - 0.9**step), id="a warm-up that dies out"),
        pytest.param(lambda step: 7 * MIB + 4 * MIB * (step > 60), id="one jump"),
        pytest.param(lambda step: MIB * (step % 25), id="a list emptied at each epoch"),
        pytest.param(lambda step: MIB * (step % 50), id="two epochs"),
        pytest.param(lambda step: MIB * min(step, 50), id="a buffer that is full after half of the run"),
        pytest.param(lambda step: 9 * MIB * (step % 10 == 9), id="a validation every tenth step"),
        pytest.param(lambda step: MIB * (step * 7 % 5), id="bucketed shapes"),
        pytest.param(lambda step: MIB * (100 - step), id="a fall"),
    ],
)
def test_series_without_growth(function):
    assert find_growth(series(function)) is None


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda step: MIB * step + 64 * MIB * (step % 10 == 9), id="under a validation"),
        pytest.param(lambda step: MIB * step + 3 * MIB * (step % 5), id="under collections of garbage"),
        pytest.param(lambda step: MIB * step + 50 * MIB * min(step, 10), id="after a warm-up"),
        pytest.param(lambda step: 5 * MIB * (step // 5), id="once in five steps"),
    ],
)
def test_growth_shows_through(function):
    growth = find_growth(series(function))
    assert growth is not None
    assert growth.bytes_per_step == pytest.approx(MIB, rel=0.2)


@pytest.mark.parametrize("samples", [[], [(0, 5)], [(step, step * MIB) for step in range(20)]])
def test_too_few_samples_give_no_result(samples):
    assert find_growth(samples) is None


def test_growth_below_the_minimum_is_noise():
    samples = series(lambda step: step * 100)
    assert find_growth(samples, least_bytes=MIB) is None
    assert find_growth(samples, least_bytes=1000) is not None


@settings(deadline=None)
@given(st.integers(30, 400), st.integers(1, 10 * MIB), st.integers(0, 100 * MIB), st.randoms(use_true_random=False))
def test_any_leak_larger_than_the_noise_is_found(steps, leak, base, generator: random.Random):
    noise = leak / 2
    samples = [(step, base + leak * step + round(generator.uniform(0, noise))) for step in range(steps)]
    growth = find_growth(samples)
    assert growth is not None
    assert growth.bytes_per_step == pytest.approx(leak, rel=0.3)


@settings(deadline=None)
@given(st.integers(30, 400), st.integers(1, MIB), st.randoms(use_true_random=False))
def test_noise_that_visits_its_floor_is_not_growth(steps, spread, generator: random.Random):
    samples = [(step, 0 if step % 3 == 0 else generator.randint(0, spread)) for step in range(steps)]
    assert find_growth(samples) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2**50)), max_size=60))
def test_any_samples_are_accepted_and_growth_is_positive(samples):
    growth = find_growth(samples)
    assert growth is None or (growth.bytes_per_step > 0 and growth.last_step > growth.first_step)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=20, max_size=80))
def test_the_same_samples_backwards_do_not_grow_as_well(values):
    forwards = find_growth(list(enumerate(values)))
    backwards = find_growth(list(enumerate(reversed(values))))
    assert forwards is None or backwards is None
