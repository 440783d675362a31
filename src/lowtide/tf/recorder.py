"""Recording the steps of a script that runs."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

_folder: Path | None = None


def start(folder: Path, steps: int) -> None:
    """Begin to record into `folder`."""
    global _folder
    _folder = folder
    (folder / "started").write_text(f"{tf.__version__} {steps}\n", encoding="utf-8")


def finish(error: BaseException | None) -> None:
    """Write what is left, and the error that ended the script."""
    if _folder is not None:
        (_folder / "finished").write_text(f"{error!r}\n", encoding="utf-8")
