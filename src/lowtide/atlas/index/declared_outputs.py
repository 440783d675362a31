"""The outputs that TensorFlow's registry of ops declares.

`op_outputs.txt` has a line for ops whose outputs are declared alike, and after the colon the ops. An output is the
number of a dtype or the name of an attribute that holds one, with its default; `N*T` are N outputs of dtype T, `*Tout`
an output for each dtype of a list, and `&` marks references of TensorFlow 1. `python -m tests.tf.op_outputs` writes the
file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DECLARATION = re.compile(r"(?:(?P<number>\w+)\*)?(?P<list>\*)?(?P<type>\w+)(?:=(?P<default>\d+))?(?P<reference>&)?")


@dataclass(frozen=True)
class DeclaredOutput:
    """One declared output, or several of them."""

    number: str | None
    """The attribute with the number of outputs."""
    is_list: bool
    type: str
    """The attribute with the dtype, or the dtype itself."""
    default: int
    """The dtype without that attribute; 0 if there is none."""
    is_reference: bool


@cache
def declared_outputs() -> dict[str, tuple[DeclaredOutput, ...]]:
    """Return the declared outputs of each op that has any."""
    declared = {}
    for line in Path(__file__).with_name("op_outputs.txt").read_text("ascii").splitlines():
        outputs, _, ops = line.partition(":")
        read = tuple(
            DeclaredOutput(
                each["number"],
                bool(each["list"]),
                each["type"],
                int(each["type"] if each["type"].isdigit() else each["default"] or 0),
                bool(each["reference"]),
            )
            for each in _DECLARATION.finditer(outputs)
        )
        declared.update(dict.fromkeys(ops.split(), read))
    return declared
