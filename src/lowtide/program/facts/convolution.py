"""The shape of a forward convolution, as oneDNN describes it."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.program.facts.shapes import elements, input_shape, item_bytes, output_shape
from lowtide.program.graph import NodeView, Shape


@dataclass(frozen=True, slots=True)
class Convolution:
    """One forward convolution, in oneDNN's terms: channels are per group, extents are depth, height, width."""

    batch: int
    groups: int
    channels_in: int
    channels_out: int
    extent_in: Shape
    extent_out: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    item: int
    channels_last: bool

    @property
    def is_flat(self) -> bool:
        """Whether it has two spatial dimensions, not three."""
        return len(self.kernel) == 2

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is convolved separately, into one channel."""
        return self.groups > 1 and self.channels_in == 1 and self.channels_out == 1

    @property
    def taps(self) -> int:
        """The number of products per input channel and output element."""
        return elements(self.kernel)

    @property
    def is_pointwise(self) -> bool:
        """Whether the convolution is a plain matrix product of the input."""
        return self.taps == 1 and set(self.strides) == {1} and self.extent_in == self.extent_out


def read_convolution(node: NodeView, is_depthwise: bool) -> Convolution:
    """Return the convolution of a node; a depthwise one has as many groups as channels."""
    data, kernel, result = input_shape(node, 0), input_shape(node, 1), output_shape(node)
    rank = len(data) - 2
    last = str(node.attribute("data_format", "NHWC")).endswith("C")
    spatial = slice(1, 1 + rank) if last else slice(2, 2 + rank)
    channel = -1 if last else 1
    groups = data[channel] if is_depthwise else max(data[channel] // max(kernel[-2], 1), 1)
    ones = [1] * len(data)
    return Convolution(
        batch=data[0],
        groups=groups,
        channels_in=data[channel] // groups,
        channels_out=result[channel] // groups,
        extent_in=data[spatial],
        extent_out=result[spatial],
        kernel=kernel[:rank],
        strides=tuple((node.attribute("strides") or ones)[spatial]),
        dilations=tuple((node.attribute("dilations") or ones)[spatial]),
        item=item_bytes(node.input_dtype(0)),
        channels_last=last,
    )
