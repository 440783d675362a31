"""What the expressions of a module are: arrays, datasets, models, as far as reading the code tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowtide.doctor.code.scopes import Binding, Scopes

ARRAY = "array"
"""A NumPy array or a data frame in the memory of the process."""
DATASET = "dataset"
MODEL = "model"
LAYER = "layer"
OPTIMIZER = "optimizer"
METRIC = "metric"
LOSS = "loss"
TAPE = "tape"
VARIABLE = "variable"
TENSOR = "tensor"
GRADIENTS = "gradients"
SESSION = "session"
GRAPH = "graph"
TRACED = "traced function"
"""What tf.function returns."""
FUNCTION = "function"
CLASS = "class"

# Makers of arrays that read a whole file or data set.
LOADERS = (
    "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "pandas.read_csv", "pandas.read_parquet",
    "pandas.read_pickle", "pandas.read_hdf", "pandas.read_json", "pandas.read_excel", "pandas.read_feather",
    "scipy.io.loadmat", "pickle.load", "joblib.load", "torch.load",
)  # fmt: skip
_MADE_ARRAYS = (
    "zeros", "ones", "full", "empty", "array", "asarray", "arange", "linspace", "concatenate", "stack", "vstack",
    "hstack", "expand_dims", "reshape", "zeros_like", "ones_like", "squeeze", "transpose", "eye", "tile", "repeat",
    "random.rand", "random.randn", "random.random", "random.randint", "random.normal", "random.uniform",
    "random.random_sample", "random.standard_normal", "random.choice", "random.permutation",
)  # fmt: skip
# Those of an array's methods and attributes, of a data frame's too, that are an array of about the same size.
_ARRAY_METHODS = frozenset(
    "astype reshape copy transpose squeeze to_numpy flatten ravel swapaxes drop dropna fillna view".split()
)
_ARRAY_ATTRIBUTES = frozenset({"values", "T", "real"})
DATASET_METHODS = frozenset(
    """apply as_numpy_iterator batch bucket_by_sequence_length cache concatenate enumerate filter flat_map
    group_by_window ignore_errors interleave map padded_batch prefetch ragged_batch random rebatch rejection_resample
    repeat scan shard shuffle skip snapshot sparse_batch take take_while unbatch unique window with_options""".split()
)
_DATASET_FUNCTIONS = (
    "keras.utils.image_dataset_from_directory", "keras.utils.text_dataset_from_directory",
    "keras.utils.audio_dataset_from_directory", "keras.utils.timeseries_dataset_from_array",
    "keras.preprocessing.image_dataset_from_directory", "keras.preprocessing.text_dataset_from_directory",
    "keras.preprocessing.timeseries_dataset_from_array", "tensorflow_datasets.load",
)  # fmt: skip
_MAKES_DATASET = re.compile(r"tensorflow\.data\..*Dataset(?!Spec)|tensorflow\.data\.experimental\.make_\w+_dataset$")
_KERAS_KINDS = (
    ("keras.optimizers.schedules.", None),
    ("keras.optimizers.", OPTIMIZER),
    ("keras.metrics.", METRIC),
    ("keras.losses.", LOSS),
    ("keras.layers.", LAYER),
    ("keras.applications.", MODEL),
    ("keras.ops.", TENSOR),
    ("keras.random.", TENSOR),
)
_KINDS = {
    "keras.Model": MODEL, "keras.Sequential": MODEL, "keras.models.Model": MODEL, "keras.models.Sequential": MODEL,
    "keras.models.load_model": MODEL, "keras.saving.load_model": MODEL, "keras.models.clone_model": MODEL,
    "keras.Layer": LAYER, "keras.Input": TENSOR, "keras.Metric": METRIC, "keras.Optimizer": OPTIMIZER,
    "keras.Loss": LOSS,
    "tensorflow.GradientTape": TAPE, "tensorflow.Variable": VARIABLE,
    "tensorflow.get_variable": VARIABLE, "keras.Variable": VARIABLE, "tensorflow.Session": SESSION,
    "tensorflow.InteractiveSession": SESSION, "tensorflow.Graph": GRAPH, "tensorflow.function": TRACED,
}  # fmt: skip
# Modules of TensorFlow in which a call returns no tensor.
_NO_TENSORS = (
    "tensorflow.config.", "tensorflow.train.", "tensorflow.distribute.", "tensorflow.summary.", "tensorflow.io.gfile.",
    "tensorflow.saved_model.", "tensorflow.lite.", "tensorflow.logging.", "tensorflow.profiler.", "tensorflow.test.",
    "tensorflow.debugging.", "tensorflow.estimator.", "tensorflow.feature_column.", "tensorflow.errors.",
    "tensorflow.autograph.", "tensorflow.experimental.", "tensorflow.compat.", "tensorflow.data.", "tensorflow.keras.",
    "tensorflow.types.", "tensorflow.lookup.", "tensorflow.Module", "tensorflow.TensorSpec", "tensorflow.TensorShape",
    "tensorflow.device", "tensorflow.name_scope", "tensorflow.variable_scope", "tensorflow.get_static_value",
    "tensorflow.global_variables_initializer", "tensorflow.is_tensor", "tensorflow.executing_eagerly",
    "tensorflow.get_logger", "tensorflow.nest.", "tensorflow.DType", "tensorflow.random.set_seed", "tensorflow.print",
    "tensorflow.contrib.", "tensorflow.flags.", "tensorflow.app.", "tensorflow.gfile.", "tensorflow.python_io.",
    "tensorflow.random.Generator.", "tensorflow.initializers.", "tensorflow.get_default_", "tensorflow.get_collection",
    "tensorflow.global_variables", "tensorflow.local_variables", "tensorflow.trainable_variables",
    "tensorflow.control_dependencies", "tensorflow.init_scope", "tensorflow.recompute_grad",
    "tensorflow.custom_gradient", "tensorflow.make_template", "tensorflow.load_op_library", "tensorflow.sysconfig.",
    "tensorflow.set_random_seed", "tensorflow.reset_default_graph", "tensorflow.enable_", "tensorflow.disable_",
    "tensorflow.get_variable_scope", "tensorflow.import_graph_def", "tensorflow.python.", "tensorflow.version.",
    "tensorflow.random_normal_initializer", "tensorflow.random_uniform_initializer", "tensorflow.zeros_initializer",
    "tensorflow.ones_initializer", "tensorflow.constant_initializer", "tensorflow.truncated_normal_initializer",
    "tensorflow.as_dtype", "tensorflow.dtypes.as_dtype", "tensorflow.examples.", "tensorflow.wrap_function",
    "tensorflow.graph_util.", "tensorflow.resource_loader.",
)  # fmt: skip
_DEEPEST = 80
# NumPy functions that return about as many bytes as their first argument has.
_SAME_SIZE = frozenset(
    "array asarray expand_dims reshape zeros_like ones_like squeeze transpose random.permutation".split()
)
_JOINS = frozenset("concatenate stack vstack hstack".split())


@dataclass(frozen=True)
class Value:
    """What an expression is."""

    kind: str
    origin: ast.AST
    """The expression, function or class that made it: for an array the one that loaded it."""
    stages: tuple[ast.Call, ...] = ()
    """For a dataset, the calls that made it, the source first."""
    is_part: bool = False
    """Whether it is a slice of the array that `origin` made."""


class ValueFinder:
    """The values of the expressions of one module."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._known: dict[ast.AST, Value | None] = {}
        self._attributes: dict[tuple[ast.ClassDef, str], list[ast.expr]] | None = None

    def find(self, node: ast.AST | None, depth: int = 0) -> Value | None:
        """Return what an expression is; None if that is unknown."""
        if node is None or depth > _DEEPEST:
            return None
        if node not in self._known:
            # A name may be bound to an expression of itself, in a loop.
            self._known[node] = None
            self._known[node] = self._evaluate(node, depth + 1)
        return self._known[node]

    def kind(self, node: ast.AST | None) -> str | None:
        """Return the kind of an expression; None if it is unknown."""
        value = self.find(node)
        return None if value is None else value.kind

    def _evaluate(self, node: ast.AST, depth: int) -> Value | None:
        if isinstance(node, ast.Name):
            return self._first(self._of_binding(each, depth) for each in reversed(self._scopes.find(node)))
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, depth)
        if isinstance(node, ast.BinOp):
            sides = [self.find(side, depth) for side in (node.left, node.right)]
            return next((each for kind in (TENSOR, ARRAY) for each in sides if each and each.kind == kind), None)
        if isinstance(node, ast.IfExp):
            return self._first(self.find(each, depth) for each in (node.body, node.orelse))
        if isinstance(node, (ast.UnaryOp, ast.NamedExpr, ast.Await)):
            return self.find(node.operand if isinstance(node, ast.UnaryOp) else node.value, depth)
        return None

    def _first(self, values: Iterator[Value | None]) -> Value | None:
        return next((each for each in values if each is not None), None)

    def _of_binding(self, binding: Binding, depth: int) -> Value | None:
        node = binding.node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and binding.value is None:
            return Value(TRACED if self.is_traced_by_decorator(node) else FUNCTION, node)
        if isinstance(node, ast.ClassDef):
            return Value(CLASS, node)
        if isinstance(node, ast.AugAssign):
            values = [self.find(each, depth) for each in (node.value, node.target)]
            return next((each for each in values if each and each.kind == TENSOR), values[1] or values[0])
        if binding.value is None:
            return None
        value = self.find(binding.value, depth)
        if value is None and binding.index is not None and isinstance(binding.value, ast.Call):
            return self._returned_part(binding.value, binding.index, depth)
        if value is None:
            return None
        if binding.is_element:
            return Value(TENSOR, binding.value) if value.kind == DATASET else None
        if binding.index is not None and binding.name.endswith("info"):
            # (train, test), info = tfds.load(..., with_info=True)
            return None
        # Loaders and splits return tuples of arrays, tfds.load a tuple of datasets, a tf.function one of tensors.
        return value if binding.index is None or value.kind in (ARRAY, DATASET, TENSOR) else None

    def _call(self, node: ast.Call, depth: int) -> Value | None:
        name = self._scopes.qualified_name(node.func)
        if name is not None and (known := self._named_call(node, name, depth)) is not None:
            return known
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, depth)
        made = self.find(node.func, depth)
        return None if made is None else self._called(node, made, depth)

    def _named_call(self, node: ast.Call, name: str, depth: int) -> Value | None:
        if name in _KINDS:
            return Value(_KINDS[name], node)
        if name in LOADERS or (name.startswith("keras.datasets.") and name.endswith(".load_data")):
            return Value(ARRAY, node)
        if name.startswith("sklearn.datasets.fetch_"):
            return Value(ARRAY, node)
        if name == "sklearn.model_selection.train_test_split":
            return self._first(self.find(each, depth) for each in node.args)
        if name in _DATASET_FUNCTIONS or _MAKES_DATASET.match(name):
            return Value(DATASET, node, (node,))
        if name.startswith("numpy."):
            return self._numpy_call(node, name.removeprefix("numpy."), depth)
        for begin, kind in _KERAS_KINDS:
            if name.startswith(begin):
                kind = self._kind_of_keras_call(kind, name.rpartition(".")[2])
                return None if kind is None else Value(kind, node)
        if name.startswith("tensorflow.") and not name.startswith(_NO_TENSORS) and name.split(".")[-1][0].islower():
            return Value(TENSOR, node)
        return None

    def _kind_of_keras_call(self, kind: str | None, function: str) -> str | None:
        """Return what a function or class of a Keras module makes: add(), Add() or get() of keras.layers."""
        if kind == TENSOR or function == "Input":
            return TENSOR if function == "Input" or function[:1].islower() else None
        if function[:1].isupper() or function == "get":
            return None if function == "InputSpec" else kind
        return TENSOR if kind in (LAYER, METRIC, LOSS) and not function.endswith("serialize") else None

    def _numpy_call(self, node: ast.Call, name: str, depth: int) -> Value | None:
        if name not in _MADE_ARRAYS:
            return None
        given: Value | None = None
        if node.args and name in _SAME_SIZE:
            given = self.find(node.args[0], depth)
        elif node.args and name in _JOINS and isinstance(node.args[0], (ast.List, ast.Tuple)):
            given = self._first(self.find(each, depth) for each in node.args[0].elts)
        return given if given is not None and given.kind == ARRAY else Value(ARRAY, node)

    def _method(self, node: ast.Call, function: ast.Attribute, depth: int) -> Value | None:
        owner = self.find(function.value, depth)
        if owner is None:
            # A layer, or a method, of the object itself.
            made = self.find(function, depth)
            return None if made is None else self._called(node, made, depth)
        method = function.attr
        if owner.kind == DATASET:
            return replace(owner, stages=(*owner.stages, node)) if method in DATASET_METHODS else None
        if owner.kind == ARRAY:
            if method == "sample":
                return replace(owner, is_part=True)
            return owner if method in _ARRAY_METHODS else None
        if owner.kind == TAPE and method in ("gradient", "jacobian"):
            return Value(GRADIENTS, node)
        if owner.kind == METRIC and method in ("result", "update_state"):
            return Value(TENSOR, node)
        return Value(TENSOR, node) if owner.kind in (MODEL, LAYER) and method == "call" else None

    def _called(self, node: ast.Call, made: Value, depth: int) -> Value | None:
        """Return what calling a value returns."""
        if made.kind in (MODEL, LAYER, LOSS, METRIC):
            return Value(TENSOR, node)
        if made.kind == CLASS and isinstance(made.origin, ast.ClassDef):
            kind = self.class_kind(made.origin)
            return None if kind is None else Value(kind, node)
        if isinstance(made.origin, (ast.FunctionDef, ast.AsyncFunctionDef)):
            returns = [each for each in _own_nodes(made.origin) if isinstance(each, ast.Return)]
            found = self._first(self.find(each.value, depth) for each in returns)
            return Value(TENSOR, node) if found is None and made.kind == TRACED and returns else found
        return Value(TENSOR, node) if made.kind == TRACED else None

    def _returned_part(self, node: ast.Call, index: int, depth: int) -> Value | None:
        """Return what one of the values is that a function of the module returns as a tuple."""
        made = self.find(node.func, depth)
        if made is None or not isinstance(made.origin, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        returns = [each.value for each in _own_nodes(made.origin) if isinstance(each, ast.Return)]
        tuples = [each.elts for each in returns if isinstance(each, ast.Tuple)]
        return self._first(self.find(parts[index], depth) for parts in tuples if index < len(parts))

    def _attribute(self, node: ast.Attribute, depth: int) -> Value | None:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            owner = next((each for each in self._scopes.ancestors(node) if isinstance(each, ast.ClassDef)), None)
            if owner is not None:
                assigned = self._first(self.find(each, depth) for each in self._assigned(owner, node.attr))
                return assigned or self._own_method(owner, node.attr)
        value = self.find(node.value, depth)
        return value if value is not None and value.kind == ARRAY and node.attr in _ARRAY_ATTRIBUTES else None

    def _own_method(self, owner: ast.ClassDef, name: str) -> Value | None:
        for each in owner.body:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == name:
                is_property = any(isinstance(part, ast.Name) and part.id == "property" for part in each.decorator_list)
                return None if is_property else Value(TRACED if self.is_traced_by_decorator(each) else FUNCTION, each)
        return None

    def _subscript(self, node: ast.Subscript, depth: int) -> Value | None:
        value = self.find(node.value, depth)
        if value is None or value.kind not in (ARRAY, TENSOR, DATASET):
            return None
        if value.kind != ARRAY:
            return value
        index = node.slice
        if isinstance(index, ast.Tuple) and index.elts:
            index = index.elts[0]
        if isinstance(index, ast.Slice):
            # x[:], x[..., None] and x[:, 1:] have all rows.
            return value if index.lower is None and index.upper is None else replace(value, is_part=True)
        if isinstance(index, ast.Constant):
            # A column of a data frame, or an array of an .npz file.
            return value if isinstance(index.value, str) or index.value is Ellipsis else None
        return value if isinstance(index, (ast.List, ast.Compare)) else None

    # -- functions and classes -----------------------------------------------------------------------------------

    def is_traced_by_decorator(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a decorator makes a function a tf.function."""
        return self.tracing_decorator(node) is not None

    def tracing_decorator(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
        """Return the decorator that makes a function a tf.function."""
        for each in node.decorator_list:
            function = each.func if isinstance(each, ast.Call) else each
            if self._scopes.qualified_name(function) in ("tensorflow.function", "lowtide.function"):
                return each
            if isinstance(each, ast.Call) and each.args and self._is_partial(each):
                return each
        return None

    def _is_partial(self, call: ast.Call) -> bool:
        """Whether a call is `functools.partial(tf.function, ...)`."""
        names = [self._scopes.qualified_name(each) for each in (call.func, call.args[0])]
        return names == ["functools.partial", "tensorflow.function"]

    def class_kind(self, node: ast.ClassDef, depth: int = 0) -> str | None:
        """Return the kind of a class's objects: that of the Keras class from which it is derived."""
        for base in node.bases:
            name = self._scopes.qualified_name(base) or ""
            if name in _KINDS:
                return _KINDS[name]
            for begin, kind in _KERAS_KINDS:
                if name.startswith(begin):
                    return kind
            above = self.find(base)
            if above is not None and isinstance(above.origin, ast.ClassDef) and depth < 5 and above.origin is not node:
                return self.class_kind(above.origin, depth + 1)
        return None

    def _assigned(self, owner: ast.ClassDef, attribute: str) -> list[ast.expr]:
        """Return the expressions that methods of a class assign to an attribute of self."""
        if self._attributes is None:
            self._attributes = {}
            for node in self._scopes.nodes.get(ast.Assign, ()):
                assert isinstance(node, ast.Assign)
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                        above = next((e for e in self._scopes.ancestors(node) if isinstance(e, ast.ClassDef)), None)
                        if above is not None and target.value.id == "self":
                            self._attributes.setdefault((above, target.attr), []).append(node.value)
        return self._attributes.get((owner, attribute), [])


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions and classes in it."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))
