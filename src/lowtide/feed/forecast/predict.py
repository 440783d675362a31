"""`lt.feed.predict`: what a pipeline of the user's own will hold, before it runs."""

from __future__ import annotations

import tensorflow as tf

from lowtide.feed.forecast.element_sampling import ElementSamples
from lowtide.feed.forecast.forecast import Forecast, forecast
from lowtide.feed.forecast.outline import outline, rewriting_of
from lowtide.feed.forecast.stage import rewrite
from lowtide.program.machine import processor_count

_SAMPLED_ELEMENTS = 32


def predict(dataset: tf.data.Dataset, *, look_at: int = _SAMPLED_ELEMENTS) -> Forecast:
    """What every stage of a tf.data pipeline will hold at the peak, and what to change.

    The stages, their buffers and shapes are read off the dataset. Where shapes are not known, and of texts, `look_at`
    elements are made to see how large they are, without filling a buffer. Functions are simulated, not called.
    """
    samples = ElementSamples(look_at)
    return forecast(rewrite(outline(dataset, samples), rewriting_of(dataset)), processor_count())
