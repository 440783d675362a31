"""A module as rules see it: its syntax tree, what names and expressions are, and where code runs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

from lowtide.doctor.code.scopes import Scopes
from lowtide.doctor.code.values import LAYER, MODEL, TRACED, Value, ValueFinder
from lowtide.doctor.problem import Edit, Span
from lowtide.doctor.reading.source import Code

Node = TypeVar("Node", bound=ast.AST)
Loop = ast.For | ast.AsyncFor | ast.While
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Methods of Keras's classes that Keras calls within the graph of a step.
_TRACED_METHODS = frozenset({"call", "train_step", "test_step", "predict_step", "compute_loss", "update_state"})
# Dataset methods whose functions become a graph.
_MAPS = frozenset({"map", "flat_map", "interleave", "filter", "scan", "take_while", "window", "reduce"})


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a text, without the warnings of Python's compiler about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


class Module:
    """One source, parsed."""

    def __init__(self, source: Code) -> None:
        self.source = source
        self.tree = parse(source.text)
        self.scopes = Scopes(self.tree)
        self.values = ValueFinder(self.scopes)

    @cached_property
    def is_test(self) -> bool:
        """Whether this is a test, by its name: its data and models are small and thrown away."""
        path = self.source.path
        return path.stem.startswith("test_") or path.stem.endswith("_test") or path.parent.name in ("tests", "testing")

    # -- finding nodes -------------------------------------------------------------------------------------------

    def nodes(self, *kinds: type[Node]) -> Iterator[Node]:
        """Yield all nodes of these kinds, in no order."""
        for kind in kinds:
            yield from self.scopes.nodes.get(kind, ())  # type: ignore[misc]

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of functions with these full names; a name that ends with "." is that of a whole module."""
        modules = tuple(name for name in names if name.endswith("."))
        for call, name in self._named_calls:
            if name in names or (modules and name.startswith(modules)):
                yield call

    def method_calls(self, *methods: str) -> Iterator[tuple[ast.Call, ast.expr]]:
        """Yield the calls of methods with these names, and the objects on which they are called."""
        for call in self.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in methods:
                yield call, call.func.value

    @cached_property
    def _named_calls(self) -> list[tuple[ast.Call, str]]:
        named = ((call, self.scopes.qualified_name(call.func)) for call in self.nodes(ast.Call))
        return [(call, name) for call, name in named if name is not None]

    # -- what things are -----------------------------------------------------------------------------------------

    def name(self, node: ast.AST | None) -> str | None:
        """Return the full name of what an expression refers to, as "tensorflow.data.AUTOTUNE"; None if it is no name.

        Names of Keras begin with "keras.", from wherever they are imported; names of `tf.compat.v1` with "tensorflow.".
        """
        return self.scopes.qualified_name(node)

    def value(self, node: ast.AST | None) -> Value | None:
        """Return what an expression is; None if that is unknown."""
        return self.values.find(node)

    def kind(self, node: ast.AST | None) -> str | None:
        """Return the kind of an expression, one of those in `values`; None if it is unknown."""
        return self.values.kind(node)

    def constant(self, node: ast.AST | None, depth: int = 0) -> object:
        """Return the number, text or tuple that an expression always is; None if it is none or unknown."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and depth < 8:
            bindings = self.scopes.find(node)
            if len(bindings) == 1 and bindings[0].index is None and not bindings[0].is_element:
                return self.constant(bindings[0].value, depth + 1)
        if isinstance(node, ast.Tuple):
            return self._constants(node.elts, depth + 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = self.constant(node.operand, depth + 1)
            return -operand if isinstance(operand, (int, float)) else None
        if isinstance(node, ast.BinOp):
            return _compute(node.op, self.constant(node.left, depth + 1), self.constant(node.right, depth + 1))
        return None

    def _constants(self, nodes: list[ast.expr], depth: int) -> tuple[object, ...] | None:
        """Return the values of the parts of a tuple, with those of `*shape` in its place; None if one is unknown."""
        found: list[object] = []
        for each in nodes:
            value = self.constant(each.value if isinstance(each, ast.Starred) else each, depth)
            if value is None or (isinstance(each, ast.Starred) and not isinstance(value, tuple)):
                return None
            found += value if isinstance(each, ast.Starred) and isinstance(value, tuple) else [value]
        return tuple(found)

    def argument(self, call: ast.Call, position: int | None, name: str) -> ast.expr | None:
        """Return an argument of a call, by position or by name; None if it is not given."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        return call.args[position] if position is not None and not starred and position < len(call.args) else None

    # -- where code is -------------------------------------------------------------------------------------------

    def function_around(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
        """Return the innermost function that contains a node."""
        return next((each for each in self.scopes.ancestors(node) if isinstance(each, _FUNCTIONS)), None)

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class that contains a node."""
        return next((each for each in self.scopes.ancestors(node) if isinstance(each, ast.ClassDef)), None)

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """Return the loops that run a node again and again, within its function, the innermost first.

        What a loop evaluates once, such as the iterable of `for`, is not in it.
        """
        found: list[Loop] = []
        child = node
        for above in self.scopes.ancestors(node):
            if isinstance(above, (*_FUNCTIONS, ast.ClassDef)):
                break
            if isinstance(above, _LOOPS) and (child in above.body or isinstance(above, ast.While)):
                found.append(above)
            child = above
        return found

    def is_in_comprehension(self, node: ast.AST) -> bool:
        """Whether a comprehension within the node's function runs a node again and again."""
        child = node
        for above in self.scopes.ancestors(node):
            if isinstance(above, _FUNCTIONS):
                return False
            if isinstance(above, _COMPREHENSIONS) and child is not above.generators[0]:
                return True
            child = above
        return False

    def is_traced(self, node: ast.AST) -> bool:
        """Whether code becomes a part of a graph: in a tf.function, a Keras layer's `call`, or a function of `map`."""
        return any(
            isinstance(each, _FUNCTIONS) and self._becomes_graph(each) for each in (node, *self.scopes.ancestors(node))
        )

    def _becomes_graph(self, function: ast.AST) -> bool:
        if isinstance(function, ast.Lambda):
            call = self.scopes.parent(function)
            if isinstance(call, ast.keyword):
                call = self.scopes.parent(call)
            return isinstance(call, ast.Call) and self._traces_arguments(call)
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        if self.values.is_traced_by_decorator(function) or function in self._traced_by_name:
            return True
        owner = self.scopes.parent(function)
        if isinstance(owner, ast.ClassDef) and function.name in _TRACED_METHODS:
            return self.values.class_kind(owner) in (MODEL, LAYER, "metric", "loss")
        return False

    def _traces_arguments(self, call: ast.Call) -> bool:
        if self.name(call.func) == "tensorflow.function":
            return True
        method = call.func
        return isinstance(method, ast.Attribute) and method.attr in _MAPS and self.kind(method.value) == "dataset"

    @cached_property
    def _traced_by_name(self) -> set[ast.AST]:
        """The functions that tf.function or a dataset's `map` is given by name."""
        found: set[ast.AST] = set()
        for call in self.nodes(ast.Call):
            given = [each for each in call.args[:2] if isinstance(each, ast.Name)]
            if given and self._traces_arguments(call):
                values = (self.value(each) for each in given)
                found |= {each.origin for each in values if each is not None and each.kind in ("function", TRACED)}
        return found

    # -- text ----------------------------------------------------------------------------------------------------

    @cached_property
    def _lines(self) -> list[str]:
        # As Python counts lines: other characters that end lines, such as a form feed, do not.
        return [f"{line}\n" for line in self.source.text.split("\n")]

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line))
        return starts

    def line_text(self, number: int) -> str:
        """Return a line of the text, counted from 1, without its end."""
        return self._lines[number - 1].rstrip("\n")

    def offset(self, line: int, byte_column: int) -> int:
        """Return the offset in the text of a position as syntax trees have it."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        column = byte_column if text.isascii() else len(text.encode()[:byte_column].decode(errors="replace"))
        return self._line_starts[min(line - 1, len(self._lines))] + column

    def span(self, node: ast.AST) -> Span:
        """Return where a node is in the text."""
        begin = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return begin, self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """Return the text of a node."""
        begin, end = self.span(node)
        return self.source.text[begin:end]

    def short_text(self, node: ast.AST) -> str:
        """Return the text of a node in one line, at most 40 characters."""
        text = " ".join(self.text(node).split())
        return text if len(text) <= 40 else text[:37] + "..."

    def line(self, node: ast.AST) -> str:
        """Return the line of a node for a message: "line 12", or "line 3 of cell 7" in a notebook."""
        cell, line = self.source.find_place(node.lineno)  # type: ignore[attr-defined]
        return f"line {line}" if cell is None else f"line {line} of cell {cell}"

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that writes a text in place of a node."""
        return Edit(self.span(node), text)


def _compute(operator: ast.operator, left: object, right: object) -> object:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if isinstance(operator, ast.Pow) and not (abs(left) <= 1 << 20 and 0 <= right <= 64):
        return None
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.FloorDiv():
                return left // right
            case ast.Div():
                return left / right
            case ast.Pow():
                return left**right
    except (ArithmeticError, ValueError):
        return None
    return None
