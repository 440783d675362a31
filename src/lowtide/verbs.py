"""Public functions that accept objects of several rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from lowtide.errors import LowtideError
from lowtide.progress import ProgressCallback
from lowtide.tf.trace.predict import predict as predict_step
from lowtide.tf.trace.specs import Dataset
from lowtide.tide.tide import Tide

if TYPE_CHECKING:
    from lowtide.feed.forecast.forecast import Forecast


@overload
def predict(target: Dataset) -> Forecast: ...


@overload
def predict(
    target: Any,
    *specs: Any,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
    timings: dict[str, float] | None = None,
    label: str | None = None,
) -> Tide: ...


def predict(
    target: Any,
    *specs: Any,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
    timings: dict[str, float] | None = None,
    label: str | None = None,
) -> Tide | Forecast:
    """Predict the memory of a training step, as a `Tide`, or of a data pipeline, as a `Forecast`.

    Parameters
    ----------
    target
        A compiled Keras model, a function, or a `tf.data.Dataset`, which takes no other argument.
    *specs
        `tf.TensorSpec`s of the step's inputs, or tensors, arrays, or one dataset or `PyDataset` with the same shapes
        and dtypes.
    batch_size
        The first dimension of the inputs, if the specs leave it open.
    progress
        A function that is called with a `Progress` at each stage.
    timings
        A dictionary that receives the seconds of each stage.
    label
        A name for the report, instead of the target's own.
    """
    if isinstance(target, Dataset):
        from lowtide.feed.forecast.predict import predict as predict_pipeline

        if specs or batch_size is not None:
            given = "specs" if specs else f"batch_size={batch_size}"
            cure = "leave it out: the dataset has its own batches"
            raise LowtideError("a dataset is predicted without other arguments", given=given, cure=cure)
        return predict_pipeline(target)
    return predict_step(target, *specs, batch_size=batch_size, progress=progress, timings=timings, label=label)
