"""Data larger than memory, as tf.data pipelines that stay within a budget in bytes.

`readers` reads samples by index, `pipeline` makes tf.data pipelines of them, and `forecast` predicts the memory of any
tf.data pipeline. The modules here, one per public function, put these together. The room may import all rooms up to
`tf`; `readers` imports neither `pipeline` nor `forecast`.
"""

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
    from lowtide.feed.pipeline.dataset import describe as describe
    from lowtide.feed.pipeline.dataset import problems as problems

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

# Imported on first use, because these modules import TensorFlow.
_MODULES = {
    "Bookmark": "lowtide.feed.pipeline.bookmark",
    "arrays": "lowtide.feed.from_arrays",
    "describe": "lowtide.feed.pipeline.dataset",
    "generator": "lowtide.feed.from_generator",
    "images": "lowtide.feed.from_images",
    "inspect": "lowtide.feed.forecast.running_stages",
    "predict": "lowtide.feed.forecast.predict",
    "problems": "lowtide.feed.pipeline.dataset",
    "records": "lowtide.feed.from_records",
    "table": "lowtide.feed.from_table",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'lowtide.feed' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
