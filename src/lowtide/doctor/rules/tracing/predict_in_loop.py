"""`model.predict` in a loop over samples or steps builds a pipeline for each call, and leaves about 21 KiB behind.

`predict` is made for many samples in one call: it makes a dataset of its input, runs callbacks, and collects the
batches. In a loop over single samples or small batches all this is done for each of them, which takes most of the time,
and with TensorFlow 2.21 each call leaves about 21 KiB behind: 210 MiB after 10,000 steps.

Call the model: `model(x, training=False)`, or `model.predict_on_batch(x)`. For a loop over data that is larger than
memory, `lt.predict_in_batches(model, source, to="predictions.npy")` writes the predictions to a file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lowtide.doctor.code.module import Loop, Module
from lowtide.doctor.code.sizes import find_size
from lowtide.doctor.code.tracing import count_of
from lowtide.doctor.code.values import ARRAY, DATASET, MODEL, SESSION
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.units import format_bytes, format_count

_CALL_BYTES = 21 << 10
_MANY = 200
# Every tenth pass is often.
_OFTEN = 10
# Loops over these have few passes, and each may well predict a whole data set.
_FEW = re.compile(
    r"epoch|fold|model|trial|seed|split|layer|class|repeat|ensemble|round|generation|member|augment", re.I
)
_SETS = re.compile(r"(^|_)(ds|dataset|loader|generator)$")
_NAMES = re.compile(r"model|agent|generator|discriminator|actor|critic|policy|encoder|decoder|network", re.I)


def _check(module: Module) -> Iterator[Problem]:
    for call, owner in module.method_calls("predict"):
        if not _is_model(module, call, owner) or _is_whole_set(module, call) or _in_session(module, call):
            continue
        found = _find_loop(module, call)
        if found is None:
            continue
        loop, count = found
        text = module.short_text(owner)
        line = module.source.find_place(loop.lineno)[1] if isinstance(loop, (ast.For, ast.While)) else call.lineno
        total = f": {format_bytes(count * _CALL_BYTES)} for {format_count(count, 'call')}" if count is not None else ""
        yield Problem(
            call,
            f"{text}.predict in the loop at line {line} makes a pipeline in each pass and leaves 21 KiB behind{total}",
            f"call {text}(x, training=False) or {text}.predict_on_batch(x), or predict all samples in one call; for"
            " more data than memory, lt.predict_in_batches",
        )


def _is_whole_set(module: Module, call: ast.Call) -> bool:
    """Whether a call predicts a data set, beside which its own cost is nothing."""
    data = module.argument(call, 0, "x")
    return module.kind(data) == DATASET or (isinstance(data, ast.Name) and _SETS.search(data.id) is not None)


def _in_session(module: Module, call: ast.Call) -> bool:
    """Whether a call runs in a session of TensorFlow 1, in which Keras makes no pipelines."""
    blocks = (each for each in module.scopes.ancestors(call) if isinstance(each, ast.With))
    return any(module.kind(item.context_expr) == SESSION for each in blocks for item in each.items)


def _is_model(module: Module, call: ast.Call, owner: ast.expr) -> bool:
    if module.kind(owner) is not None:
        return module.kind(owner) == MODEL and not _has_own_predict(module, owner)
    # `verbose` is an argument of Keras's predict, and of no other well-known one.
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    if _NAMES.search(name) and module.argument(call, None, "verbose") is not None:
        return True
    around = module.class_around(call)
    bases = [module.name(each) for each in around.bases] if around is not None else []
    is_callback = any(each in ("keras.callbacks.Callback", "keras.Callback") for each in bases)
    return is_callback and module.text(owner) == "self.model"


def _has_own_predict(module: Module, owner: ast.expr) -> bool:
    """Whether the class of a model defines `predict` itself."""
    value = module.value(owner)
    made = value.origin if value is not None else None
    kind = module.value(made.func) if isinstance(made, ast.Call) else None
    parts = kind.origin.body if kind is not None and isinstance(kind.origin, ast.ClassDef) else []
    return any(isinstance(each, ast.FunctionDef) and each.name == "predict" for each in parts)


def _find_loop(module: Module, call: ast.Call) -> tuple[Loop | ast.comprehension, int | None] | None:
    """Return the innermost loop of many passes around a call, and how many they are if that is known."""
    loops: list[Loop | ast.comprehension] = [*module.loops_around(call)]
    if module.is_in_comprehension(call):
        above = (each for each in module.scopes.ancestors(call) if isinstance(each, ast.ListComp))
        loops = [clause for each in above for clause in each.generators] + loops
    for loop in loops:
        count = count_of(module, loop)
        if _is_long(module, loop, count):
            return None if isinstance(loop, ast.For) and _is_rare(module, call, loop) else (loop, count)
    return None


def _is_rare(module: Module, call: ast.Call, loop: Loop) -> bool:
    """Whether a condition such as `step % 1000 == 0` leaves out most passes of a loop."""
    for above in module.scopes.ancestors(call):
        if above is loop:
            return False
        if isinstance(above, ast.If):
            periods = [module.constant(each.right) for each in ast.walk(above.test) if isinstance(each, ast.BinOp)]
            modulo = any(isinstance(each, ast.Mod) for each in ast.walk(above.test))
            if modulo and not any(isinstance(each, int) and each <= _OFTEN for each in periods):
                return True
    return False


def _is_long(module: Module, loop: Loop | ast.comprehension, count: int | None) -> bool:
    if _fits(loop):
        return False
    if isinstance(loop, ast.While):
        # A person who answers in each pass is slower.
        return not _asks(module, loop)
    if _FEW.search(module.text(loop.target) + " " + module.text(loop.iter)):
        return False
    return count >= _MANY if count is not None else _has_many(module, loop.iter)


def _asks(module: Module, code: ast.AST, *, follows: bool = True) -> bool:
    """Whether code calls `input`, also in a function or a method of the module that it calls."""
    for call in (each for each in ast.walk(code) if isinstance(each, ast.Call)):
        if module.name(call.func) == "builtins.input":
            return True
        called = _function_called(module, call) if follows else None
        if called is not None and _asks(module, called, follows=False):
            return True
    return False


def _function_called(module: Module, call: ast.Call) -> ast.AST | None:
    """Return the function of the module that is called, or the method of `self`; None if it is neither."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "self":
        owner = module.class_around(call)
        methods = [] if owner is None else [each for each in owner.body if isinstance(each, ast.FunctionDef)]
        return next((each for each in methods if each.name == call.func.attr), None)
    value = module.value(call.func)
    return value.origin if value is not None and isinstance(value.origin, ast.FunctionDef) else None


def _fits(loop: Loop | ast.comprehension) -> bool:
    """Whether each pass trains a model with `fit`, beside which one call of predict is nothing."""
    calls = (each for each in ast.walk(loop) if isinstance(each, ast.Call))
    return any(isinstance(each.func, ast.Attribute) and each.func.attr == "fit" for each in calls)


def _has_many(module: Module, iterable: ast.expr) -> bool:
    if isinstance(iterable, ast.Call):
        name = module.name(iterable.func)
        if name in ("builtins.enumerate", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm") and iterable.args:
            return _has_many(module, iterable.args[0])
        if name in ("builtins.range", "tqdm.trange"):
            return True
    value = module.value(iterable)
    if value is None or value.is_part:
        return False
    if value.kind == DATASET:
        return not any(isinstance(each.func, ast.Attribute) and each.func.attr == "take" for each in value.stages)
    size = find_size(module, iterable)
    is_short = size is not None and size.shape is not None and size.shape[:1] < (_MANY,)
    return value.kind == ARRAY and not is_short


RULE = Rule("LT305", "predict in a loop", _check, __doc__)
