"""The nodes of a GraphDef as they are read, before `scope_order` renumbers them."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowtide.atlas.index.columns import ColumnWriter
from lowtide.atlas.index.names import ScopeTable
from lowtide.atlas.index.text import TextPool


@dataclass
class UnorderedNodes:
    """The columns in the order of the file, with the tables that number scopes, ops and devices."""

    writer: ColumnWriter
    scopes: ScopeTable
    ops: TextPool
    devices: TextPool
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0
    broken: int = 0
    nameless: int = 0
