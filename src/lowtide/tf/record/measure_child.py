"""The child process that measures a step; `lowtide.tf.record.child_process` starts it.

It reads from a folder what to run, writes the tide or an error there, and reports progress to a file descriptor.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from lowtide.errors import LowtideError
from lowtide.progress import Progress

ALTERNATIVES = (
    "run the program with lowtide run, or with TF_CPU_ALLOCATOR_USE_BFC=true in the environment before Python starts"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main(path: str, descriptor: int) -> None:
    """Run the job in a folder."""
    folder = Path(path)
    job: dict[str, Any] = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    # Modules that read the program's arguments when they are imported find the same as in the parent.
    sys.argv[:] = job["argv"]
    # Processes that the target starts must not keep the pipe open.
    os.set_inheritable(descriptor, False)
    try:
        with open(descriptor, "w", encoding="utf-8", buffering=1) as pipe:
            _measure(job, folder, pipe)
    except LowtideError as error:
        _write_error(folder, error)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        cure = "make it run in Python by itself first"
        _write_error(folder, LowtideError(f"the step cannot be measured: {in_one_line(error)}", cure=cure))


def import_object(name: str) -> Any:
    """The object that is called `module:qualified.name`."""
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def in_one_line(error: BaseException) -> str:
    """An exception of another library in one line."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    # Keras shows the whole configuration of a model before the message.
    return f"{type(error).__name__}: {text.rpartition('Exception encountered:')[2].strip()[:300]}"


def _measure(job: dict[str, Any], folder: Path, pipe: TextIO) -> None:
    def report(progress: Progress) -> None:
        print(json.dumps(asdict(progress)), file=pipe)

    report(Progress("starting TensorFlow"))
    import tensorflow as tf

    inter, intra = job["threads"]
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.optimizer.set_jit(job["jit"] or False)
    from lowtide.tf.record.measured_run import measure_here

    target = _rebuild_target(job)
    arguments = pickle.loads((folder / "arguments.pickle").read_bytes())
    tide = measure_here(target, arguments, progress=report, **job["settings"])
    tide.save(folder / "step.tide")


def _rebuild_target(job: dict[str, Any]) -> Any:
    try:
        # A saved model is in its current state; an imported one is as its module created it.
        if job["model"] is None:
            return import_object(job["target"])
        try:
            return _load_model(job["model"], [import_object(part) for part in job["parts"]])
        except Exception:
            if job["target"] is None:
                raise
            return import_object(job["target"])
    except (Exception, SystemExit) as error:
        problem = f"a child process cannot rebuild the target: {in_one_line(error)}"
        raise LowtideError(problem, given=job["target"], cure=ALTERNATIVES) from error


def _load_model(path: str, parts: list[Any]) -> Any:
    import keras

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Unsafe deserialization is acceptable: the parent saved this model, and runs the same code.
        custom_objects = {part.__name__: part for part in parts}
        return keras.models.load_model(path, custom_objects=custom_objects, safe_mode=False)


def _write_error(folder: Path, error: LowtideError) -> None:
    parts = {
        "problem": error.problem,
        "given": None if error.given is None else str(error.given),
        "cure": error.cure,
    }
    (folder / "error.json").write_text(json.dumps(parts), encoding="utf-8")
