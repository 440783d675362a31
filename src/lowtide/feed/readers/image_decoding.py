"""How an image file becomes a tensor of the wanted size: decoded as a whole, or no larger than is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.readers.image_headers import ImageHead

SCALED, WHOLE = "scaled", "whole"
# What libjpeg can divide both sides by while it decodes.
RATIOS = (1, 2, 4, 8)
# TensorFlow's decoder of JPEGs knows these numbers of channels.
_JPEG_CHANNELS = (1, 3)
# What a decoder takes besides its image, for rows that it has in the works.
_DECODER_BYTES = 1 << 20

Decoder = Callable[[tf.Tensor], tf.Tensor]
"""Gives the image in the file of a path."""


def check_decode(decode: str) -> None:
    if decode not in (SCALED, WHOLE):
        raise LowtideError("how are images to be decoded?", given=decode, cure=f"give {SCALED!r} or {WHOLE!r}")


def make_decoder(size: tuple[int, int], channels: int, decode: str) -> Decoder:
    """What reads a file, decodes it, and resizes it to `size`."""

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
    # Whether it is a JPEG is seen in what it begins with, whatever its name is.
    which = tf.cond(tf.io.is_jpeg(content), lambda: _choose_ratio(content, size), lambda: tf.constant(0))
    branches: list[Any] = [partial(_decode_whole, content, channels)]
    branches += [partial(tf.io.decode_jpeg, content, channels, ratio=ratio) for ratio in RATIOS[1:]]
    return tf.switch_case(which, branches)


def _choose_ratio(content: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Which ratio a JPEG is decoded with: the number of those above 1 that leave it large enough."""
    sides = tf.io.extract_jpeg_shape(content)[:2]
    # Parts of pixels are whole ones: a side of 9 at a quarter is 3.
    below = tf.constant([[ratio * (side - 1) for side in size] for ratio in RATIOS[1:]])
    return tf.math.count_nonzero(tf.reduce_all(sides > below, axis=1), dtype=tf.int32)


def decoding_bytes(head: ImageHead, file_bytes: int, size: tuple[int, int], channels: int, decode: str) -> int:
    """What reading an image takes: the file, the decoder, the image as it is decoded, and the resized one."""
    height, width = head.height, head.width
    taken = file_bytes + _DECODER_BYTES + size[0] * size[1] * channels * 4
    if head.is_progressive:
        # Of such a JPEG all coefficients are there, two bytes each, before the first pixel is.
        taken += height * width * 3 * 2
    if head.is_jpeg and decode == SCALED and channels in _JPEG_CHANNELS:
        fitting = [ratio for ratio in RATIOS if height > ratio * (size[0] - 1) and width > ratio * (size[1] - 1)]
        ratio = max(fitting, default=1)
        height, width = -(-height // ratio), -(-width // ratio)
    return taken + height * width * channels
