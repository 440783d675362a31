"""Image files and their labels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.readers.image_decoding import Decoder, decoding_bytes
from lowtide.feed.readers.image_headers import ImageHeader, read_header
from lowtide.feed.readers.samples import Indices, Rows, SampleField
from lowtide.units import format_count

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")
# The number of files whose headers are read to estimate the memory for decoding.
_SAMPLED_FILES = 256


@dataclass
class ImageFiles:
    """Image files and their labels."""

    paths: list[str]
    labels: np.ndarray | None
    decoder: Decoder
    class_names: list[str] | None = None
    """The names of the classes that the labels number, if they are the names of folders."""

    @property
    def count(self) -> int:
        return len(self.paths)

    @property
    def known_fields(self) -> list[SampleField]:
        """The fields that are known without reading the file: the path, and the label if there are labels."""
        path = SampleField("path", (), np.dtype(object))
        if self.labels is None:
            return [path]
        return [path, SampleField("label", self.labels.shape[1:], self.labels.dtype)]

    def look_up(self, samples: Indices) -> list[Rows]:
        """The paths and labels of some images."""
        paths = np.array([self.paths[sample].encode() for sample in samples.tolist()], object)
        return [paths] if self.labels is None else [paths, self.labels[samples]]

    def where(self, sample: int) -> str:
        return self.paths[sample]

    def reason(self, sample: int) -> str | None:
        """TensorFlow's error message for the file; None if it can be decoded."""
        try:
            self.decoder(tf.constant(self.paths[sample]))
        except tf.errors.OpError as error:
            # Without the names of nodes and ops.
            return re.sub(r"\{\{.*?\}\}|\[Op:.*|\[\[.*", "", error.message, flags=re.DOTALL).strip()
        return None

    def most_decoding_bytes(self, size: tuple[int, int], channels: int, decode: str) -> int:
        """The memory for decoding the largest file, from the headers of a sample of the files."""
        most = decoding_bytes(ImageHeader(*size), 0, size, channels, decode)
        for path in self.paths[:: max(len(self.paths) // _SAMPLED_FILES, 1)]:
            header = read_header(path)
            if header is not None:
                most = max(most, decoding_bytes(header, os.path.getsize(path), size, channels, decode))
        return most


def find_images(source: str | os.PathLike[str] | Sequence[str], labels: Any, decoder: Decoder) -> ImageFiles:
    """Find the files of a folder, in alphabetical order, or take the given paths in their order."""
    class_names = None
    if isinstance(source, str | os.PathLike):
        folder = Path(source)
        if not folder.is_dir():
            raise LowtideError("there is no such folder of images", given=folder, cure="check the path")
        classes = sorted(each.name for each in folder.iterdir() if each.is_dir())
        if labels is None and classes:
            found = [(path, number) for number, name in enumerate(classes) for path in _find_below(folder / name)]
            class_names = classes
            paths, labels = [path for path, _ in found], np.array([number for _, number in found], np.int32)
        else:
            paths = _find_below(folder)
    else:
        paths = [os.fspath(path) for path in source]
    if not paths:
        raise LowtideError("there are no images", given=source, cure=f"give files that end in {', '.join(SUFFIXES)}")
    return ImageFiles(paths, None if labels is None else _check_labels(paths, labels), decoder, class_names)


def _check_labels(paths: list[str], given: Any) -> np.ndarray:
    labels = np.asarray(given)
    if labels.dtype.hasobject or not labels.ndim:
        values = labels.tolist() if labels.ndim else []
        unlabelled = [path for path, label in zip(paths, values, strict=False) if label is None]
        raise LowtideError(
            f"{unlabelled[0]} has no label" if unlabelled else "labels are neither numbers nor texts",
            given=type(given).__name__,
            cure="give a number or a text for each image",
        )
    if len(labels) != len(paths):
        raise LowtideError(
            "the numbers of images and labels differ",
            given=f"{format_count(len(paths), 'image')}, {format_count(len(labels), 'label')}",
            cure="give as many labels as paths",
        )
    return labels


def _find_below(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
