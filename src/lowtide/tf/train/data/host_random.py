"""The random generators of Python and NumPy that functions of a data pipeline draw from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def read_generators() -> dict[str, Any]:
    """Return the state of the global generators as an object for JSON."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [version, list(words), gauss],
        "numpy": [name, [int(each) for each in np.asarray(keys)], int(position), int(has_gauss), float(cached)],
    }


def set_generators(state: dict[str, Any]) -> None:
    """Set the global generators to a state."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))


@contextmanager
def seeded_generators(*seed: int) -> Iterator[None]:
    """Seed the global generators for the time of a call."""
    before = read_generators()
    words = np.random.SeedSequence(seed).generate_state(2)
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))
    try:
        yield
    finally:
        set_generators(before)
