"""What the names of a module refer to: their scopes, the statements that bind them, and imported names in full."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.Module | ast.ClassDef | FunctionNode | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = frozenset({ast.Module, ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS})
# What `x` in `a.x = 1` or `+` in `a + 1` are: objects that all nodes of a tree share.
_SHARED = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
Position = tuple[int, int]

# Other names of the same things.
_SAME_MODULES = (
    ("tensorflow.compat.v1.", "tensorflow."),
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.python.keras.", "keras."),
    ("tensorflow.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("keras.api.", "keras."),
    ("keras.experimental.", "keras."),
    ("tensorflow.python.data.", "tensorflow.data."),
)


@dataclass(frozen=True)
class Binding:
    """A statement that gives a name its value."""

    name: str
    node: ast.AST
    """The statement, the parameter, or the clause of a comprehension."""
    value: ast.expr | None = None
    """The expression that the name is bound to, or taken from by `index`; None if there is none."""
    index: int | None = None
    """The place in `value` where a tuple is unpacked; None if the name is bound to all of it."""
    qualified: str | None = None
    """The full name of an imported thing."""
    is_element: bool = False
    """Whether the name is bound to the elements of `value`, as by a loop."""

    @property
    def end(self) -> Position:
        """The position from which on the name is bound."""
        node = self.node
        if isinstance(node, (ast.For, ast.AsyncFor)):
            node = node.target
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            node = node.items[-1]
            node = node.optional_vars or node.context_expr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.Match)):
            return (node.lineno, node.col_offset)
        return (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)


@dataclass
class Scope:
    """A module, class, function or comprehension, with what is bound in it."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    """Names declared `global` or `nonlocal`."""

    def add(self, binding: Binding) -> None:
        """Bind a name here, or in the scope that it is declared to belong to."""
        scope: Scope = self
        while binding.name in scope.elsewhere and scope.parent is not None:
            scope = scope.parent
        scope.bindings.setdefault(binding.name, []).append(binding)


class Scopes:
    """All scopes of a syntax tree."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self._scopes: dict[ast.AST, Scope] = {tree: Scope(tree, None)}
        self._scope_at: dict[ast.AST, Scope] = {}
        self.nodes: dict[type[ast.AST], list[ast.AST]] = {}
        self._visit(tree)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node that contains this one."""
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain this one, the innermost first."""
        while (above := self.parents.get(node)) is not None:
            yield above
            node = above

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the scope in which a node is evaluated: decorators and default values belong to the scope outside."""
        return self._scope_at[node]

    def scope(self, node: ScopeNode) -> Scope:
        """Return the scope that a node opens."""
        return self._scopes[node]

    def find(self, name: ast.Name) -> list[Binding]:
        """Return the bindings that a name may have where it is read; empty if it is a builtin or unknown."""
        scope: Scope | None = self.scope_of(name)
        is_innermost = True
        while scope is not None:
            found = scope.bindings.get(name.id)
            if found and (is_innermost or not isinstance(scope.node, ast.ClassDef)):
                return self._reaching(found, name) if is_innermost else found
            if not isinstance(scope.node, _COMPREHENSIONS):
                is_innermost = False
            scope = scope.parent
        return []

    def is_builtin(self, name: ast.Name) -> bool:
        """Whether a name is one of Python's own."""
        return hasattr(builtins, name.id) and not self.find(name)

    def qualified_name(self, node: ast.AST | None, depth: int = 0) -> str | None:
        """Return the full name of what an expression refers to, as "tensorflow.data.Dataset"; None if it is no name.

        Names of Keras begin with "keras.", from wherever they are imported; names of `tf.compat.v1` with "tensorflow.".
        """
        if isinstance(node, ast.Attribute):
            owner = self.qualified_name(node.value, depth)
            return None if owner is None else _same_name(f"{owner}.{node.attr}")
        if not isinstance(node, ast.Name) or depth > 5:
            return None
        bindings = self.find(node)
        if not bindings:
            return f"builtins.{node.id}" if hasattr(builtins, node.id) else None
        last = bindings[-1]
        if last.qualified is not None:
            return _same_name(last.qualified)
        if isinstance(last.value, (ast.Name, ast.Attribute)) and last.index is None and not last.is_element:
            return self.qualified_name(last.value, depth + 1)
        return None

    # -- building ------------------------------------------------------------------------------------------------

    def _visit(self, tree: ast.Module) -> None:
        """Note parents, scopes and bindings in one pass."""
        stack: list[tuple[ast.AST, Scope]] = [(tree, self._scopes[tree])]
        binders: list[tuple[ast.AST, Scope]] = []
        while stack:
            node, scope = stack.pop()
            kind = type(node)
            self._scope_at[node] = scope
            self.nodes.setdefault(kind, []).append(node)
            inner = scope
            if kind in _SCOPES and node is not tree:
                inner = self._scopes[node] = Scope(node, scope)  # type: ignore[arg-type]
            if kind in _BINDERS:
                binders.append((node, scope))
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                scope.elsewhere.update(node.names)
            children = [child for child in _children(node) if not isinstance(child, _SHARED)]
            for child in children:
                self.parents[child] = node
            if inner is scope:
                stack += [(child, self._scope_of_part(node, child, scope)) for child in reversed(children)]
            else:
                within = _children_within(node)
                stack += [(child, inner if child in within else scope) for child in reversed(children)]
        for node, scope in binders:
            own = self._scopes.get(node, scope)
            for binding in _bindings_of(node):
                # Functions and classes bind their names outside, and functions their parameters inside.
                (scope if binding.node is node else own).add(binding)

    def _scope_of_part(self, node: ast.AST, child: ast.AST, scope: Scope) -> Scope:
        """Return the scope of a child: that of its parent, save for what is evaluated before a scope is entered."""
        if isinstance(node, ast.arguments):
            return scope if isinstance(child, ast.arg) else scope.parent or scope
        if isinstance(node, ast.comprehension):
            outer = self.parents[node]
            assert isinstance(outer, _COMPREHENSIONS)
            is_first = node is outer.generators[0] and child is node.iter
            return scope.parent or scope if is_first else scope
        return scope

    def _reaching(self, bindings: list[Binding], name: ast.Name) -> list[Binding]:
        """Return the bindings of the same scope that may hold where a name is read, the last one at the end."""
        position = (name.lineno, name.col_offset)
        loops = [each for each in self.ancestors(name) if isinstance(each, (ast.For, ast.While))]
        before = [each for each in bindings if each.end <= position and not self._is_within(name, each.node, position)]
        found: list[Binding] = []
        for binding in reversed(before):
            found.append(binding)
            if self._always_runs_before(binding.node, name):
                break
        later = [
            each for each in bindings if each not in before and any(self._holds(loop, each.node) for loop in loops)
        ]
        return [*later, *reversed(found)] if found else later or bindings

    def _is_within(self, name: ast.Name, statement: ast.AST, position: Position) -> bool:
        # The right side of an assignment is evaluated before the name is bound.
        return isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and self._holds(statement, name)

    def _holds(self, outer: ast.AST, inner: ast.AST) -> bool:
        return outer is inner or any(above is outer for above in self.ancestors(inner))

    def _always_runs_before(self, statement: ast.AST, name: ast.Name) -> bool:
        """Whether a statement has surely run when a later name in the same scope is read."""
        branches = (ast.If, ast.For, ast.While, ast.Try, ast.ExceptHandler, ast.Match)
        around = [each for each in self.ancestors(statement) if isinstance(each, branches)]
        if isinstance(statement, (ast.For, ast.While)):
            around.insert(0, statement)
        above = {id(each) for each in self.ancestors(name)}
        return all(id(each) in above for each in around)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node; `ast.iter_child_nodes` takes twice the time."""
    for name in node._fields:
        value = getattr(node, name, None)
        if type(value) is list:
            for each in value:
                if isinstance(each, ast.AST):
                    yield each
        elif isinstance(value, ast.AST):
            yield value


def _children_within(scope: ast.AST) -> set[ast.AST]:
    """Return the parts of a node that are evaluated in the scope that it opens."""
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return {*scope.body, scope.args}
    return set(scope.body) if isinstance(scope, ast.ClassDef) else set(_children(scope))


_BINDERS = frozenset(
    {
        ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.For, ast.AsyncFor,
        ast.With, ast.AsyncWith, ast.ExceptHandler, ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS,
    }
)  # fmt: skip


def _bindings_of(node: ast.AST) -> Iterator[Binding]:
    """Yield what a node binds in its own scope, or, if it is a function, its name and its parameters."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.partition(".")[0]
            yield Binding(alias.asname or whole, node, qualified=whole)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            module = "." * node.level + (node.module or "")
            yield Binding(alias.asname or alias.name, node, qualified=f"{module}.{alias.name}")
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _bind(target, node, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from _bind(node.target, node, node.value)
    elif isinstance(node, ast.AugAssign):
        yield from _bind(node.target, node, None)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from _bind(node.target, node, node.iter, is_element=True)
    elif isinstance(node, _COMPREHENSIONS):
        for clause in node.generators:
            yield from _bind(clause.target, clause, clause.iter, is_element=True)
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield from _bind(item.optional_vars, node, item.context_expr)
    elif isinstance(node, (ast.ExceptHandler, ast.ClassDef)):
        if node.name is not None:
            yield Binding(node.name, node)
    elif isinstance(node, _FUNCTIONS):
        if not isinstance(node, ast.Lambda):
            yield Binding(node.name, node)
        arguments = node.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            yield Binding(each.arg, each)
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                yield Binding(star.arg, star)


def _bind(target: ast.expr, node: ast.AST, value: ast.expr | None, *, is_element: bool = False) -> Iterator[Binding]:
    if is_element and (inner := _iterated(value)) is not None:
        # enumerate() and zip() yield tuples of the elements of their arguments.
        if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == len(inner):
            for each, iterated in zip(target.elts, inner, strict=True):
                yield from _bind(each, node, iterated, is_element=True)
            return
        value = None
    if isinstance(target, ast.Name):
        yield Binding(target.id, node, value, is_element=is_element)
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) and not is_element else None
        for index, each in enumerate(target.elts):
            if isinstance(each, ast.Starred):
                yield from _bind(each.value, node, None)
            elif parts is not None and len(parts) == len(target.elts):
                yield from _bind(each, node, parts[index])
            elif isinstance(each, ast.Name):
                yield Binding(each.id, node, value, index, is_element=is_element)
            else:
                # A tuple in a tuple, such as the two parts of keras.datasets.mnist.load_data().
                yield from _bind(each, node, value, is_element=is_element)


def _iterated(value: ast.expr | None) -> list[ast.expr | None] | None:
    """Return what enumerate() or zip() iterate over, for each part of their tuples; None for the number."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or not value.args:
        return None
    if value.func.id == "enumerate":
        return [None, value.args[0]]
    if value.func.id == "zip" and not any(isinstance(each, ast.Starred) for each in value.args):
        return list(value.args)
    return None


def _same_name(name: str) -> str:
    for begin, instead in _SAME_MODULES:
        if name.startswith(begin):
            return instead + name[len(begin) :]
        if name == begin[:-1]:
            return instead[:-1]
    return name
