"""A small plan whose every number is known: the wider of two tides lowered to the other."""

from lowtide.planning.plan import MICROBATCH, ORDER, PRECISION, RECOMPUTE, Action, FrontierPoint, Plan
from lowtide.planning.rewrite.rewrite import Rewrite
from tests.conftest import WIDER, WIDER_CURVE, make_tide

ACTIONS = (
    Action(ORDER, "gradient_tape/MatMul", "MatMul", "dense", 0, 0.0, "frees the largest tensor sooner"),
    Action(RECOMPUTE, "norm/mul", "Mul", "norm", 100, 3.5, "held until the backward pass"),
    Action(RECOMPUTE, "dense/Relu", "Relu", "dense", 8000, 1250.0, "held until the backward pass"),
)
FRONTIER = (
    FrontierPoint(12288, 0.0, 0),
    FrontierPoint(10000, 0.08, 1),
    # Beaten by the one above and the plan itself.
    FrontierPoint(11000, 0.09, 1),
    FrontierPoint(7168, 0.31, 4),
)


def make_plan(**changes) -> Plan:
    fields = {
        "target": "train.py:build",
        "budget_bytes": 10240,
        "before": make_tide(WIDER, WIDER_CURVE, peak_bytes=14080, safe_bytes=16384),
        "after": make_tide(),
        "slowdown": 0.142,
        "actions": ACTIONS,
        "frontier": FRONTIER,
        "rewrite": Rewrite(
            copies=(("dense/Relu/again", "dense/Relu"),),
            inputs=(("gradient_tape/MatMul", 0, "dense/Relu/again:0"),),
            controls=(("dense/MatMul", "dense/Relu/again"),),
        ),
        "fingerprint": "5f1d",
        "notes": ("times are estimates",),
    }
    return Plan(**(fields | changes))


def make_changing_plan() -> Plan:
    """A plan that also does what changes results."""
    actions = (
        Action(MICROBATCH, "the batch", None, None, 4096, 20.0, "allowed"),
        Action(PRECISION, "mixed_bfloat16", None, None, 2048, 0.0, "allowed"),
    )
    return make_plan(actions=actions, pieces=4, precision="mixed_bfloat16")


def make_idle_plan() -> Plan:
    """The plan of a step that fits as it is."""
    tide = make_tide()
    return make_plan(before=tide, after=tide, slowdown=0.0, actions=(), frontier=(), notes=())
