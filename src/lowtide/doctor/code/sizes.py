"""How large arrays are, as far as reading the code tells: from literal shapes, known data sets and headers of files."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from lowtide.doctor.code.array_files import is_probably_small, read_header
from lowtide.doctor.code.module import Module
from lowtide.doctor.code.values import ARRAY
from lowtide.units import format_bytes

Shape = tuple[int, ...]
# Shapes and bytes of an element of what keras.datasets.*.load_data() returns: ((x, y), (x, y)) of training and test.
_IMAGES = (((60000, 28, 28), 1), ((60000,), 1)), (((10000, 28, 28), 1), ((10000,), 1))
_SMALL_IMAGES = (((50000, 32, 32, 3), 1), ((50000, 1), 1)), (((10000, 32, 32, 3), 1), ((10000, 1), 1))
# Texts are lists of numbers; 8 bytes for each of them, which are shared, and about 240 of them in a review.
_REVIEWS = (((25000, 240), 8), ((25000,), 8)), (((25000, 240), 8), ((25000,), 8))
_NEWS = (((8982, 146), 8), ((8982,), 8)), (((2246, 146), 8), ((2246,), 8))
_BOSTON = (((404, 13), 8), ((404,), 8)), (((102, 13), 8), ((102,), 8))
_CALIFORNIA = (((16512, 8), 4), ((16512,), 4)), (((4128, 8), 4), ((4128,), 4))
_KERAS_DATA = {
    "mnist": _IMAGES, "fashion_mnist": _IMAGES, "cifar10": _SMALL_IMAGES, "cifar100": _SMALL_IMAGES, "imdb": _REVIEWS,
    "reuters": _NEWS, "boston_housing": _BOSTON, "california_housing": _CALIFORNIA,
}  # fmt: skip
_ITEM_BYTES = {
    "bool": 1, "bool_": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "half": 2, "int32": 4,
    "uint32": 4, "float32": 4, "single": 4, "int64": 8, "uint64": 8, "float64": 8, "double": 8, "int": 8, "float": 8,
    "complex64": 8, "complex128": 16, "bfloat16": 2,
}  # fmt: skip
# Functions that read a file into an array, whole.
FILE_LOADERS = (
    "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "pandas.read_csv", "pandas.read_parquet",
    "pandas.read_pickle", "pandas.read_hdf", "pandas.read_feather", "scipy.io.loadmat",
    "h5py.File",
)  # fmt: skip
# Those of them that return several arrays by name.
_ARCHIVES = ("numpy.load", "scipy.io.loadmat", "h5py.File")
# NumPy functions that return an array of the shape of their first argument.
_SAME_SIZE = (
    "array", "asarray", "ascontiguousarray", "copy", "expand_dims", "squeeze", "transpose", "reshape", "ravel", "flip",
    "zeros_like", "ones_like", "empty_like", "full_like", "moveaxis", "swapaxes", "sqrt", "log", "exp", "abs", "clip",
    "nan_to_num",
)  # fmt: skip
_SAME_SIZE_METHODS = ("reshape", "copy", "flatten", "ravel", "transpose", "squeeze", "swapaxes", "to_numpy", "view")
_SAMPLERS = ("random", "normal", "standard_normal", "uniform", "integers", "randint", "random_sample", "rand", "randn")
_OWN_SHAPE_SAMPLERS = ("rand", "randn")
_DEEPEST = 30


@dataclass(frozen=True)
class ArraySize:
    """What is known of the size of an array."""

    origin: ast.AST
    """The expression that made the array or read it from a file."""
    shape: Shape | None
    """None if it is unknown: the array was read from a file that is not there."""
    item_bytes: int = 8
    is_file: bool = False
    loader: str = ""
    """The full name of the function that made the array."""

    @property
    def bytes(self) -> int | None:
        """The bytes of the array; None if they are unknown."""
        return None if self.shape is None else math.prod(self.shape) * self.item_bytes

    @property
    def is_loaded(self) -> bool:
        """Whether the array has data, unlike one of zeros or random numbers."""
        return self.is_file or self.loader.startswith("keras.datasets.")

    def is_at_least(self, least: int) -> bool:
        """Whether the array is known to be this large, or is a file of unknown size that is read whole."""
        return self.is_file if self.bytes is None else self.bytes >= least

    def times(self, copies: float) -> str:
        """Return the bytes of a number of copies, followed by a comma and a space; empty if they are unknown."""
        return "" if self.bytes is None else f"{format_bytes(round(self.bytes * copies))}, "


# What is known of the expressions of each module.
_known: WeakKeyDictionary[Module, dict[tuple[ast.AST, tuple[int, ...]], ArraySize | None]] = WeakKeyDictionary()


def describe(module: Module, size: ArraySize) -> str:
    """Return a size as text, such as "the 734 MiB array loaded at line 12"."""
    cell, line = module.source.find_place(size.origin.lineno)  # type: ignore[attr-defined]
    place = f"line {line}" if cell is None else f"line {line} of cell {cell}"
    if size.bytes is None:
        return f"the array that {size.loader} reads at {place}"
    return f"the {format_bytes(size.bytes)} array {'loaded' if size.is_loaded else 'made'} at {place}"


def find_size(module: Module, node: ast.AST | None, path: tuple[int, ...] = (), depth: int = 0) -> ArraySize | None:
    """Return the size of the array that an expression is, or of a part of the tuples that it is, by `path`.

    None if it is no array, or one of unknown size that is not read from a file as a whole.
    """
    if node is None or depth > _DEEPEST:
        return None
    known = _known.setdefault(module, {})
    if (node, path) not in known:
        # A name may be bound to an expression of itself, in a loop.
        known[node, path] = None
        known[node, path] = _evaluate(module, node, path, depth + 1)
    return known[node, path]


def _evaluate(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    if isinstance(node, ast.Tuple) and path:
        return find_size(module, node.elts[path[0]], path[1:], depth) if path[0] < len(node.elts) else None
    for kind, find in _FINDERS:
        if isinstance(node, kind):
            return find(module, node, path, depth)
    return None


def _of_name(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    assert isinstance(node, ast.Name)
    found = []
    for binding in module.scopes.find(node):
        if isinstance(binding.node, ast.AugAssign):
            # `x /= 255` changes the array that x was before.
            found.append(find_size(module, binding.node.target, path, depth))
            continue
        if binding.value is None or binding.is_element:
            return None
        if isinstance(binding.node, ast.Assign):
            paths = [each for target in binding.node.targets for each in _paths(target, node.id)]
        else:
            paths = [()]
        if not paths:
            return None
        # A target that is unpacked from a tuple that is written out is bound to a part of it already.
        value = binding.node.value if isinstance(binding.node, ast.Assign) else binding.value
        found.append(find_size(module, value, (*paths[0], *path), depth))
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return min(known, key=lambda each: math.inf if each.bytes is None else each.bytes)


def _paths(target: ast.expr, name: str) -> list[tuple[int, ...]]:
    """Return where in an assignment's target, which may be nested tuples, a name is."""
    if isinstance(target, ast.Name):
        return [()] if target.id == name else []
    if isinstance(target, (ast.Tuple, ast.List)):
        parts = enumerate(target.elts)
        return [(index, *rest) for index, each in parts for rest in _paths(each, name)]
    return []


def _of_call(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    assert isinstance(node, ast.Call)
    name = module.name(node.func) or ""
    if name.startswith("keras.datasets.") and name.endswith(".load_data"):
        return _of_keras_data(node, name, path)
    if name in FILE_LOADERS:
        return _of_file(module, node, name)
    if name.endswith("model_selection.train_test_split"):
        return _of_split(module, node, path, depth)
    if path:
        return _of_return(module, node, path, depth)
    if name.startswith("numpy."):
        return _of_numpy(module, node, name.removeprefix("numpy."), depth)
    if isinstance(node.func, ast.Attribute):
        return _of_method(module, node, node.func, depth)
    return _of_value(module, node, path, depth)


def _of_keras_data(node: ast.Call, name: str, path: tuple[int, ...]) -> ArraySize | None:
    known = _KERAS_DATA.get(name.split(".")[2])
    if known is None or len(path) != 2 or max(path) > 1:
        return None
    shape, item_bytes = known[path[0]][path[1]]
    return ArraySize(node, shape, item_bytes, loader=name)


def _of_split(module: Module, node: ast.Call, path: tuple[int, ...], depth: int) -> ArraySize | None:
    if len(path) != 1 or path[0] // 2 >= len(node.args):
        return None
    whole = find_size(module, node.args[path[0] // 2], (), depth)
    if whole is None or whole.shape is None:
        return whole
    test = module.constant(module.argument(node, None, "test_size")) or 0.25
    rows = whole.shape[0] if whole.shape else 0
    tests = test if isinstance(test, int) else math.ceil(rows * test) if isinstance(test, float) else rows
    return replace(whole, shape=(max(tests if path[0] % 2 else rows - tests, 0), *whole.shape[1:]))


def _of_numpy(module: Module, node: ast.Call, name: str, depth: int) -> ArraySize | None:
    if name in ("zeros", "ones", "empty", "full"):
        return _made(module, node, module.argument(node, 0, "shape"), 2 if name == "full" else 1)
    if name.startswith("random."):
        return _sampled(module, node, name.removeprefix("random."))
    first = node.args[0] if node.args else None
    if name in ("concatenate", "stack", "vstack", "hstack"):
        return _joined(module, node, first, depth)
    if name in _ITEM_BYTES:
        found = find_size(module, first, (), depth)
        return None if found is None else replace(found, item_bytes=_ITEM_BYTES[name])
    if name in _SAME_SIZE:
        found = find_size(module, first, (), depth)
        size = _item_bytes(module, module.argument(node, 1, "dtype") if name in ("array", "asarray") else None)
        return found if found is None or size is None else replace(found, item_bytes=size)
    if name == "arange" and len(node.args) == 1 and isinstance(count := module.constant(first), int):
        return ArraySize(node, (count,), _item_bytes(module, module.argument(node, None, "dtype")) or 8)
    return None


def _made(module: Module, node: ast.Call, shape: ast.expr | None, dtype_position: int | None) -> ArraySize | None:
    known = module.constant(shape)
    dtype = module.argument(node, dtype_position, "dtype")
    size = 8 if dtype is None else _item_bytes(module, dtype)
    dimensions = known if isinstance(known, tuple) else (known,)
    if size is None or not all(isinstance(each, int) and each >= 0 for each in dimensions):
        return None
    return ArraySize(node, tuple(each for each in dimensions if isinstance(each, int)), size, loader="numpy")


def _sampled(module: Module, node: ast.Call, name: str) -> ArraySize | None:
    if name in _OWN_SHAPE_SAMPLERS:
        known = module.constant(ast.Tuple(node.args, ast.Load()))
        dimensions = known if isinstance(known, tuple) else ()
        if not dimensions or not all(isinstance(each, int) and each >= 0 for each in dimensions):
            return None
        return ArraySize(node, tuple(each for each in dimensions if isinstance(each, int)), 8, loader="numpy")
    if name not in _SAMPLERS:
        return None
    position = {"random": 0, "random_sample": 0, "standard_normal": 0}.get(name, 2)
    return _made(module, node, module.argument(node, position, "size"), None)


def _joined(module: Module, node: ast.Call, parts: ast.expr | None, depth: int) -> ArraySize | None:
    if not isinstance(parts, (ast.List, ast.Tuple)) or not parts.elts:
        return None
    found = [find_size(module, each, (), depth) for each in parts.elts]
    known = [each for each in found if each is not None]
    total = sum(each.bytes or 0 for each in known)
    if any(each.bytes is None for each in known) and any(each.is_file for each in known):
        return next(each for each in known if each.bytes is None)
    if len(known) < len(found):
        return None
    item_bytes = max(each.item_bytes for each in known)
    return ArraySize(node, (total // item_bytes,), item_bytes, loader="numpy")


def _of_method(module: Module, node: ast.Call, function: ast.Attribute, depth: int) -> ArraySize | None:
    method = function.attr
    if method == "astype":
        found = find_size(module, function.value, (), depth)
        size = _item_bytes(module, module.argument(node, 0, "dtype"))
        return found if found is None or size is None else replace(found, item_bytes=size)
    if method in _SAME_SIZE_METHODS:
        return find_size(module, function.value, (), depth)
    if method in _SAMPLERS and isinstance(function.value, (ast.Name, ast.Call)):
        generator: ast.expr | None = function.value
        if isinstance(generator, ast.Name):
            bindings = module.scopes.find(generator)
            generator = bindings[0].value if len(bindings) == 1 and isinstance(bindings[0].value, ast.Call) else None
        makers = ("numpy.random.default_rng", "numpy.random.RandomState")
        if isinstance(generator, ast.Call) and module.name(generator.func) in makers:
            return _sampled(module, node, method)
    return _of_value(module, node, (), depth)


def _item_bytes(module: Module, dtype: ast.expr | None) -> int | None:
    """Return the bytes of an element of a type, given as "float32", np.float32 or float; None if it is unknown."""
    text = module.constant(dtype)
    if not isinstance(text, str):
        text = (module.name(dtype) or "").split(".")[-1]
    return _ITEM_BYTES.get(text)


def _of_file(module: Module, node: ast.Call, name: str) -> ArraySize | None:
    if module.argument(node, 1, "mmap_mode") is not None or any(
        each.arg in ("chunksize", "nrows", "iterator", "max_rows", "count") for each in node.keywords
    ):
        return None
    source = node.args[0] if node.args else None
    text = module.constant(source)
    if isinstance(text, str) and "://" not in text:
        path = module.source.path.parent / text
        header = read_header(path)
        if header is not None and name == "numpy.load":
            return ArraySize(node, *header, is_file=True, loader=name)
        if path.is_file() and path.suffix in (".csv", ".txt", ".bin"):
            return ArraySize(node, (path.stat().st_size,), 1, is_file=True, loader=name)
    return None if is_probably_small(module, node, source, text) else ArraySize(node, None, is_file=True, loader=name)


def _of_return(module: Module, node: ast.Call, path: tuple[int, ...], depth: int) -> ArraySize | None:
    """Return the size of one of the arrays that a function of the module returns."""
    function = module.value(node.func)
    if function is None or not isinstance(function.origin, ast.FunctionDef):
        return _of_value(module, node, path, depth)
    returns = [each for each in ast.walk(function.origin) if isinstance(each, ast.Return)]
    return find_size(module, returns[0].value, path, depth) if len(returns) == 1 else None


def _of_value(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    """Return the size of what a function of the module or an attribute of `self` gives."""
    value = module.value(node)
    if value is None or value.kind != ARRAY or value.is_part or value.origin is node:
        return None
    return find_size(module, value.origin, path, depth)


def _of_operation(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    assert isinstance(node, ast.BinOp)
    sides = [find_size(module, side, path, depth) for side in (node.left, node.right)]
    known = [each for each in sides if each is not None]
    if not known:
        return None
    largest = max(known, key=lambda each: math.inf if each.bytes is None else each.bytes)
    # Integers become float64 when they are divided or meet a float.
    others = [module.constant(side) for side in (node.left, node.right)]
    is_float = isinstance(node.op, ast.Div) or any(isinstance(each, float) for each in others)
    is_single = any(module.name(getattr(side, "func", None)) == "numpy.float32" for side in (node.left, node.right))
    wider = 4 if is_single else 8
    return replace(largest, item_bytes=wider) if is_float and largest.item_bytes == 1 else largest


def _of_subscript(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    assert isinstance(node, ast.Subscript)
    index = node.slice
    number = module.constant(index)
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0 and not isinstance(index, ast.Slice):
        # A part of nested tuples, not a row of an array.
        found = find_size(module, node.value, (number, *path), depth)
        return found if found is None or found.loader.startswith("keras.datasets.") else None
    if isinstance(number, str):
        found = find_size(module, node.value, path, depth)
        # A column of a table is small; an array of an .npz or .mat file is not.
        return found if found is None or found.loader in _ARCHIVES else None
    whole = find_size(module, node.value, path, depth)
    if whole is None:
        return None
    parts: Sequence[ast.expr] = index.elts if isinstance(index, ast.Tuple) else [index]
    return _sliced(module, whole, parts)


def _sliced(module: Module, whole: ArraySize, parts: Sequence[ast.expr]) -> ArraySize | None:
    shape: list[int] = []
    rest = list(whole.shape or ())
    for place, each in enumerate(parts):
        if isinstance(each, ast.Constant) and each.value is Ellipsis:
            break
        if module.name(each) == "numpy.newaxis" or (isinstance(each, ast.Constant) and each.value is None):
            shape.append(1)
        elif not isinstance(each, ast.Slice):
            return None
        elif whole.shape is None:
            if place == 0 and (each.lower is not None or each.upper is not None):
                return None
        elif rest:
            bounds = [None if part is None else module.constant(part) for part in (each.lower, each.upper, each.step)]
            given = [part for part in (each.lower, each.upper, each.step) if part is not None]
            if sum(isinstance(bound, int) for bound in bounds) < len(given) or bounds[2] == 0:
                return None
            shape.append(len(range(rest.pop(0))[slice(*bounds)]))  # type: ignore[arg-type]
    return whole if whole.shape is None else replace(whole, shape=(*shape, *rest))


def _of_attribute(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    assert isinstance(node, ast.Attribute)
    if node.attr in ("values", "T"):
        return find_size(module, node.value, path, depth)
    return _of_value(module, node, path, depth)


def _of_choice(module: Module, node: ast.AST, path: tuple[int, ...], depth: int) -> ArraySize | None:
    assert isinstance(node, ast.IfExp)
    return find_size(module, node.body, path, depth)


Finder = Callable[[Module, ast.AST, tuple[int, ...], int], ArraySize | None]
_FINDERS: tuple[tuple[type[ast.AST], Finder], ...] = (
    (ast.Name, _of_name), (ast.Call, _of_call), (ast.BinOp, _of_operation), (ast.Subscript, _of_subscript),
    (ast.Attribute, _of_attribute), (ast.IfExp, _of_choice),
)  # fmt: skip
