"""The nodes and scopes directly in a scope, as rows that can be selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Indices, Mask


@dataclass(frozen=True, slots=True, eq=False)
class ScopeEntries:
    """Nodes and scopes: each is a range of nodes, `first` up to `last`, under one name."""

    atlas: Atlas
    is_scope: Mask
    id: Indices
    """The number of the node, or of the scope."""
    first: Indices
    last: Indices

    def __len__(self) -> int:
        return len(self.id)

    @staticmethod
    def of(atlas: Atlas, scope: int) -> ScopeEntries:
        """Return the direct nodes and the direct scopes of a scope."""
        children, direct = atlas.children(scope), atlas.direct(scope)
        nodes = np.arange(direct.start, direct.stop)
        return ScopeEntries(
            atlas,
            np.concatenate([np.zeros(len(nodes), np.bool_), np.ones(len(children), np.bool_)]),
            np.concatenate([nodes, children]),
            np.concatenate([nodes, atlas.scope_first[children].astype(np.int64)]),
            np.concatenate([nodes + 1, atlas.scope_last[children].astype(np.int64)]),
        )

    @staticmethod
    def of_nodes(atlas: Atlas, nodes: Indices) -> ScopeEntries:
        """Return nodes of any scopes as entries."""
        return ScopeEntries(atlas, np.zeros(len(nodes), np.bool_), nodes, nodes, nodes + 1)

    def take(self, rows: npt.NDArray[Any]) -> ScopeEntries:
        """Select rows by mask or by index."""
        return ScopeEntries(self.atlas, self.is_scope[rows], self.id[rows], self.first[rows], self.last[rows])

    @property
    def text(self) -> Indices:
        """The text number of each entry's own name."""
        atlas = self.atlas
        text = np.zeros(len(self), np.int64)
        text[self.is_scope] = atlas.scope_leaf[self.id[self.is_scope]]
        text[~self.is_scope] = atlas.leaf[self.id[~self.is_scope]]
        return text

    def op(self) -> Indices:
        """Return the number of each node's op; for scopes, the number of ops."""
        op = np.full(len(self), len(self.atlas.ops), np.int64)
        op[~self.is_scope] = self.atlas.op[self.id[~self.is_scope]]
        return op

    def label(self, row: int) -> str:
        """Return the name within the scope; in brackets for the node that has the name of the scope itself."""
        atlas, identity = self.atlas, int(self.id[row])
        if self.is_scope[row]:
            return atlas.text(int(atlas.scope_leaf[identity]))
        leaf = atlas.text(int(atlas.leaf[identity]))
        return f"({leaf})" if atlas.is_head[identity] else leaf

    def name(self, row: int) -> str:
        """Return the full name of an entry."""
        identity = int(self.id[row])
        return self.atlas.scope_name(identity) if self.is_scope[row] else self.atlas.name(identity)

    def spans(self) -> tuple[Indices, Indices]:
        """Return start and end of each entry's own name in the texts of the atlas."""
        first, text = self.atlas.texts_first, self.text
        return first[text], first[text + 1]
