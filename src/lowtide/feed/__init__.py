"""Data larger than memory, as tf.data pipelines that stay within a budget in bytes."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.feed.forecast.predict import predict as predict
    from lowtide.feed.forecast.running_stages import inspect as inspect
    from lowtide.feed.from_arrays import arrays as arrays
    from lowtide.feed.from_generator import generator as generator
    from lowtide.feed.from_images import images as images
    from lowtide.feed.from_records import records as records
    from lowtide.feed.from_table import table as table
    from lowtide.feed.pipeline.bookmark import Bookmark as Bookmark
    from lowtide.feed.pipeline.pipeline import describe as describe
    from lowtide.feed.pipeline.pipeline import problems as problems

__all__ = [
    "Bookmark",
    "arrays",
    "describe",
    "generator",
    "images",
    "inspect",
    "predict",
    "problems",
    "records",
    "table",
]

# Orders and sizes are computed without TensorFlow, which is imported with the first of these.
_HOME = {
    "Bookmark": "lowtide.feed.pipeline.bookmark",
    "arrays": "lowtide.feed.from_arrays",
    "describe": "lowtide.feed.pipeline.pipeline",
    "generator": "lowtide.feed.from_generator",
    "images": "lowtide.feed.from_images",
    "inspect": "lowtide.feed.forecast.running_stages",
    "predict": "lowtide.feed.forecast.predict",
    "problems": "lowtide.feed.pipeline.pipeline",
    "records": "lowtide.feed.from_records",
    "table": "lowtide.feed.from_table",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'lowtide.feed' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
