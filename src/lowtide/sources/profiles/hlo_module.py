"""The instructions of an HLO module with their types and the TensorFlow nodes they came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from lowtide.sources.protobuf.wire import read_fields, read_varint, signed

# xla.PrimitiveType by number, with TensorFlow's names.
_ELEMENT_TYPES = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    13: "tuple",
    14: "opaque",
    15: "complex64",
    16: "bfloat16",
    17: "token",
    18: "complex128",
    19: "float8_e5m2",
    20: "float8_e4m3fn",
    21: "int4",
    22: "uint4",
    23: "float8_e4m3b11fnuz",
    24: "float8_e5m2fnuz",
    25: "float8_e4m3fnuz",
    26: "int2",
    27: "uint2",
    28: "float8_e4m3",
    29: "float8_e3m4",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of one HLO value; `parts` are the elements of a tuple."""

    dtype: str
    dimensions: tuple[int, ...]
    parts: tuple[Shape, ...] = ()

    def part(self, index: tuple[int, ...]) -> Shape:
        """Return the shape at a shape index, or this shape if the index is outside of it."""
        shape = self
        for position in index:
            if position >= len(shape.parts):
                return self
            shape = shape.parts[position]
        return shape


@dataclass(frozen=True, slots=True)
class Instruction:
    """One HLO instruction: the fields that explain a buffer."""

    name: str
    opcode: str
    shape: Shape
    op_type: str | None  # the TensorFlow op it came from, "Conv2D"
    op_name: str | None  # the TensorFlow node, "resnet50_1/conv1_conv_1/convolution"
    parameter_number: int | None
    # For an instruction that XLA inserted (a copy, a fusion of transposes): where its data come from.
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The nearest TensorFlow node or parameter before an instruction that names none itself."""

    op_name: str | None
    parameter_number: int | None


def text(value: int | bytes) -> str:
    """Return the value of a string field."""
    return value.decode() if isinstance(value, bytes) else str(value)


def integers(value: int | bytes) -> list[int]:
    """Return the values of a repeated integer field, packed or not."""
    if isinstance(value, int):
        return [signed(value)]
    numbers = []
    position = 0
    while position < len(value):
        each, position = read_varint(value, position)
        numbers.append(signed(each))
    return numbers


def number(value: int | bytes) -> int:
    """Return the value of an integer field."""
    return signed(value) if isinstance(value, int) else integers(value)[0]


# The messages. Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto.


def _read_shape(data: bytes) -> Shape:
    element = 0
    dimensions: list[int] = []
    parts: list[Shape] = []
    for field, value in read_fields(data):
        if field == 2:
            element = number(value)
        elif field == 3:
            dimensions.extend(integers(value))
        elif field == 4 and isinstance(value, bytes):
            parts.append(_read_shape(value))
    return Shape(_ELEMENT_TYPES.get(element, "unknown"), tuple(dimensions), tuple(parts))


def _read_instruction(data: bytes) -> _InstructionNode:
    texts: dict[int, str] = {}
    shape = Shape("unknown", ())
    metadata: tuple[str | None, str | None] = (None, None)
    parameter_number = identity = 0  # proto3 leaves out a zero
    operands: list[int] = []
    called: list[int] = []
    for field, value in read_fields(data):
        if field in (1, 2):
            texts[field] = text(value)
        elif field == 3 and isinstance(value, bytes):
            shape = _read_shape(value)
        elif field == 7 and isinstance(value, bytes):
            metadata = _read_metadata(value)
        elif field == 9:
            parameter_number = number(value)
        elif field == 35:
            identity = number(value)
        elif field == 36:
            operands.extend(integers(value))
        elif field == 38:
            called.extend(integers(value))
    opcode = texts.get(2, "")
    number_if_parameter = parameter_number if opcode == "parameter" else None
    instruction = Instruction(texts.get(1, ""), opcode, shape, *metadata, number_if_parameter)
    return _InstructionNode(identity, instruction, tuple(operands), tuple(called))


def _read_metadata(data: bytes) -> tuple[str | None, str | None]:
    """Return the type and the name of the TensorFlow op that an instruction came from."""
    found = {field: text(value) for field, value in read_fields(data) if field in (1, 2)}
    return found.get(1), found.get(2)


@dataclass(frozen=True, slots=True)
class _InstructionNode:
    identity: int
    instruction: Instruction
    operands: tuple[int, ...]
    called: tuple[int, ...]

    @property
    def fused(self) -> tuple[int, ...]:
        """The computations of a fusion; those of a loop or a call have buffers of their own."""
        return self.called if self.instruction.opcode == "fusion" else ()


class HloModule:
    """A module whose instructions are decoded on demand."""

    def __init__(self, data: bytes) -> None:
        self.name = ""
        self.aliases: dict[tuple[int, ...], int] = {}
        self.parameters: tuple[Shape, ...] = ()
        self._raw: dict[int, bytes] = {}
        self._nodes: dict[int, _InstructionNode] = {}
        self._computations: dict[int, list[int]] = {}
        self._identities: dict[str, int] = {}
        for field, value in read_fields(data):
            if field == 1:
                self.name = text(value)
            elif not isinstance(value, bytes):
                continue
            elif field == 3:
                self._add_computation(value)
            elif field == 4:
                self.parameters = read_parameters(value)
            elif field == 8:
                self.aliases = dict(_read_aliases(value))

    def _add_computation(self, data: bytes) -> None:
        identities = []
        key = 0
        for field, value in read_fields(data):
            if field == 2 and isinstance(value, bytes):
                identity, name = _identify(value)
                self._raw[identity] = value
                self._identities[name] = identity
                identities.append(identity)
            elif field == 5:
                key = number(value)
        self._computations[key] = identities

    def identity(self, identity: int, name: str) -> int:
        """Return the id of an instruction that is given by id or, in older modules, by name."""
        return self._identities.get(name, identity) if name else identity

    def instruction(self, identity: int) -> Instruction | None:
        """Return the instruction with an id, with its origin if it names no TensorFlow node."""
        node = self._node(identity)
        if node is None:
            return None
        instruction = node.instruction
        if instruction.op_name is None:
            return replace(instruction, origin=self._origin(node) or self._purpose(node))
        return instruction

    def _node(self, identity: int) -> _InstructionNode | None:
        node = self._nodes.get(identity)
        if node is None and identity in self._raw:
            node = self._nodes[identity] = _read_instruction(self._raw[identity])
        return node

    def _purpose(self, node: _InstructionNode) -> Origin | None:
        """Return the origin of the first user, for an instruction without operands such as iota."""
        waiting = [node.identity]
        for identity in waiting:
            for user in self._users.get(identity, ()):
                found = self._node(user)
                origin = None if found is None else self._origin(found)
                if origin is not None and origin.op_name is not None:
                    return origin
                if user not in waiting and len(waiting) < _LONGEST_SEARCH:
                    waiting.append(user)
        return None

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        users: dict[int, list[int]] = {}
        for identity in self._raw:
            node = self._node(identity)
            for operand in () if node is None else node.operands:
                users.setdefault(operand, []).append(identity)
        return users

    @cached_property
    def _callers(self) -> dict[int, _InstructionNode]:
        """For each instruction in the computation of a loop or a function, the instruction that runs it."""
        found: dict[int, _InstructionNode] = {}
        for identity, data in self._raw.items():
            # Few instructions call a computation, and their opcode names it.
            if not any(word in data for word in _CALLING):
                continue
            node = self._node(identity)
            if node is not None and not node.fused:
                found |= {inner: node for key in node.called for inner in self._computations.get(key, ())}
        return found

    def _origin(self, node: _InstructionNode) -> Origin | None:
        for _ in range(_LONGEST_SEARCH):
            # The root of a fused computation is its last instruction, and describes the fusion best.
            fused = [inner for key in node.fused for inner in reversed(self._computations.get(key, []))]
            for identity in (node.identity, *fused):
                found = self._node(identity)
                if found is not None and found.instruction.op_name not in (None, _PARAMETERS_NAME):
                    return Origin(found.instruction.op_name, None)
            if node.instruction.parameter_number is not None:
                # A parameter of a loop's body or a function gets the origin of the loop or the call.
                caller = self._callers.get(node.identity)
                if caller is None:
                    return Origin(None, node.instruction.parameter_number)
                node = caller
                continue
            before = self._node(node.operands[0]) if node.operands else None
            if before is None:
                return None
            node = before
        return None


# TensorFlow gives all parameters of a module this op name.
_PARAMETERS_NAME = "XLA_Args"
# The number of steps to search for a TensorFlow node; a farther one explains nothing.
_LONGEST_SEARCH = 8
_CALLING = (b"while", b"call", b"conditional")


def _identify(data: bytes) -> tuple[int, str]:
    name = ""
    for field, value in read_fields(data):
        if field == 1:
            name = text(value)
        elif field == 35:
            return number(value), name
    return 0, name


def read_parameters(data: bytes) -> tuple[Shape, ...]:
    """Return the parameters in the ProgramShapeProto of a module."""
    return tuple(_read_shape(value) for field, value in read_fields(data) if field == 1 and isinstance(value, bytes))


def _read_aliases(data: bytes) -> Iterator[tuple[tuple[int, ...], int]]:
    for outer, entry in read_fields(data):
        if outer != 1 or not isinstance(entry, bytes):
            continue
        output: list[int] = []
        parameter = 0
        for field, value in read_fields(entry):
            if field == 1:
                output.extend(integers(value))
            elif field == 2:
                parameter = number(value)
        yield tuple(output), parameter
