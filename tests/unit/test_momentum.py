"""Updates with momentum: which nodes are one, and which are not."""

import pytest

from lowtide.planning.rewrite.momentum import MomentumUpdate, momentum_updates
from tests.unit.graphs import make_graph

KERAS = """
w = _Arg() resource
m = _Arg() resource
x = _Arg() [8, 100]
rate = Const() []
inertia = Const() []
rw = ReadVariableOp(w) [100, 100]
g = MatMul(x, rw) [100, 100]
rm = ReadVariableOp(m) [100, 100]
kept = Mul(inertia, rm) [100, 100]
scaled = Mul(g, rate) [100, 100]
new = Sub(kept, scaled) [100, 100]
am = AssignVariableOp(m, new, ^rm)
again = ReadVariableOp(m, ^am) [100, 100]
aw = AssignAddVariableOp(w, again, ^rw)
"""
SHAPES = {"w": (100, 100), "m": (100, 100)}


def updates(text=KERAS, **shapes):
    return momentum_updates(make_graph(text, variables=SHAPES | shapes))


def test_the_update_that_keras_writes():
    assert updates() == [
        MomentumUpdate(
            "aw",
            ("rm", "kept", "scaled", "new", "am", "again"),
            weight=("aw", 0),
            slot=("am", 0),
            rate=("scaled", 1),
            gradient=("scaled", 0),
            momentum=("kept", 0),
        )
    ]


def test_a_value_that_is_added_without_being_read_again():
    text = KERAS.replace("again = ReadVariableOp(m, ^am) [100, 100]\n", "").replace("(w, again,", "(w, new,")
    (found,) = updates(text)
    assert found.others == ("rm", "kept", "scaled", "new", "am")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The sum is another number in its last bit, or another altogether.
        ("new = Sub(kept, scaled)", "new = Sub(scaled, kept)"),
        ("new = Sub(kept, scaled)", "new = AddV2(kept, scaled)"),
        ("aw = AssignAddVariableOp", "aw = AssignSubVariableOp"),
        # Another node needs the intermediate result.
        ("aw = ", "other = Neg(new) [100, 100]\naw = "),
        ("aw = ", "other = Neg(kept) [100, 100]\naw = "),
        ("aw = ", "other = Neg(again) [100, 100]\naw = "),
        ("aw = ", "other = ReadVariableOp(m, ^am) [100, 100]\naw = "),
        # The slot is read before it is assigned, or is another one.
        ("ReadVariableOp(m, ^am)", "ReadVariableOp(m)"),
        ("rm = ReadVariableOp(m)", "rm = ReadVariableOp(w)"),
        # No single number.
        ("rate = Const() []", "rate = Const() [100]"),
        ("inertia = Const() []", "inertia = Const() [100, 100]"),
    ],
)
def test_updates_of_another_form(old, new):
    assert old in KERAS
    assert updates(KERAS.replace(old, new)) == []


def test_a_slot_of_another_shape_is_none():
    assert updates(m=(100,)) == []
    assert updates(w=(1, 100, 100)) == []
