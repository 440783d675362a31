"""The child process that measures, which `lowtide.tf.record.child_process` starts.

It finds in the folder what to run, writes there the tide or an error, and tells the descriptor what it is doing.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.progress import Progress


def main(place: str, descriptor: int) -> None:
    """Do the job that lies in a folder."""
    folder = Path(place)
    job: dict[str, Any] = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    # Modules that look at their program's arguments when they are imported find the same as in the parent.
    sys.argv[:] = job["argv"]
    # Processes that the target starts have no part in this.
    os.set_inheritable(descriptor, False)
    try:
        with open(descriptor, "w", encoding="utf-8", buffering=1) as told:
            _measure(job, folder, told)
    except LowtideError as error:
        _leave(folder, error)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        from lowtide.tf.record.child_process import line_of

        cure = "make it run in Python by itself first"
        _leave(folder, LowtideError(f"the step cannot be measured: {line_of(error)}", cure=cure))


def _measure(job: dict[str, Any], folder: Path, told: Any) -> None:
    def tell(progress: Progress) -> None:
        print(json.dumps(asdict(progress)), file=told)

    tell(Progress("starting TensorFlow"))
    import tensorflow as tf

    inter, intra = job["threads"]
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.optimizer.set_jit(job["jit"] or False)
    from lowtide.tf.record.measure import measure_here

    target = _target(job)
    arguments = pickle.loads((folder / "arguments.pickle").read_bytes())
    tide = measure_here(target, arguments, progress=tell, **job["settings"])
    tide.save(folder / "step.tide")


def _target(job: dict[str, Any]) -> Any:
    from lowtide.tf.record.child_process import ANOTHER_WAY, find, line_of

    try:
        # What is saved is the model as it is now; what is imported, as it was made.
        if job["model"] is None:
            return find(job["target"])
        try:
            return _load(job["model"], [find(part) for part in job["parts"]])
        except Exception:
            if job["target"] is None:
                raise
            return find(job["target"])
    except (Exception, SystemExit) as error:
        problem = f"a child process cannot rebuild the target: {line_of(error)}"
        raise LowtideError(problem, given=job["target"], cure=ANOTHER_WAY) from error


def _load(path: str, parts: list[Any]) -> Any:
    import keras

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # It is the parent's own model: what it contains, the parent runs too.
        known = {part.__name__: part for part in parts}
        return keras.models.load_model(path, custom_objects=known, safe_mode=False)


def _leave(folder: Path, error: LowtideError) -> None:
    parts = {
        "problem": error.problem,
        "given": None if error.given is None else str(error.given),
        "cure": error.cure,
    }
    (folder / "error.json").write_text(json.dumps(parts), encoding="utf-8")
