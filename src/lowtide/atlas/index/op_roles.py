"""Roles of ops that decide the phase of a node, such as writing a variable or needing only the shape of an input."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

(
    GRADIENT, SUM, LIST, WRITE, CALL, READ, VARIABLE, ARGUMENT, CONSTANT, SHAPE, FILL, CAST, GROUP, SAVE, COPY, INTEGER,
    SWITCH,
) = (1 << bit for bit in range(17))  # fmt: skip

_OPS = {
    # Gradients of one op. Conv2DBackpropInput is missing because Conv2DTranspose runs it in the forward pass.
    GRADIENT: r"\w+Grad(Grad)?(V\d)?|\w+GradWithBounds|\w+BackpropFilter(V\d)?|SymbolicGradient",
    # The sum of the gradients of a tensor that is read several times.
    SUM: r"AddN",
    # Empty lists in which a loop of the forward pass collects values for its gradient.
    LIST: r"EmptyTensorList|TensorListReserve|Stack(V2)?",
    # Ops that change the variable that is their first input.
    WRITE: r"Assign(Add|Sub)?(VariableOp)?|(Resource)?(Sparse)?Apply[A-Z]\w*|Resource(Scatter|Strided)\w+"
    r"|Scatter(Update|Add|Sub|Mul|Div|Min|Max|NdUpdate|NdAdd|NdSub)",
    # Calls that may change variables.
    CALL: r"StatefulPartitionedCall|If|While|Case|RemoteCall",
    READ: r"ReadVariableOp|VarIsInitializedOp|IsVariableInitialized",
    VARIABLE: r"VarHandleOp|Variable(V2)?|TemporaryVariable",
    ARGUMENT: r"Placeholder|_Arg|_DeviceArg",
    CONSTANT: r"Const|HostConst|ImmutableConst",
    # Ops that need the shape of their input and not its values.
    SHAPE: r"Shape(N)?|Rank|Size|OnesLike|ZerosLike",
    FILL: r"Fill",
    CAST: r"Cast",
    GROUP: r"NoOp",
    # Ops that pass on their first input, to one of two branches; the other input only decides which.
    SWITCH: r"(Ref)?Switch",
    # Ops of initialization and checkpoints, for which no phase computes anything.
    SAVE: r"SaveV2|SaveSlices|Save|VarIsInitializedOp|IsVariableInitialized",
    # Copies, and results of functions.
    COPY: r"Identity|_Retval|_DeviceRetval",
}
_PATTERNS = [(role, re.compile(pattern)) for role, pattern in _OPS.items()]


def find_op_roles(ops: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Return the roles of each op as a sum of flags."""
    return np.array([sum(role for role, pattern in _PATTERNS if pattern.fullmatch(op)) for op in ops], np.uint32)
