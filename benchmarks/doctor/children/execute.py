"""Executes a file with fixed seeds and writes what it prints."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import runpy
import tempfile
from pathlib import Path

import keras


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    path = options.path.resolve()
    keras.utils.set_random_seed(0)
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        # Examples may write files.
        os.chdir(folder)
        runpy.run_path(str(path), run_name="__main__")
    options.output.write_text(json.dumps({"printed": printed.getvalue()}))


if __name__ == "__main__":
    main()
