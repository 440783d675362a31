"""Decode image files into tensors of a given size: at full size, or JPEGs at a reduced one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.readers.image_headers import ImageHeader

SCALED, WHOLE = "scaled", "whole"
# The factors by which libjpeg can reduce both sides while it decodes.
RATIOS = (1, 2, 4, 8)
# The numbers of channels that TensorFlow's JPEG decoder supports.
_JPEG_CHANNELS = (1, 3)
# The working memory of a decoder, besides its image.
_DECODER_BYTES = 1 << 20

Decoder = Callable[[tf.Tensor], tf.Tensor]
"""Maps the path of a file to its image."""


def check_decoding(size: object, channels: object, decode: str) -> None:
    """Raise an error if no image can have this size and these channels, or if `decode` is unknown."""
    try:
        height, width = map(operator.index, size)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        height = width = 0
    if height < 1 or width < 1:
        raise LowtideError("images have a height and a width", given=size, cure="give size=(224, 224), for example")
    if channels not in (1, 3, 4):
        raise LowtideError("images have 1, 3 or 4 channels", given=channels, cure="give channels=3 for colours")
    if decode not in (SCALED, WHOLE):
        raise LowtideError("unknown value of decode", given=decode, cure=f"give {SCALED!r} or {WHOLE!r}")


def make_decoder(size: tuple[int, int], channels: int, decode: str) -> Decoder:
    """Make a function that reads a file, decodes it, and resizes the image to `size`."""

    def load(path: tf.Tensor) -> tf.Tensor:
        content = tf.io.read_file(path)
        if decode == SCALED and channels in _JPEG_CHANNELS:
            image = _decode_scaled(content, size, channels)
        else:
            image = _decode_whole(content, channels)
        return tf.ensure_shape(tf.image.resize(image, size), (*size, channels))

    return load


def _decode_whole(content: tf.Tensor, channels: int) -> tf.Tensor:
    return tf.io.decode_image(content, channels, expand_animations=False)


def _decode_scaled(content: tf.Tensor, size: tuple[int, int], channels: int) -> tf.Tensor:
    # `is_jpeg` looks at the first bytes: the suffix of the file does not matter.
    which = tf.cond(tf.io.is_jpeg(content), lambda: _choose_ratio(content, size), lambda: tf.constant(0))
    branches: list[Any] = [partial(_decode_whole, content, channels)]
    branches += [partial(tf.io.decode_jpeg, content, channels, ratio=ratio) for ratio in RATIOS[1:]]
    return tf.switch_case(which, branches)


def _choose_ratio(content: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """The index of the largest ratio at which a JPEG is still at least as large as `size`."""
    sides = tf.io.extract_jpeg_shape(content)[:2]
    # libjpeg rounds up: a side of 9 at a quarter is 3.
    below = tf.constant([[ratio * (side - 1) for side in size] for ratio in RATIOS[1:]])
    return tf.math.count_nonzero(tf.reduce_all(sides > below, axis=1), dtype=tf.int32)


def decoding_bytes(header: ImageHeader, file_bytes: int, size: tuple[int, int], channels: int, decode: str) -> int:
    """The memory for reading an image: the file, the decoder, the decoded image, and the resized one."""
    height, width = header.height, header.width
    needed = file_bytes + _DECODER_BYTES + size[0] * size[1] * channels * 4
    if header.is_progressive:
        # A progressive JPEG needs all coefficients, of two bytes each, before its first pixel is decoded.
        needed += height * width * 3 * 2
    if header.is_jpeg and decode == SCALED and channels in _JPEG_CHANNELS:
        fitting = [ratio for ratio in RATIOS if height > ratio * (size[0] - 1) and width > ratio * (size[1] - 1)]
        ratio = max(fitting, default=1)
        height, width = -(-height // ratio), -(-width // ratio)
    return needed + height * width * channels
