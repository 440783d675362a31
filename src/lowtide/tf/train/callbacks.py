"""What Keras's callbacks remember from epoch to epoch: EarlyStopping's best value, a user's own counters.

A state is the plain data among a callback's attributes. Attributes with functions, files, models and other objects stay
as the script made them.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras.callbacks import Callback, CSVLogger, TensorBoard

from lowtide.tf.train.plain_data import plain_bytes

# Of the whole training, which `fit` sets.
_NOT_STATE = frozenset({"params", "validation_data"})
_NOT_STATE_OF = {
    # Whether the file in this process needs a header.
    CSVLogger: frozenset({"append_header"}),
    # A profile that ran in another process.
    TensorBoard: frozenset({"_is_tracing", "_profiler_started"}),
}
# Names of files may contain the time at which the script was started.
_PLACES = {CSVLogger: ("filename",), TensorBoard: ("log_dir",)}
_LARGE_BYTES = 1 << 20


def capture_callbacks(callbacks: Sequence[Callback]) -> list[dict[str, Any]]:
    """Return the states of callbacks, as data for `save_state`.

    The states hold the callbacks' own lists and arrays, not copies.
    """
    return [_capture(callback) for callback in callbacks]


def prepare_callbacks(callbacks: Sequence[Callback], states: Sequence[dict[str, Any]]) -> None:
    """Let callbacks continue the files that they wrote; to be called before they get their model.

    CSVLogger would overwrite its file when the training begins. It appends to it, and rows that were written after the
    checkpoint are removed.
    """
    for callback, state in _matches(callbacks, states):
        for kind, names in _PLACES.items():
            if isinstance(callback, kind):
                vars(callback).update({name: state["attributes"][name] for name in names})
        size = state.get("file_bytes")
        if isinstance(callback, CSVLogger) and size is not None and (path := Path(callback.filename)).is_file():
            if path.stat().st_size > size:
                os.truncate(path, size)
            callback.append = True


def restore_callbacks(callbacks: Sequence[Callback], states: Sequence[dict[str, Any]]) -> list[str]:
    """Set the attributes of callbacks as they were; to be called after their `on_train_begin`, which resets them.

    Callbacks are matched by the names of their classes, several of one class by their order. Returns the names of those
    that are missing now.
    """
    missing = [str(state["kind"]) for state in states]
    for callback, state in _matches(callbacks, states):
        missing.remove(state["kind"])
        for name, value in state["attributes"].items():
            _set(vars(callback), name, value)
    return missing


def _capture(callback: Callback) -> dict[str, Any]:
    ignored = _NOT_STATE.union(*(names for kind, names in _NOT_STATE_OF.items() if isinstance(callback, kind)))
    given = _parameters(type(callback))
    attributes = {}
    for name, value in vars(callback).items():
        size = None if name in ignored else plain_bytes(value)
        # Large arrays that the script gave to the callback are data, such as images to classify after each epoch.
        if size is not None and (size <= _LARGE_BYTES or name.lstrip("_") not in given):
            attributes[name] = value
    state: dict[str, Any] = {"kind": type(callback).__qualname__, "attributes": attributes}
    if isinstance(callback, CSVLogger) and callback.csv_file is not None and os.path.exists(callback.filename):
        if not callback.csv_file.closed:
            callback.csv_file.flush()
        state["file_bytes"] = os.path.getsize(callback.filename)
    if isinstance(callback, TensorBoard):
        # The next process does not write again what this one holds in memory.
        for writer in getattr(callback, "_writers", {}).values():
            writer.flush()
    return state


def _parameters(kind: type) -> set[str]:
    """Return the names of the arguments from which a class and its bases are made."""
    own = [vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base) and base is not object]
    return {name for function in own for name in inspect.signature(function).parameters}


def _matches(
    callbacks: Iterable[Callback], states: Iterable[dict[str, Any]]
) -> Iterator[tuple[Callback, dict[str, Any]]]:
    stored: dict[tuple[str, int], dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for state in states:
        stored[state["kind"], seen[state["kind"]]] = state
        seen[state["kind"]] += 1
    seen.clear()
    for callback in callbacks:
        kind = type(callback).__qualname__
        if (found := stored.get((kind, seen[kind]))) is not None:
            yield callback, found
        seen[kind] += 1


def _set(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Set an attribute; a container keeps its identity, because other parts of the script may hold it."""
    current = attributes.get(name)
    if plain_bytes(current) is None:
        # An object of this process, such as a file that is open.
        return
    if isinstance(current, (list, deque)) and isinstance(value, (list, deque)):
        members = list(value)
        current.clear()
        current.extend(members)
    elif isinstance(current, (dict, set)) and isinstance(value, dict if isinstance(current, dict) else set):
        others = value.copy()
        current.clear()
        current.update(others)
    else:
        attributes[name] = value
