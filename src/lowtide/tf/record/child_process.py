"""Measuring in a child process, whose allocator keeps a record where that of this process does not."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import re
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
from lowtide.run.machine import end_with_parent, machine_bytes
from lowtide.tf.record.measure import out_of_memory
from lowtide.tf.trace.keras_models import candidate_specs
from lowtide.tide.tide import Tide

ANOTHER_WAY = (
    "run the program with lowtide run, or with TF_CPU_ALLOCATOR_USE_BFC=true in the environment before Python starts"
)
_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from lowtide.tf.record.measure_main import main
main(sys.argv[2], int(sys.argv[3]))
"""
_KNOWN_EVERYWHERE = ("keras", "tensorflow", "builtins", "numpy")
_PARTS = (keras.Layer, keras.optimizers.Optimizer, keras.losses.Loss, keras.metrics.Metric)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_RECORD = "this process's CPU allocator keeps no record"


def measure_in_child(target: Any, arguments: tuple[Any, ...], *, progress: ProgressCallback, **settings: Any) -> Tide:
    """Rebuild the target in a process of its own, and run it there. `settings` are those of `measure_here`."""
    with tempfile.TemporaryDirectory(prefix="lowtide-") as place:
        folder = Path(place)
        progress(Progress("preparing a child process"))
        job = {
            "argv": sys.argv,
            "threads": [
                tf.config.threading.get_inter_op_parallelism_threads(),
                tf.config.threading.get_intra_op_parallelism_threads(),
            ],
            "jit": tf.config.optimizer.get_jit(),
            "settings": settings,
            **_way_to(target, folder),
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        (folder / "arguments.pickle").write_bytes(_pickle(arguments))
        code = _attend(folder, progress)
        return _result(folder, code, settings["label"] or getattr(target, "name", None) or _own_name(target))


def _way_to(target: Any, folder: Path) -> dict[str, Any]:
    """How a child gets at the target: by its name, or from a saved model and the names of what that is made of."""
    name = name_of(target)
    if not isinstance(target, keras.Model):
        if name is None:
            raise _not_there(target)
        return {"target": name, "model": None, "parts": []}
    # An error of the model's own comes first, in the words that every other way has for it.
    candidate_specs(target, (None,))
    parts = [(part, name_of(part)) for part in custom_parts(target)]
    missing = next((part for part, place in parts if place is None and inspect.isclass(part)), None)
    if missing is not None and name is None:
        raise _not_there(missing)
    saved = _save_model(target, folder, must=name is None)
    return {"target": name, "model": saved, "parts": [place for _, place in parts if place is not None]}


def custom_parts(model: keras.Model) -> list[Any]:
    """The classes and functions of a model that are not Keras's: layers, losses, metrics, activations."""
    settings = getattr(getattr(model, "_compile_config", None), "config", {})
    layers = model._flatten_layers()
    things = [*layers, model.optimizer, *keras.tree.flatten(settings)]
    # Keras wraps methods and keeps them as attributes; those are the class's own.
    things += [value for layer in layers for name, value in vars(layer).items() if not hasattr(type(layer), name)]
    found: dict[int, Any] = {}
    for thing in things:
        part = thing if inspect.isfunction(thing) else type(thing)
        is_part = inspect.isfunction(thing) or isinstance(thing, _PARTS)
        if is_part and part.__module__.partition(".")[0] not in _KNOWN_EVERYWHERE:
            found[id(part)] = part
    return list(found.values())


def name_of(target: Any) -> str | None:
    """`module:name` where an import finds this very object; None for what only this program has."""
    if isinstance(target, keras.Model):
        return _name_of_model(target)
    function = getattr(target, "python_function", target)
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    # The program itself is not imported: that would run it.
    if module in (None, "__main__") or name is None or module not in sys.modules:
        return None
    try:
        return f"{module}:{name}" if find(f"{module}:{name}") is target else None
    except (ImportError, AttributeError):
        return None


def _name_of_model(model: keras.Model) -> str | None:
    for name, module in list(sys.modules.items()):
        # The program itself goes by more than one name.
        if module is not None and module is not sys.modules.get("__main__") and hasattr(module, "__dict__"):
            own = next((own for own, value in list(vars(module).items()) if value is model), None)
            if own is not None:
                return f"{name}:{own}"
    return None


def find(name: str) -> Any:
    """The object of such a name."""
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _save_model(target: keras.Model, folder: Path, *, must: bool) -> str | None:
    path = folder / "model.keras"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.save(path)
    except Exception as error:
        if not must:
            return None
        problem = f"{_NO_RECORD}, and the model cannot be saved for one that does: {line_of(error)}"
        raise LowtideError(problem, given=target.name, cure=ANOTHER_WAY) from error
    return str(path)


def _pickle(arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps(arguments)
    except Exception as error:
        problem = f"{_NO_RECORD}, and an argument cannot be sent to one that does: {line_of(error)}"
        raise LowtideError(problem, cure=ANOTHER_WAY) from error


def _not_there(target: Any) -> LowtideError:
    problem = f"{_NO_RECORD}, and a child process that has one cannot import this"
    return LowtideError(problem, given=_own_name(target), cure=f"{ANOTHER_WAY}; or define it in a module of its own")


def _own_name(target: Any) -> str:
    return str(getattr(target, "__name__", type(target).__name__))


def line_of(error: BaseException) -> str:
    """An exception of somebody else's in one line."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    # Keras shows the whole configuration of a model before it comes to the point.
    return f"{type(error).__name__}: {text.rpartition('Exception encountered:')[2].strip()[:300]}"


# -- the process ---------------------------------------------------------------------------------


def _attend(folder: Path, progress: ProgressCallback) -> int:
    """Start the child, pass on what it is doing, and see it end, whatever happens here."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8", errors="replace") as told, (folder / "log").open("wb") as log:
        try:
            process = _start(folder, writer, log)
        finally:
            os.close(writer)
        try:
            for line in told:
                progress(Progress(**json.loads(line)))
            return process.wait()
        finally:
            process.kill()
            process.wait()


def _start(folder: Path, writer: int, log: Any) -> subprocess.Popen[bytes]:
    with warnings.catch_warnings():
        # Python advises against a preexec_fn where there are threads; this one takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        return subprocess.Popen(
            [sys.executable, *interpreter_options(sys.orig_argv), "-c", _BEGIN, _path(), folder, str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=_environment(os.environ),
            pass_fds=[writer],
            preexec_fn=end_with_parent(),
        )


def _path() -> str:
    """Where modules are found, here and there; lowtide itself last, if it came by another way."""
    root = str(Path(__file__).parents[3])
    return json.dumps(sys.path if root in sys.path else [*sys.path, root])


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        **environment,
        # Nobody sees its log, but if it dies, the log says for want of what.
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": environment.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(machine_bytes() >> 20)),
    }


def _result(folder: Path, code: int, label: str) -> Tide:
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
    raise LowtideError(f"the process that measured {label} {how}", given=last, cure="lowtide run may tell more")
