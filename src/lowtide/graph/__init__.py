"""What a program is: nodes, tensors and what each op does with memory.

The room is also the verb `lt.graph(path)`: a package and a function of one name would take each other's place.
"""

import sys
from importlib import import_module
from types import ModuleType


class _Verb(ModuleType):
    """A room that can be called."""

    def __call__(self, *arguments: object, **options: object) -> object:
        """Open a graph: `lowtide.atlas.subgraph.graph`, which lies above this room."""
        return import_module("lowtide.atlas.subgraph").graph(*arguments, **options)


sys.modules[__name__].__class__ = _Verb
