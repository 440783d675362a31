"""The child process that measures: `python -m lowtide.tf.measuring FOLDER DESCRIPTOR`.

It finds in the folder what to run, writes there the tide or an error, and tells the descriptor what it is doing.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError


def main(folder: Path, descriptor: int) -> None:
    job: dict[str, Any] = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    # As the parent found its modules, so does this process.
    sys.path[:] = job["path"]
    # Processes that the target starts have no part in this.
    os.set_inheritable(descriptor, False)
    try:
        with open(descriptor, "w", encoding="utf-8", buffering=1) as told:
            _measure(job, folder, told)
    except LowtideError as error:
        _leave(folder, error)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        reason = " ".join(traceback.format_exception_only(error)[-1].split())[:300]
        _leave(
            folder, LowtideError(f"the step cannot be measured: {reason}", cure="make it run in Python by itself first")
        )


def _measure(job: dict[str, Any], folder: Path, told: Any) -> None:
    def tell(text: str) -> None:
        print(text, file=told)

    tell("starting TensorFlow")
    import tensorflow as tf

    inter, intra = job["threads"]
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.optimizer.set_jit(job["jit"] or False)
    from lowtide.tf.measure import measure_here

    target = _target(job)
    arguments = pickle.loads((folder / "arguments.pickle").read_bytes())
    tide = measure_here(target, arguments, progress=tell, **job["settings"])
    tide.save(folder / "step.tide")


def _target(job: dict[str, Any]) -> Any:
    from lowtide.tf.child import ANOTHER_WAY, find

    try:
        # What is saved is the model as it is now; what is imported, as it was made.
        if job["model"] is None:
            return find(job["target"])
        try:
            return _load(job["model"])
        except Exception:
            if job["target"] is None:
                raise
            return find(job["target"])
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())[:300]
        problem = f"a child process cannot rebuild the target: {type(error).__name__}: {reason}"
        raise LowtideError(problem, given=job["target"], cure=ANOTHER_WAY) from error


def _load(path: str) -> Any:
    import keras

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # It is the parent's own model: what it contains, the parent runs too.
        return keras.models.load_model(path, safe_mode=False)


def _leave(folder: Path, error: LowtideError) -> None:
    parts = {
        "problem": error.problem,
        "given": None if error.given is None else str(error.given),
        "cure": error.cure,
    }
    (folder / "error.json").write_text(json.dumps(parts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
