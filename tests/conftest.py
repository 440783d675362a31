"""What tests of every room share: a small tide whose every number is known."""

from dataclasses import replace

import numpy as np
import pytest

from lowtide.tide.columns import Buffers, Building, Curve, Recording, StepPeak, Unmodelled
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide

# name, op, layer, kind, dtype, shape, requested, allocated, born, died, source
TINY = [
    ("dense/kernel:0", "VarHandleOp", "dense", "weights", "float32", (25, 10), 1000, 1024, 0, 7, None),
    ("adam/dense_kernel_velocity:0", "VarHandleOp", "dense", "optimizer", "float32", (50, 10), 2000, 2048, 0, 7, None),
    ("x:0", "_Arg", None, "input", "float32", (5, 25), 500, 512, 0, 7, None),
    ("dense/Relu:0", "Relu", "dense", "activations", "float32", (100, 10), 4000, 4096, 1, 5, "train.py:7"),
    ("dense/MatMul:temp", "MatMul", "dense", "workspace", "uint8", (300,), 300, 512, 2, 3, None),
    ("gradient_tape/MatMul:0", "MatMul", "dense", "gradients", "float32", None, 1000, 1024, 4, 6, "train.py:9"),
]
# Of each row. The kernel lies in a region of its own; all others side by side: velocity between Relu and the workspace,
# then x and the gradient.
TINY_ADDRESSES = [2**20, 4096, 6656, 0, 6144, 7168]
TINY_CURVE = [3584, 7680, 8192, 7680, 8704, 4608, 3584]
TINY_NODES = ["dense/Relu", "dense/MatMul", "gradient_tape/MatMul", "adam/update"]
TINY_NODE = [0, 0, 1, 1, 2, 2, 3]

# The same in a process that has built other layers before, with a wider layer and one more.
WIDER = [
    ("dense_3/kernel:0", "VarHandleOp", "dense_3", "weights", "float32", (50, 10), 2000, 2048, 0, 7, None),
    ("adam_1/dense_3_kernel_velocity:0", "VarHandleOp", "dense_3", "optimizer", "float32", (50, 10), 2000, 2048, 0, 7)
    + (None,),
    ("x:0", "_Arg", None, "input", "float32", (5, 25), 500, 512, 0, 7, None),
    ("dense_3/Relu:0", "Relu", "dense_3", "activations", "float32", (200, 10), 8000, 8192, 1, 5, "train.py:8"),
    ("norm/mul:0", "Mul", "norm", "activations", "float32", (25,), 100, 256, 2, 5, None),
    ("gradient_tape/MatMul:0", "MatMul", "dense_3", "gradients", "float32", None, 900, 1024, 4, 6, "train.py:9"),
]
WIDER_CURVE = [4608, 12800, 13056, 13056, 14080, 5632, 4608]


def make_buffers(rows) -> Buffers:
    name, op, layer, kind, dtype, shape, requested, allocated, born, died, source = map(list, zip(*rows, strict=True))
    return Buffers(
        name=name,
        op=op,
        layer=layer,
        kind=np.array([KINDS.index(each) for each in kind], np.uint8),
        dtype=dtype,
        shape=shape,
        requested=np.array(requested, np.int64),
        allocated=np.array(allocated, np.int64),
        born=np.array(born, np.int32),
        died=np.array(died, np.int32),
        source=source,
    )


def make_tide(rows=TINY, curve=TINY_CURVE, node=TINY_NODE, nodes=TINY_NODES, **changes) -> Tide:
    fields = {
        "target": "train.py:build",
        "method": "simulated",
        "batch_size": 5,
        "peak_bytes": 8704,
        "safe_bytes": 9216,
        "buffers": make_buffers(rows),
        "curve": Curve(np.array(curve, np.int64), np.array(node, np.int32), list(nodes)),
        "building": Building(traced_nodes=40, executed_nodes=21, graph_bytes=2048, host_bytes=None),
        "unmodelled": (Unmodelled("FancyOp", 2, 640),),
        "notes": ("random weights",),
    }
    return Tide(**(fields | changes))


@pytest.fixture
def tide() -> Tide:
    return make_tide()


def make_recorded_tide(**changes) -> Tide:
    """Return the same tide as if it had been recorded."""
    buffers = replace(make_buffers(TINY), address=np.array(TINY_ADDRESSES, np.int64))
    recording = Recording("cpu", None, 12, (StepPeak(11, 8192), StepPeak(12, 8704), StepPeak(13, 8448)), 0.25)
    fields = {
        "method": "recorded",
        "buffers": buffers,
        "recording": recording,
        "building": Building(0, 0, 0, None),
        "unmodelled": (),
        "notes": (),
    }
    return make_tide(**(fields | changes))


@pytest.fixture
def recorded_tide() -> Tide:
    return make_recorded_tide()


@pytest.fixture
def wider() -> Tide:
    return make_tide(WIDER, WIDER_CURVE, peak_bytes=14080, safe_bytes=16384)


@pytest.fixture
def tide_factory():
    return make_tide


@pytest.fixture
def tide_file(tide, tmp_path):
    path = tmp_path / "step.tide"
    tide.save(path)
    return path


@pytest.fixture
def wider_file(wider, tmp_path):
    path = tmp_path / "wider.tide"
    wider.save(path)
    return path


@pytest.fixture
def plan():
    from tests.plans import make_plan

    return make_plan()


@pytest.fixture
def plan_file(plan, tmp_path):
    path = tmp_path / "step.plan"
    plan.save(path)
    return path


def pytest_collection_modifyitems(config, items):
    for item in items:
        if (config.rootpath / "tests" / "tf") in item.path.parents:
            item.add_marker("tensorflow")
