"""What TensorFlow refuses to import, found before a GraphDef is written."""

from __future__ import annotations

import re

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Indices, csr_entries
from lowtide.atlas.index.references import MISSING
from lowtide.errors import LowtideError

# The rule of TensorFlow for names of nodes, and its first characters and all characters.
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_FIRST = np.array([_NAME.fullmatch(chr(byte)) is not None for byte in range(256)])
_OTHER = np.array([_NAME.fullmatch(f"a{chr(byte)}") is not None for byte in range(256)])

# oneDNN's gradient of a convolution with a bias: TensorFlow infers a wrong shape for the gradient of the bias.
_WRONG_SHAPE = re.compile(r"_Mkl(Native)?Conv\w*BackpropFilterWithBias")


def check_importable(atlas: Atlas, nodes: Indices) -> None:
    """Raise an error that says why TensorFlow would refuse some nodes of the main graph."""
    if atlas.source.import_obstacle is not None:
        cure = "write .json, .graphml or .dot, or choose a graph of ops with --graph, in a SavedModel the last"
        raise _refusal(atlas.source.import_obstacle, atlas.source.label, cure)
    _check_names(atlas, nodes)
    _check_duplicates(atlas)
    _check_inputs(atlas, nodes)


def _check_names(atlas: Atlas, nodes: Indices) -> None:
    texts, first = atlas.texts, atlas.texts_first
    starts = first[:-1][first[:-1] < first[1:]]
    if _OTHER[texts].all() and _FIRST[texts[starts]].all():
        return
    for name in atlas.names(nodes):
        if not _NAME.fullmatch(name):
            raise _refusal("it allows no such name of a node", name)


def _check_duplicates(atlas: Atlas) -> None:
    hashes = atlas.column("name_hash")
    same = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(same):
        name = atlas.name(int(atlas.column("name_node")[same[0]]))
        raise _refusal("several nodes have this name", name)


def _check_inputs(atlas: Atlas, nodes: Indices) -> None:
    wrong = [number for number, op in enumerate(atlas.ops) if _WRONG_SHAPE.fullmatch(op)]
    if not wrong:
        return
    places, _ = csr_entries(atlas.first_input, nodes)
    source = atlas.inputs[places[atlas.input_port[places] == 1]]
    source = source[source != MISSING]
    source = source[np.isin(atlas.op[source], wrong) & np.isin(source, nodes)]
    if len(source):
        cure = "choose the graph before optimization with --graph, or write .json, .graphml or .dot"
        obstacle = "it infers a wrong shape for the second output of an op of oneDNN"
        raise _refusal(obstacle, atlas.name(int(source[0])), cure)


def _refusal(obstacle: str, given: str, cure: str = "write .json, .graphml or .dot") -> LowtideError:
    return LowtideError(f"TensorFlow does not import this graph: {obstacle}", given=given, cure=cure)
