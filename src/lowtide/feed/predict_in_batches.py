"""`lt.predict_in_batches`: predictions over a set larger than memory, written to files batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.from_arrays import arrays
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.dataset import FedDataset
from lowtide.feed.pipeline.feed import Feed
from lowtide.feed.prediction_files import PredictionJob
from lowtide.feed.progress_bar import ProgressBar
from lowtide.feed.readers.open_array import open_array
from lowtide.units import format_count, parse_bytes

# The budget holds this many batches: some are being read, some are ready and some are in use.
_BATCHES = 8
_MOST_PER_BATCH = 1024

FilePath: TypeAlias = str | os.PathLike[str]


def predict_in_batches(
    model: Any,
    source: Any,
    *,
    to: FilePath | Mapping[str, FilePath] | Sequence[FilePath],
    budget: str | int = "512MiB",
    batch_size: int | None = None,
    resume: bool = True,
    progress: bool = True,
) -> Any:
    """Write the prediction for each sample to the file `to`, in the order of the samples, and return it mapped.

    `source` is what `lt.feed.arrays` takes, or a dataset with the same batches in the same order each time. If the
    process ends early, the same call continues where it stopped. For a model with several outputs, `to` is a dict from
    output names to files, or a list of files, and the result has the same structure.
    """
    if isinstance(source, tf.data.Dataset):
        data, count, name, select_inputs = source, None, "dataset", _select_inputs
        _check_order(source)
    else:
        data, count, name, batch_size = _open(source, budget, batch_size)

        def select_inputs(batch: Any) -> Any:
            return batch

    job = PredictionJob(_list_paths(to), {"source": name, "samples": count, "batch_size": batch_size}, resume)
    if not job.is_done:
        total = int(data.cardinality())
        batches = _skip_batches(data, job.batches)
        with job:
            for batch in _show_progress(batches, total if total >= 0 else None, job.batches, progress):
                job.append(_predict_batch(model, select_inputs(batch), to))
    results = [each.load() for each in job.files]
    if isinstance(to, Mapping):
        return dict(zip(to, results, strict=True))
    return results[0] if isinstance(to, str | os.PathLike) else results


def _list_paths(to: FilePath | Mapping[str, FilePath] | Sequence[FilePath]) -> list[Path]:
    if isinstance(to, str | os.PathLike):
        return [Path(to)]
    paths = [Path(path) for path in (to.values() if isinstance(to, Mapping) else to)]
    if not paths or len(set(paths)) < len(paths):
        raise LowtideError("each output needs a separate file", given=to, cure="give as many paths as outputs")
    return paths


def _open(source: Any, budget: str | int, batch_size: int | None) -> tuple[Any, int, str, int]:
    """Return the dataset, the number of samples, the names of the arrays, and the batch size."""
    opened = [open_array(each, "x") for each in tf.nest.flatten(source)]
    row_bytes = sum(each.row_bytes for each in opened)
    fitting = parse_bytes(budget) // _BATCHES // max(row_bytes, 1)
    batch_size = batch_size or max(min(fitting, _MOST_PER_BATCH), 1)
    data = arrays(source, batch_size=batch_size, budget=budget, bookmark=Bookmark())
    shapes = ", ".join(f"{each.name} {each.shape} {each.dtype}" for each in opened)
    return data, opened[0].shape[0], shapes, batch_size


def _feed_of(data: Any) -> Feed | None:
    return data.feed if isinstance(data, FedDataset) else None


def _check_order(data: Any) -> None:
    """Refuse a dataset of lt.feed that shuffles its samples or moves a bookmark."""
    feed = _feed_of(data)
    if feed is not None and feed.options.shuffle:
        raise LowtideError(
            "predictions are in the order of the samples, and this dataset shuffles them",
            cure="make it without shuffle",
        )
    if feed is not None and feed.bookmark is not None:
        raise LowtideError("predictions would move the bookmark of this dataset", cure="make it without a bookmark")


def _skip_batches(data: Any, first: int) -> Any:
    """The batches from `first` on; those before are not read if the data has a bookmark."""
    feed = _feed_of(data)
    if feed is None or feed.bookmark is None:
        return data.skip(first) if first else data
    feed.bookmark.move_to(0, first)
    return data


def _select_inputs(batch: Any) -> Any:
    """The inputs of the model, without labels."""
    return batch[0] if isinstance(batch, tuple) else batch


def _predict_batch(model: Any, inputs: Any, to: Any) -> list[np.ndarray]:
    """The predictions for a batch, one array for each file."""
    predicted = model.predict_on_batch(inputs)
    names = list(getattr(model, "output_names", None) or ())
    if isinstance(predicted, np.ndarray):
        outputs = {(names or ["output"])[0]: predicted}
    elif isinstance(predicted, Mapping):
        outputs = {str(name): rows for name, rows in predicted.items()}
    elif isinstance(predicted, list | tuple) and all(isinstance(each, np.ndarray) for each in predicted):
        known = names if len(set(names)) == len(predicted) else list(map(str, range(len(predicted))))
        outputs = dict(zip(known, predicted, strict=True))
    else:
        raise LowtideError(
            "predictions are not arrays", given=type(predicted).__name__, cure="give a model with plain outputs"
        )
    chosen = _choose_outputs(outputs, to)
    samples = len(tf.nest.flatten(inputs)[0])
    for rows in chosen:
        if rows.ndim == 0 or len(rows) != samples:
            raise LowtideError(
                "there is not one prediction for each sample",
                given=f"{rows.shape} for {format_count(samples, 'sample')}",
                cure="give a model that predicts each sample",
            )
    return chosen


def _choose_outputs(outputs: dict[str, np.ndarray], to: Any) -> list[np.ndarray]:
    """The requested outputs, in the order of their files."""
    listed = ", ".join(outputs)
    if isinstance(to, Mapping):
        unknown = [name for name in to if name not in outputs]
        if unknown:
            raise LowtideError(f"the model has no output {unknown[0]}", given=listed, cure="name those in `to`")
        return [outputs[name] for name in to]
    paths = _list_paths(to)
    if len(paths) != len(outputs):
        example = ", ".join(f'"{name}": "{name}.npy"' for name in outputs)
        raise LowtideError(
            f"the model has several outputs ({listed}), and there is not one file for each",
            given=f"{len(paths)} for {len(outputs)}",
            cure=f"give to={{{example}}}",
        )
    return list(outputs.values())


def _show_progress(batches: Iterable[Any], total: int | None, first: int, progress: bool) -> Iterator[Any]:
    """Yield the batches, and show a progress bar."""
    if not progress:
        yield from batches
        return
    with ProgressBar("predicting", total, first) as bar:
        for batch in batches:
            yield batch
            bar.advance()
