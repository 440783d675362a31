"""Executes a file with fixed seeds and writes what it leaves in the variable `result`."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np


def to_json(value: Any) -> Any:
    """A value as numbers, texts, lists and dictionaries."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, dict):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (np.ndarray, np.generic)):
        return to_json(value.tolist())
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"`result` must be numbers, texts, arrays, lists or dictionaries of these, not {type(value)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    path = options.path.resolve()
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        # Examples may write files.
        os.chdir(folder)
        left = runpy.run_path(str(path), run_name="__main__")
    if "result" not in left:
        raise SystemExit("the file leaves no variable `result`")
    options.output.write_text(json.dumps({"result": to_json(left["result"])}))


if __name__ == "__main__":
    main()
