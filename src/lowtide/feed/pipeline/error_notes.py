"""Adds one sentence that says what went wrong to the errors that TensorFlow raises for a dataset.

An error inside of a dataset reaches the program as an error of TensorFlow, whose message holds a traceback and ends
with the names of nodes. Python prints the notes of an exception after its message, so the sentence is added as a note:
the error may be raised by an iterator or inside of Keras's `fit`, where nothing else can be added to it.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import tensorflow as tf

from lowtide.tf.trace.source_lines import is_user_file

_OWN = re.compile(r"LowtideError: (.+)")
_USER_FUNCTION = re.compile(r"Error in user-defined function passed to \S+ transformation with iterator: \S+: (.+)")
# An error of a stage without a function, such as batch: in a graph, and op by op.
_STAGE = re.compile(
    r"^((?!.*End of sequence).*\S.*)"
    r"(?:\n\s*\[\[\{\{node (?:\S+/)?IteratorGetNext\}\}\]\]| \[Op:IteratorGetNext\])",
    re.MULTILINE,
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_NODES = re.compile(r"\{\{.*?\}\}|\s*\[\[.*|\s*\[Op:.*")


def without_nodes(message: str) -> str:
    """Return one line of a message of TensorFlow without the names of nodes around it."""
    return _NODES.sub("", message).strip()


def find_sentence(message: str) -> str | None:
    """Return the sentence in a message of TensorFlow that says what went wrong; None if it is not about a dataset."""
    own = _OWN.search(message)
    if own is not None:
        return f"LowtideError: {own[1].strip()}"
    found = _USER_FUNCTION.findall(message)
    if not found:
        stage = _STAGE.search(message)
        return None if stage is None else f"the dataset failed: {without_nodes(stage[1])}"
    cause = without_nodes(found[-1])
    lines = [f"{name}, line {line}" for name, line in _FRAME.findall(message) if is_user_file(name)]
    return f"a function of the dataset failed: {cause}{f' ({lines[-1]})' if lines else ''}"


@functools.cache
def install_notes() -> None:
    """From now on, add the sentence to each error of TensorFlow that a dataset caused."""
    original = tf.errors.OpError.__init__

    @functools.wraps(original)
    def initialize(self: Any, node_def: Any, op: Any, message: Any, *args: Any, **keywords: Any) -> None:
        original(self, node_def, op, message, *args, **keywords)
        sentence = find_sentence(str(message))
        if sentence is not None:
            self.add_note(sentence)

    tf.errors.OpError.__init__ = initialize
