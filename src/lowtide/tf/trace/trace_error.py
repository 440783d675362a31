"""Why a function cannot be traced, and the line of user code that raised an exception."""

import inspect
import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

import lowtide.errors
from lowtide.errors import LowtideError

# Where code lies that is not the user's: Python, lowtide, and what the import system and AutoGraph generate.
_OTHERS = ("<frozen", str(Path(inspect.__file__).parent), str(Path(lowtide.errors.__file__).parent))
_INSTALLED = ("site-packages", "dist-packages", "__autograph_generated_file")
# AutoGraph lists lines of user code in the message, and marks them with an asterisk.
_AUTOGRAPH_LINE = re.compile(r'File "([^"]+)", line (\d+), in .*\*\s*$', re.MULTILINE)
# What Python says of arguments that do not fit the parameters, in TensorFlow's message.
_UNBOUND = re.compile(r"Binding inputs to tf.function failed due to `(.*?)`\.")
# Keras colours parts of its messages.
_COLOUR = re.compile(r"\x1b\[\d*m")
# A size that overflowed a 32-bit integer, or that is above 63 bits.
_OVERFLOWN = re.compile(r"-\d{7,}|more than 2\*\*63|Value out of range: \d{10,}")


def trace_error(error: Exception, specs: Sequence[Any]) -> LowtideError:
    """Return the error for a function that raised `error` when it was traced from these specs."""
    # Keras appends the arguments of the layer, AutoGraph prepends the lines of user code.
    text = _COLOUR.sub("", str(error)).partition("Arguments received by")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = (lines[-1] if lines else "").removeprefix(f"{type(error).__name__}: ")
    line = find_raising_line(error)
    shown = ", ".join(_format_spec(spec) for spec in tf.nest.flatten(list(specs)))
    cure = "make the step run with tensors of these shapes and dtypes, or correct the specs"
    if "generic TraceType" in text:
        # TensorFlow shows the whole value.
        kinds = {type(each).__name__ for each in tf.nest.flatten(list(specs)) if not isinstance(each, tf.TypeSpec)}
        reason = f"TensorFlow cannot trace an argument of type {' or '.join(sorted(kinds))}"
    unbound = _UNBOUND.search(reason)
    if unbound is not None:
        reason = unbound.group(1)
        cure = "pass one tf.TensorSpec per argument of the step, with the shapes and dtypes it really gets"
    sizes = [getattr(spec, "shape", tf.TensorShape(None)).num_elements() for spec in tf.nest.flatten(list(specs))]
    if _OVERFLOWN.search(reason) or max(size or 0 for size in (0, *sizes)) >= 1 << 31:
        cure = "use a smaller batch: TensorFlow computes shapes in 32-bit integers, and one of them is too large"
    return LowtideError(
        f"the step cannot be traced: {type(error).__name__}: {reason[:300]}" + (f", at {line}" if line else ""),
        given=f"specs {shown}" if shown else "no specs",
        cure=cure,
    )


def check_texts(operations: Iterable[tf.Operation], specs: Sequence[Any]) -> None:
    """Raise an error for texts that the step converts to numbers: TensorFlow can trace that, but not run it."""
    given = [spec for spec in tf.nest.flatten(list(specs)) if getattr(spec, "dtype", None) == tf.string]
    if not given:
        return
    cast = next((each for each in operations if each.type == "Cast" and each.inputs[0].dtype == tf.string), None)
    if cast is not None:
        raise LowtideError(
            f"the step takes {cast.outputs[0].dtype.name}, and TensorFlow cannot convert texts to it",
            given=", ".join(_format_spec(spec) for spec in given),
            cure='pass numbers, for example np.asarray(..., dtype="float32")',
        )


def find_raising_line(error: BaseException) -> str | None:
    """Return "file.py:line", the innermost frame of user code; None if an exception came from libraries alone."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name}:{error.lineno}"
    lines = [(path, int(line)) for path, line in _AUTOGRAPH_LINE.findall(str(error))] or [
        (frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)
    ]
    users = [(path, line) for path, line in lines if _is_users(path)]
    return f"{Path(users[-1][0]).name}:{users[-1][1]}" if users else None


def _is_users(path: str) -> bool:
    return not path.startswith(_OTHERS) and not any(name in path for name in _INSTALLED)


def _format_spec(spec: Any) -> str:
    shape = getattr(spec, "shape", None)
    if not isinstance(shape, tf.TensorShape):
        return repr(spec) if isinstance(spec, bool | int | float | str | None) else type(spec).__name__
    return f"{tuple(shape) if shape.rank is not None else shape} {getattr(spec.dtype, 'name', spec.dtype)}"
