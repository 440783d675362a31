"""Programs written byte by byte, for the page to show: a training step, what became of it, and thousands of nodes."""

from collections.abc import Iterator

from tests.unit.graph_bytes import FLOAT, RESOURCE, attribute, function, shape, typed
from tests.unit.protos import CPU, event, events, message, node, summary

LOSSES, SCALES = 200, 80

CALLED = message(
    2,
    function(
        "normalize",
        ["values"],
        [node("mean", "Mean", "values"), node("centred", "Sub", "values", "mean:output:0")],
        {"result": "centred:z:0"},
    ),
)

DENSE = (
    node("x", "Placeholder", attributes=typed(FLOAT, shape(5, 25), key="dtype")),
    node("dense/kernel", "VarHandleOp", attributes=typed(RESOURCE, shape(), key="dtype")),
    node("dense/kernel/Read", "ReadVariableOp", "dense/kernel", attributes=typed(FLOAT, shape(25, 10), key="dtype")),
    node("dense/MatMul", "MatMul", "x", "dense/kernel/Read", attributes=typed(FLOAT, shape(5, 10)), device=CPU),
    node("dense/Relu", "Relu", "dense/MatMul", attributes=typed(FLOAT, shape(5, 10))),
    node(
        "call",
        "PartitionedCall",
        "dense/Relu",
        attributes=typed(FLOAT, shape(5, 10), key="Tin") + attribute("f", message(10, message(1, "normalize"))),
    ),
)
TOWER = tuple(
    made
    for number in range(1, 4)
    for made in (
        node(f"tower/block_{number}/scale", "VariableV2", attributes=typed(FLOAT, shape(10, 10), key="dtype")),
        node(
            f"tower/block_{number}/MatMul",
            "MatMul",
            f"tower/block_{number - 1}/MatMul" if number > 1 else "call",
            f"tower/block_{number}/scale",
            attributes=typed(FLOAT, shape(5, 10)),
        ),
    )
)
METRICS = (
    *(
        node(f"metrics/loss_{number}", "Const", attributes=typed(FLOAT, shape(), key="dtype"))
        for number in range(LOSSES)
    ),
    *(node(f"metrics/scale_{number}", "Mul", f"metrics/loss_{number}", "call") for number in range(SCALES)),
    node("metrics/total", "AddN", *(f"metrics/scale_{number}" for number in range(SCALES))),
)
BACKWARD = (
    node("gradient_tape/MatMul", "MatMul", "x", "tower/block_3/MatMul", attributes=typed(FLOAT, shape(25, 10))),
    node("adam/dense_kernel_velocity", "VarHandleOp", attributes=typed(RESOURCE, shape(), key="dtype")),
    node(
        "adam/update",
        "ResourceApplyAdam",
        "dense/kernel",
        "adam/dense_kernel_velocity",
        "gradient_tape/MatMul",
        "^metrics/total",
    ),
)
TRAIN_STEP = b"".join((*DENSE, *TOWER, *METRICS, *BACKWARD)) + CALLED

# Without the velocity and the blocks after the first, with a wider layer and a new scope.
WIDER_STEP = (
    b"".join(
        (
            *DENSE[:4],
            node("dense/Relu", "Relu", "dense/MatMul", attributes=typed(FLOAT, shape(5, 20))),
            DENSE[5],
            *TOWER[:2],
            node("norm/mul", "Mul", "dense/Relu", "dense/Relu"),
            node("gradient_tape/MatMul", "MatMul", "x", "norm/mul", attributes=typed(FLOAT, shape(25, 10))),
            node("adam/update", "ResourceApplyAdam", "dense/kernel", "gradient_tape/MatMul"),
        )
    )
    + CALLED
)


def traced_run() -> bytes:
    """An event file with a graph, and with what `tf.summary.trace_export` writes beside it."""
    after = b"".join(DENSE[:4])
    functions = message(4, message(2, WIDER_STEP) + message(3, after))
    return events(event(message(4, TRAIN_STEP)), summary("train_step", "graph_run_metadata", functions))


def profiled_run(functions: int) -> bytes:
    """An event file of the Keras callback with `profile_batch`: a step in three versions, and functions of one op."""
    alone = b"".join((node("resource", "_Arg"), node("VarIsInitializedOp", "VarIsInitializedOp", "resource")))
    body = [node(f"block_{number}/MatMul", "MatMul", "x", "x") for number in range(8)]
    step = function("__inference_train_step_844", ["x"], body, {"loss": "block_7/MatMul:0"})
    called = node("x", "_Arg") + node("call", "StatefulPartitionedCall", "x") + message(2, step)
    inlined = b"".join(node(f"block_{number}/MatMul", "MatMul", device=CPU) for number in range(30))
    versions = [(alone, alone, alone)] * functions + [(called, inlined, inlined)]
    metadata = b"".join(message(4, message(2, a) + message(3, b) + message(1, c)) for a, b, c in versions)
    return events(summary("batch_2", "graph_run_metadata", metadata))


def flat_nodes(count: int, scope: str = "flat") -> Iterator[bytes]:
    """Nodes of one scope, each of which reads the one before."""
    ops = ("MatMul", "BiasAdd", "Relu", "Mul")
    for number in range(count):
        inputs = (f"{scope}/node_{number - 1}",) if number else ()
        yield node(f"{scope}/node_{number}", ops[number % 4], *inputs, attributes=typed(FLOAT, shape(8, 8)))
