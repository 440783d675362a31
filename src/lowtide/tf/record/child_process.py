"""Measures a step in a child process whose allocator keeps a record, if that of this process does not."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.launch import interpreter_options, signal_name
from lowtide.run.machine import machine_bytes, start_child
from lowtide.tf.record.measure_child import ALTERNATIVES, import_object, in_one_line
from lowtide.tf.record.measured_run import out_of_memory
from lowtide.tf.record.measured_step import function_label
from lowtide.tf.trace.keras_models import check_compiled
from lowtide.tide.tide import Tide

_START_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from lowtide.tf.record.measure_child import main
main(sys.argv[2], int(sys.argv[3]))
"""
_IMPORTABLE_PACKAGES = ("keras", "tensorflow", "builtins", "numpy")
_PART_TYPES = (keras.Layer, keras.optimizers.Optimizer, keras.losses.Loss, keras.metrics.Metric)
_NO_RECORD = "this process's CPU allocator keeps no record"


def measure_in_child(target: Any, arguments: tuple[Any, ...], *, progress: ProgressCallback, **settings: Any) -> Tide:
    """Rebuild the target in a child process, and measure it there. `settings` are those of `measure_here`."""
    with tempfile.TemporaryDirectory(prefix="lowtide-") as path:
        folder = Path(path)
        progress(Progress("preparing a child process"))
        job = {
            "argv": sys.argv,
            "threads": [
                tf.config.threading.get_inter_op_parallelism_threads(),
                tf.config.threading.get_intra_op_parallelism_threads(),
            ],
            "jit": tf.config.optimizer.get_jit(),
            "settings": settings,
            **_describe_target(target, folder),
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        (folder / "arguments.pickle").write_bytes(_pickle(arguments))
        code = _run_child(folder, progress)
        return _read_result(folder, code, settings["label"] or getattr(target, "name", None) or function_label(target))


def _describe_target(target: Any, folder: Path) -> dict[str, Any]:
    """How the child rebuilds the target: from its name, or from a saved model and the names of its custom parts."""
    name = importable_name(target)
    if not isinstance(target, keras.Model):
        if name is None:
            raise _not_importable(target)
        return {"target": name, "model": None, "parts": []}
    # A model that cannot be measured at all raises here, with the same error as `lt.predict`.
    check_compiled(target)
    parts = [(part, importable_name(part)) for part in custom_parts(target)]
    missing = next((part for part, part_name in parts if part_name is None and inspect.isclass(part)), None)
    if missing is not None and name is None:
        raise _not_importable(missing)
    saved = _save_model(target, folder, is_required=name is None)
    return {"target": name, "model": saved, "parts": [part_name for _, part_name in parts if part_name is not None]}


def custom_parts(model: keras.Model) -> list[Any]:
    """The classes and functions of a model that Keras does not define: layers, losses, metrics, activations."""
    settings = getattr(getattr(model, "_compile_config", None), "config", {})
    layers = model._flatten_layers()
    things = [*layers, model.optimizer, *keras.tree.flatten(settings)]
    # Keras stores wrapped methods as attributes of instances; those belong to the class.
    things += [value for layer in layers for name, value in vars(layer).items() if not hasattr(type(layer), name)]
    found: dict[int, Any] = {}
    for thing in things:
        part = thing if inspect.isfunction(thing) else type(thing)
        is_part = inspect.isfunction(thing) or isinstance(thing, _PART_TYPES)
        if is_part and part.__module__.partition(".")[0] not in _IMPORTABLE_PACKAGES:
            found[id(part)] = part
    return list(found.values())


def importable_name(target: Any) -> str | None:
    """`module:name` if importing that returns this very object; None otherwise."""
    if isinstance(target, keras.Model):
        return _importable_model_name(target)
    function = getattr(target, "python_function", target)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    # Importing the main program would run it.
    if module in (None, "__main__") or name is None or module not in sys.modules:
        return None
    try:
        return f"{module}:{name}" if import_object(f"{module}:{name}") is target else None
    except (ImportError, AttributeError):
        return None


def _importable_model_name(model: keras.Model) -> str | None:
    for name, module in list(sys.modules.items()):
        # The main program may be in sys.modules under several names.
        if module is not None and module is not sys.modules.get("__main__") and hasattr(module, "__dict__"):
            own = next((own for own, value in list(vars(module).items()) if value is model), None)
            if own is not None:
                return f"{name}:{own}"
    return None


def _save_model(target: keras.Model, folder: Path, *, is_required: bool) -> str | None:
    path = folder / "model.keras"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.save(path)
    except Exception as error:
        if not is_required:
            return None
        problem = f"{_NO_RECORD}, and the model cannot be saved for one that does: {in_one_line(error)}"
        raise LowtideError(problem, given=target.name, cure=ALTERNATIVES) from error
    return str(path)


def _pickle(arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps(arguments)
    except Exception as error:
        problem = f"{_NO_RECORD}, and an argument cannot be sent to one that does: {in_one_line(error)}"
        raise LowtideError(problem, cure=ALTERNATIVES) from error


def _not_importable(target: Any) -> LowtideError:
    problem = f"{_NO_RECORD}, and a child process that has one cannot import this"
    return LowtideError(
        problem, given=function_label(target), cure=f"{ALTERNATIVES}; or define it in a separate module"
    )


def _run_child(folder: Path, progress: ProgressCallback) -> int:
    """Start the child, pass on its progress, and return its exit code; the child never outlives this call."""
    options = interpreter_options(sys.orig_argv)
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8", errors="replace") as pipe, (folder / "log").open("wb") as log:
        try:
            process = start_child(
                [sys.executable, *options, "-c", _START_CHILD, _search_path(), folder, str(writer)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=_environment(os.environ),
                pass_fds=[writer],
            )
        finally:
            os.close(writer)
        try:
            for line in pipe:
                progress(Progress(**json.loads(line)))
            return process.wait()
        finally:
            process.kill()
            process.wait()


def _search_path() -> str:
    """The module search path for the child; lowtide's own folder comes last if it is not on this process's path."""
    root = str(Path(__file__).parents[3])
    return json.dumps(sys.path if root in sys.path else [*sys.path, root])


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        **environment,
        # The log is read if the child dies: it says which allocation failed.
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": environment.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(machine_bytes() >> 20)),
    }


def _read_result(folder: Path, code: int, label: str) -> Tide:
    tide, error = folder / "step.tide", folder / "error.json"
    if tide.exists():
        return Tide.load(tide)
    if error.exists():
        parts = json.loads(error.read_text(encoding="utf-8"))
        raise LowtideError(parts["problem"], given=parts["given"], cure=parts["cure"])
    lines = (folder / "log").read_bytes().splitlines()
    if any(b"ran out of memory trying to allocate" in line or b"OOM when allocating" in line for line in lines):
        raise out_of_memory(label, lines)
    last = next((line.decode("utf-8", "replace") for line in reversed(lines) if line.strip()), None)
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
    raise LowtideError(f"the process that measured {label} {how}", given=last, cure="lowtide run may show more")
