"""`lt.predict_in_batches`: a model over a set larger than memory, with the answers in files as they come."""

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
from lowtide.feed.pipeline.pipeline import Feed, feed_of
from lowtide.feed.prediction_files import Job
from lowtide.feed.progress_bar import Bar
from lowtide.feed.readers.array_files import open_array
from lowtide.units import parse_bytes

# Of a budget so much is for one batch: several are read, ready and in use.
_BATCHES = 8
_MOST_IN_A_BATCH = 1024

Place: TypeAlias = str | os.PathLike[str]


def predict_in_batches(
    model: Any,
    source: Any,
    *,
    to: Place | Mapping[str, Place] | Sequence[Place],
    budget: str | int = "512MiB",
    batch_size: int | None = None,
    resume: bool = True,
    progress: bool = True,
) -> Any:
    """What the model answers to each sample, as a mapped array in the file `to`, in the order of the samples.

    `source` is what `lt.feed.arrays` takes, or a dataset that gives the same batches in the same order each time. If
    the process ends before the work does, the same call goes on where it was. Of a model with several outputs `to` is
    a dict of their names and a file for each, or a list of files; so is then what you get.
    """
    if isinstance(source, tf.data.Dataset):
        data, count, name, inputs = source, None, "dataset", _inputs
        _check(source)
    else:
        data, count, name, batch_size = _open(source, budget, batch_size)
        inputs = _all
    job = Job(_paths(to), {"source": name, "samples": count, "batch_size": batch_size}, resume)
    if not job.is_done:
        total = int(data.cardinality())
        batches = _from(data, job.batches)
        with job:
            for batch in _shown(batches, total if total >= 0 else None, job.batches, progress):
                job.add(_answers(model, inputs(batch), to))
    results = [each.result() for each in job.answers]
    if isinstance(to, Mapping):
        return dict(zip(to, results, strict=True))
    return results[0] if isinstance(to, str | os.PathLike) else results


def _paths(to: Place | Mapping[str, Place] | Sequence[Place]) -> list[Path]:
    if isinstance(to, str | os.PathLike):
        return [Path(to)]
    paths = [Path(path) for path in (to.values() if isinstance(to, Mapping) else to)]
    if not paths or len(set(paths)) < len(paths):
        raise LowtideError("each output needs a file of its own", given=to, cure="give as many paths as outputs")
    return paths


def _open(source: Any, budget: str | int, batch_size: int | None) -> tuple[Any, int, str, int]:
    """The batches of arrays; how many samples there are, what they are called, and how many are in a batch."""
    opened = [open_array(each, "x") for each in tf.nest.flatten(source)]
    row = sum(each.row_bytes for each in opened)
    room = parse_bytes(budget) // _BATCHES // max(row, 1)
    batch_size = batch_size or max(min(room, _MOST_IN_A_BATCH), 1)
    data = arrays(source, batch_size=batch_size, budget=budget, bookmark=Bookmark())
    shapes = ", ".join(f"{each.name} {each.shape} {each.dtype}" for each in opened)
    return data, opened[0].shape[0], shapes, batch_size


def _feed(data: Any) -> Feed | None:
    try:
        return feed_of(data)
    except LowtideError:
        return None


def _check(data: Any) -> None:
    """Refuse a dataset of ours that does not give the samples as they lie."""
    feed = _feed(data)
    if feed is not None and feed.is_shuffled:
        raise LowtideError(
            "answers come in the order of the samples, and this dataset shuffles them", cure="make it without shuffle"
        )
    if feed is not None and feed.bookmark is not None:
        raise LowtideError("predictions would move the bookmark of this dataset", cure="make it without a bookmark")


def _from(data: Any, first: int) -> Any:
    """The batches from some number on: of arrays that we have opened those before are not read."""
    feed = _feed(data)
    if feed is None or feed.bookmark is None:
        return data.skip(first) if first else data
    feed.bookmark.move_to(0, first)
    return data


def _all(batch: Any) -> Any:
    return batch


def _inputs(batch: Any) -> Any:
    """What is for the model, where labels may come with it."""
    return batch[0] if isinstance(batch, tuple) else batch


def _answers(model: Any, inputs: Any, to: Any) -> list[np.ndarray]:
    """The answers to a batch, one array for each file."""
    given = model.predict_on_batch(inputs)
    names = list(getattr(model, "output_names", None) or ())
    if isinstance(given, np.ndarray):
        outputs = {(names or ["output"])[0]: given}
    elif isinstance(given, Mapping):
        outputs = {str(name): answer for name, answer in given.items()}
    elif isinstance(given, list | tuple) and all(isinstance(each, np.ndarray) for each in given):
        known = names if len(set(names)) == len(given) else [str(number) for number in range(len(given))]
        outputs = dict(zip(known, given, strict=True))
    else:
        raise LowtideError("answers are no arrays", given=type(given).__name__, cure="give a model with plain outputs")
    chosen = _chosen(outputs, to)
    samples = len(tf.nest.flatten(inputs)[0])
    for answer in chosen:
        if answer.ndim == 0 or len(answer) != samples:
            raise LowtideError(
                "there is not one answer for each sample",
                given=f"{answer.shape} for {samples:,} samples",
                cure="give a model that answers to each",
            )
    return chosen


def _chosen(outputs: dict[str, np.ndarray], to: Any) -> list[np.ndarray]:
    """The outputs that are wanted, in the order of their files."""
    listed = ", ".join(outputs)
    if isinstance(to, Mapping):
        unknown = [name for name in to if name not in outputs]
        if unknown:
            raise LowtideError(f"the model has no output {unknown[0]}", given=listed, cure="name those in `to`")
        return [outputs[name] for name in to]
    paths = _paths(to)
    if len(paths) != len(outputs):
        example = ", ".join(f'"{name}": "{name}.npy"' for name in outputs)
        raise LowtideError(
            f"the model has several outputs ({listed}), and there is not one file for each",
            given=f"{len(paths)} for {len(outputs)}",
            cure=f"give to={{{example}}}",
        )
    return list(outputs.values())


def _shown(batches: Iterable[Any], total: int | None, first: int, progress: bool) -> Iterator[Any]:
    """The batches, with a bar on the terminal."""
    if not progress:
        yield from batches
        return
    with Bar("predicting", total, first) as bar:
        for batch in batches:
            yield batch
            bar.advance()
