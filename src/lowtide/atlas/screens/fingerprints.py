"""Fingerprints of nodes: hashes of name, op, outputs and inputs that can be summed over the nodes of a scope."""

from __future__ import annotations

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Floats, Hashes, Indices, csr_entries
from lowtide.atlas.index.references import MISSING
from lowtide.atlas.index.text import hash_texts, mix

# The sum of ten million numbers of this many bits is exact in a float64.
_BITS = 28

# The position with which each property is mixed.
_NAME, _SCOPE, _OP, _TENSOR, _INPUT, _SOURCE, _DTYPE, _ALL = np.arange(8, dtype=np.uint64)


class Fingerprints:
    """A number for each node of a graph, equal for equal nodes of another graph.

    The sums over two scopes are equal if no node differs. Values of constants and attributes that do not affect outputs
    are ignored.
    """

    is_summed = True

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas
        self._text = np.zeros(len(atlas.texts_by_hash), np.uint64)
        self._text[atlas.texts_by_hash] = atlas.texts_hash
        self._op = hash_texts([op.encode(errors="surrogateescape") for op in atlas.ops])

    def __call__(self, nodes: Indices) -> Floats:
        """Return the fingerprints of some nodes."""
        atlas = self._atlas
        name, scope = self._names(nodes)
        prints = mix(name, _NAME) + mix(scope, _SCOPE) + mix(self._op[atlas.op[nodes]], _OP)
        prints += mix(atlas.dtype[nodes].astype(np.uint64), _DTYPE)
        places, counts = csr_entries(atlas.first_tensor, nodes)
        prints += _sums(mix(atlas.tensor_bytes[places].astype(np.uint64), _TENSOR), counts)
        places, counts = csr_entries(atlas.first_input, nodes)
        prints += _sums(self._inputs(places), counts)
        return (mix(prints, _ALL) >> np.uint64(64 - _BITS)).astype(np.float64)

    def _names(self, nodes: Indices) -> tuple[Hashes, Hashes]:
        """Return the hashes of each node's name and of its scope's name."""
        atlas = self._atlas
        return self._text[atlas.leaf[nodes]], self._text[atlas.scope_leaf[atlas.scope[nodes]]]

    def _inputs(self, places: Indices) -> Hashes:
        sources, port = self._atlas.inputs[places], self._atlas.input_port[places].astype(np.uint64)
        is_there = sources != MISSING
        name, scope = self._names(np.where(is_there, sources, 0).astype(np.int64))
        found = mix(name, _INPUT) + mix(scope, _SOURCE)
        return mix(np.where(is_there, found, np.uint64(0)), port)


def _sums(values: Hashes, counts: Indices) -> Hashes:
    """Sum runs of values; `counts` are the lengths of the runs."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    last = np.cumsum(counts)
    sums: Hashes = running[last] - running[last - counts]
    return sums
