"""From the TARGET of a command line to a model, a step with its specs, or a dataset."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lowtide.errors import LowtideError
from lowtide.tf.trace.trace_error import find_raising_line

_FORMS = "write file.py:name, package.module:name, model.keras or keras:ResNet50"
_MODEL_FILES = (".keras", ".h5", ".hdf5")
_COMPILE = "call model.compile(optimizer=..., loss=...) first: the optimizer and the loss are part of the step"
_COMPILE_FILE = (
    "load it, call model.compile(optimizer=..., loss=...) and save it again: "
    "the optimizer and the loss are part of the step"
)
# An .h5 file stores some losses and metrics under short names, which Keras 3 reads only if they stand for themselves.
_SHORT_NAMES = {name: name for short in ("bce", "kld", "mae", "mape", "mse", "msle") for name in (short, short.upper())}
_KINDS = "name a compiled Keras model, a function that returns one, or one that returns (step, *specs) or a dataset"


@dataclass(frozen=True)
class Target:
    """A program to predict, as `predict(program, *specs, batch_size=batch_size)` takes it.

    `batch_size` is None if the specs are complete without it, or if the program has its own.
    """

    program: Any
    specs: tuple[Any, ...]
    batch_size: int | None
    label: str
    notes: tuple[str, ...] = ()
    is_data: bool = False
    """Whether the program is a dataset, which has no training step."""
    build_open: Callable[[], Target | None] | None = None
    """Builds the program once more, with an open batch dimension."""
    data: Any = None
    """The dataset that gave a step its specs; None if none did."""

    @property
    def has_open_batch(self) -> bool:
        """Whether the program accepts every batch size."""
        return not self.specs or any(_is_open(shape) for shape in _shapes(self.specs))

    def with_open_batch(self) -> Target | None:
        """Return the target with an open batch dimension; None if the program can only be built for one size."""
        if self.has_open_batch:
            return self
        return self.build_open() if self.build_open is not None else None


def resolve_step(name: str, batch_size: int | None = None) -> Target:
    """Return the model or the step that `name` refers to; raise an error for a dataset."""
    target = resolve_target(name, batch_size)
    if target.is_data:
        cure = "name a model or a step; `lowtide predict` predicts the memory of a dataset"
        raise LowtideError("the target is a dataset", given=name, cure=cure)
    return target


def resolve_target(name: str, batch_size: int | None = None) -> Target:
    """Return what `name` refers to; raise an error of one line if it refers to nothing usable."""
    if Path(name).suffix in _MODEL_FILES:
        return _model(_load_model(name), name, batch_size, cure=_COMPILE_FILE)
    location, separator, attribute = name.rpartition(":")
    if not separator or not location or not attribute:
        raise _not_a_target(name, (location or name).rstrip(":"))
    if location == "keras":
        return _keras_application(attribute, batch_size)
    _check_location(location, name)
    module = _import_file(location) if _is_file(location) else _import_module(location)
    found = _find(module, attribute, name)
    return _target_of(found, name, batch_size)


def _load_model(name: str) -> Any:
    import keras

    if not Path(name).is_file():
        raise LowtideError("the file of the target does not exist", given=name, cure=_near_files(Path(name)))
    if Path(name).suffix == ".keras" and not zipfile.is_zipfile(name):
        raise LowtideError("this is no .keras file, or it is damaged", given=name, cure="save the model again")
    try:
        with warnings.catch_warnings():
            # The state of the optimizer is not read if Keras finds none for it, and does not matter here.
            warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
            model = keras.models.load_model(name, custom_objects=_SHORT_NAMES)
        if Path(name).suffix != ".keras" and model.compiled:
            # Keras 3 builds the optimizer of an .h5 file for no variables, so the model could not be trained.
            model.optimizer = type(model.optimizer).from_config(model.optimizer.get_config())
        return model
    except Exception as error:
        # Keras shows the whole configuration before the message.
        reason = " ".join(str(error).rpartition("Exception encountered:")[2].split())[:300]
        cure = "name a function in a Python file that builds the model, loads its weights and compiles it"
        raise LowtideError(f"the model cannot be loaded: {reason}", given=name, cure=cure) from error


def _not_a_target(name: str, location: str) -> LowtideError:
    """Return the error for a name without a colon, or with nothing on one side of it."""
    path = Path(location)
    if path.is_dir():
        problem, cure = "the target is a folder", _FORMS
        if (path / "saved_model.pb").is_file():
            problem = "the target is a SavedModel, which has no training step"
            cure = "give the .keras file, or a function in a Python file that returns the compiled model"
        return LowtideError(problem, given=name, cure=cure)
    if path.suffix == ".py":
        if not path.is_file():
            return LowtideError("the file of the target does not exist", given=name, cure=_near_files(path))
        names = _names_in(path)
        cure = f"write {location}:NAME for a model or a function in it" + (f": {', '.join(names[:8])}" if names else "")
        return LowtideError("the target has no name after the file", given=name, cure=cure)
    return LowtideError("not a target", given=name, cure=_FORMS)


def _names_in(path: Path) -> list[str]:
    """Return the names that a Python file defines, without importing it."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [each.name for each in body if isinstance(each, ast.FunctionDef)]
    variables = [
        each.targets[0].id for each in body if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    ]
    return [own for own in (*functions, *variables) if not own.startswith("_")]


def _check_location(location: str, name: str) -> None:
    """Refuse a folder, and a file that is not Python, before it is looked for as a module."""
    path = Path(location)
    if path.is_dir() and not (path / "__init__.py").is_file():
        raise LowtideError("the target is in a folder, not in a file", given=name, cure=_FORMS)
    if path.suffix in _MODEL_FILES:
        raise LowtideError("a model file has no names in it", given=name, cure=f"write {location} alone")
    if path.suffix == ".ipynb":
        cure = "write it to a Python file first: jupyter nbconvert --to script"
        raise LowtideError("a notebook cannot be imported", given=name, cure=cure)
    if path.is_file() and path.suffix != ".py":
        raise LowtideError("the file of the target is not Python", given=name, cure=_FORMS)


# -- importing -----------------------------------------------------------------------------------


def _is_file(location: str) -> bool:
    return location.endswith(".py") or "/" in location


def _import_file(location: str) -> ModuleType:
    path = Path(location)
    if not path.is_file():
        raise LowtideError("the file of the target does not exist", given=location, cure=_near_files(path))
    # As when the script is run, its own folder comes first.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # A file with the name of an imported module, say keras.py, must not replace that module.
    name = path.stem if path.stem not in sys.modules else f"lowtide_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise LowtideError("the file of the target is not Python", given=location, cure=_FORMS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed("does not import", location, error) from error
    return module


def _import_module(location: str) -> ModuleType:
    # As with `python -m`, modules in the current folder can be imported.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        if error.name is not None and (location == error.name or location.startswith(f"{error.name}.")):
            raise LowtideError("no module of this name can be imported", given=location, cure=_FORMS) from error
        raise _failed("does not import", location, error) from error
    except (Exception, SystemExit) as error:
        raise _failed("does not import", location, error) from error


def _near_files(path: Path) -> str:
    folder = path.parent
    names = [file.name for file in folder.glob(f"*{path.suffix}")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, 1)
    return f"did you mean {folder / close[0]}?" if close else "check the path"


def _failed(what: str, given: str, error: BaseException) -> LowtideError:
    """Return the exception of user code as an error of one line: its type, its message, and the line that raised it."""
    reason = traceback.format_exception_only(error)[-1].strip()
    location = find_raising_line(error)
    return LowtideError(f"{given} {what}: {reason}", given=location, cure="make it run in Python by itself first")


def _find(module: ModuleType, attribute: str, name: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError:
        names = [own for own, value in vars(module).items() if not own.startswith("_") and not inspect.ismodule(value)]
        raise LowtideError("the target's file has no such name", given=name, cure=_suggest(attribute, names)) from None


def _suggest(attribute: str, names: Iterable[str]) -> str:
    choices = sorted(names)
    close = difflib.get_close_matches(attribute, choices, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"it has {', '.join(choices[:8])}" if choices else _KINDS


# -- interpreting --------------------------------------------------------------------------------


def _target_of(found: Any, name: str, batch_size: int | None) -> Target:
    import keras
    import tensorflow as tf

    if isinstance(found, tf.data.Dataset):
        return _data(found, name, batch_size)
    if isinstance(found, keras.Model):
        return _model(found, name, batch_size)
    if isinstance(found, tf.types.experimental.PolymorphicFunction):
        if found.input_signature is None:
            cure = "give it an input_signature, or name a function that returns (step, *specs)"
            raise LowtideError("the target is a tf.function whose inputs are not known", given=name, cure=cure)
        return _step((found, *found.input_signature), name, batch_size)
    if inspect.isclass(found) or not callable(found):
        raise LowtideError(f"the target is neither a model nor a function but {_kind(found)}", given=name, cure=_KINDS)
    return _call(found, name, batch_size)


def _call(build: Callable[..., Any], name: str, batch_size: int | None) -> Target:
    import keras
    import tensorflow as tf

    parameters = _parameters(build)
    takes_batch = "batch_size" in parameters
    missing = [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and not (parameter.name == "batch_size" and batch_size is not None)
    ]
    if missing == ["batch_size"]:
        raise LowtideError("the target takes a batch_size", given=name, cure="add --batch-size")
    if missing:
        cure = "name a function that can be called without them and returns a compiled model or (step, *specs)"
        raise LowtideError(f"the target needs parameters: {', '.join(missing)}", given=name, cure=cure)
    passed = {"batch_size": batch_size} if takes_batch and batch_size is not None else {}
    built = _run(build, name, passed)
    if isinstance(built, tf.data.Dataset):
        return _data(built, name, None if passed else batch_size)
    if isinstance(built, keras.Model):
        return _model(built, name, batch_size)
    if isinstance(built, tuple) and built and callable(built[0]):
        return _step(built, name, None if passed else batch_size, build if takes_batch else None)
    raise LowtideError(f"the target returned {_kind(built)}", given=name, cure=f"{_KINDS}")


def _run(build: Callable[..., Any], name: str, arguments: dict[str, Any]) -> Any:
    try:
        return build(**arguments)
    except (Exception, SystemExit) as error:
        raise _failed("could not be built", name, error) from error


def _parameters(build: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(build).parameters)
    except (TypeError, ValueError):
        return {}


def _data(dataset: Any, name: str, batch_size: int | None) -> Target:
    if batch_size is not None:
        cure = "leave --batch-size out, or name a function that takes batch_size"
        raise LowtideError("the target is a dataset, which has its own batches", given=name, cure=cure)
    return Target(dataset, (), None, name, is_data=True)


def _model(model: Any, name: str, batch_size: int | None, cure: str = _COMPILE) -> Target:
    if not model.compiled:
        raise LowtideError("the target is a model that is not compiled", given=name, cure=cure)
    notes: tuple[str, ...] = ()
    if model.run_eagerly:
        notes = ("the model is compiled with run_eagerly=True; this is its step without it, as a graph",)
    return Target(model, (), batch_size, name, notes)


def _step(built: tuple[Any, ...], name: str, batch_size: int | None, build: Callable[..., Any] | None = None) -> Target:
    import keras
    import tensorflow as tf

    step, is_model = built[0], isinstance(built[0], keras.Model)
    specs = _as_specs(built[1:], name, is_model=is_model)
    shapes = _shapes(specs)
    opened = any(_is_open(shape) for shape in shapes)
    if opened and batch_size is None:
        raise LowtideError("the specs of the target leave the batch open", given=name, cure="add --batch-size")
    if not opened and batch_size is not None:
        cure = "leave --batch-size out, give the specs a first dimension of None, or let the function take batch_size"
        problem = f"the specs of the target have fixed shapes, which --batch-size {batch_size} cannot change"
        raise LowtideError(problem, given=name, cure=cure)

    def build_open() -> Target | None:
        if build is None:
            return None
        # With batch_size=None most builders return specs with an open batch; the others raise an error.
        try:
            again = build(batch_size=None)
            target = Target(again[0], _as_specs(again[1:], name, is_model=is_model), None, name)
        except Exception:
            return None
        return target if target.has_open_batch else None

    data = next((each for each in built[1:] if isinstance(each, tf.data.Dataset)), None)
    return Target(step, specs, batch_size, name, build_open=build_open, data=data)


def _as_specs(given: tuple[Any, ...], name: str, *, is_model: bool) -> tuple[Any, ...]:
    """Return the specs of a step or a model; tensors, arrays and datasets are replaced by their shapes and dtypes."""
    from lowtide.tf.trace.specs import as_specs, tensor_specs

    specs = as_specs(given, is_model=is_model)
    found = tensor_specs(specs)
    if not found:
        cure = "return (step, *specs) with a tf.TensorSpec for each input of the step"
        raise LowtideError("the target returned a step without the specs of its inputs", given=name, cure=cure)
    if any(spec.shape.rank is None for spec in found):
        raise LowtideError("a spec of the target has no shape at all", given=name, cure="give every spec a shape")
    return specs


def _shapes(specs: tuple[Any, ...]) -> list[Any]:
    from lowtide.tf.trace.specs import tensor_specs

    return [spec.shape for spec in tensor_specs(specs)]


def _is_open(shape: Any) -> bool:
    return bool(shape.rank) and shape[0] is None


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return "None" if value is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


# -- keras.applications --------------------------------------------------------------------------


def _keras_application(name: str, batch_size: int | None) -> Target:
    import keras

    models = {own: make for own, make in vars(keras.applications).items() if own[0].isupper() and callable(make)}
    if name not in models:
        raise LowtideError("no model of keras.applications", given=f"keras:{name}", cure=_suggest(name, models))
    # Random weights take as much memory as trained ones, and need no download.
    model = models[name](weights=None)
    if None in model.input_shape[1:]:
        # Some take images of any size, and a step needs one: the usual size.
        model = models[name](weights=None, input_shape=(224, 224, 3))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    size = "×".join(str(extent) for extent in model.input_shape[1:])
    note = f"{name} with random weights, input {size}, Adam, sparse categorical cross-entropy and accuracy"
    return Target(model, (), batch_size, f"keras:{name}", (note,))
