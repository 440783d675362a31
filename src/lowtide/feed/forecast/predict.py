"""`lt.feed.predict`: what a pipeline of the user's own will hold, before it runs."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port

from lowtide.feed.forecast.allocators import BFC, C_LIBRARY, ONEDNN, Allocator
from lowtide.feed.forecast.element_sampling import ElementSamples
from lowtide.feed.forecast.forecast import Forecast, forecast
from lowtide.feed.forecast.outline import outline, rewriting_of
from lowtide.feed.forecast.stage import rewrite
from lowtide.program.machine import processor_count

_SAMPLED_ELEMENTS = 32


def predict(dataset: tf.data.Dataset, *, look_at: int = _SAMPLED_ELEMENTS) -> Forecast:
    """Predict the memory of each stage of a tf.data pipeline at its peak, and advise what to change.

    The stages, their buffers and shapes are read from the dataset. To find the size of texts and of tensors of unknown
    shape, `look_at` sample elements are made, without filling a buffer. Other functions are simulated, not called.
    """
    samples = ElementSamples(look_at)
    pipeline = rewrite(outline(dataset, samples), rewriting_of(dataset))
    return forecast(pipeline, processor_count(), _find_allocator())


def _find_allocator() -> Allocator:
    """The allocator of this process: which one TensorFlow uses is decided when it is imported."""
    if os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true"):
        return BFC
    return ONEDNN if _pywrap_util_port.IsMklEnabled() else C_LIBRARY
