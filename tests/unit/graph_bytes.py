"""GraphDefs written byte by byte: attributes, shapes, functions, and a small training step."""

from tests.unit.protos import message, node, number, varint

FLOAT, INT32, BOOL, RESOURCE = 1, 3, 10, 20


def attribute(name: str, value: bytes) -> bytes:
    return message(5, message(1, name), message(2, value))


def shape(*sizes: int) -> bytes:
    return b"".join(message(2, number(1, size)) for size in sizes)


def typed(dtype: int, *shapes: bytes, key: str = "T") -> bytes:
    listed = b"".join(message(7, each) for each in shapes)
    return attribute(key, number(6, dtype)) + attribute("_output_shapes", message(1, listed))


def function(name: str, arguments: list[str], nodes: list[bytes], returned: dict[str, str]) -> bytes:
    signature = message(1, name) + b"".join(message(2, message(1, each), number(3, FLOAT)) for each in arguments)
    # A node of a function is field 3 where that of a graph is field 1.
    body = b"".join(message(3, each[len(varint(10)) + len(varint(len(each) - 2)) :]) for each in nodes)
    results = b"".join(message(4, message(1, key), message(2, value)) for key, value in returned.items())
    return message(1, message(1, signature), body, results)


TRAINING = (
    node("x", "Placeholder", attributes=typed(FLOAT, shape(4, 3), key="dtype")),
    node("dense/kernel", "VarHandleOp", attributes=typed(RESOURCE, shape(), key="dtype")),
    node("dense/kernel/Read", "ReadVariableOp", "dense/kernel", attributes=typed(FLOAT, shape(3, 2), key="dtype")),
    node("dense/MatMul", "MatMul", "x", "dense/kernel/Read", attributes=typed(FLOAT, shape(4, 2)), device="/CPU:0"),
    node("dense/Less", "Less", "dense/MatMul", "x:1", attributes=typed(FLOAT, shape(4, 2))),
    node("gradient_tape/MatMul", "MatMul", "x", "dense/MatMul:0", attributes=typed(FLOAT, shape(3, 2))),
    node("lr", "Const", attributes=typed(FLOAT, shape(), key="dtype")),
    node("adam/apply", "ResourceApplyAdam", "dense/kernel", "gradient_tape/MatMul", "lr", "^dense/Less"),
)
