"""What is run: four programs that train, and five that run out of memory."""

from __future__ import annotations

from dataclasses import dataclass

LIMIT_BYTES = 300 * 2**20


@dataclass(frozen=True)
class Training:
    """A program of which every step is compared, op by op or compiled."""

    program: str
    xla: bool

    @property
    def name(self) -> str:
        return f"{self.program}-xla" if self.xla else self.program

    @property
    def arguments(self) -> list[str]:
        return ["--xla"] if self.xla else []


@dataclass(frozen=True)
class Exhaustion:
    """A program that runs out of memory on purpose, and why it does."""

    way: str
    program: str
    cause: str
    """What an explanation has to say: the name of one of lowtide's causes."""
    onednn: bool
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"out-{self.way}-onednn-{'on' if self.onednn else 'off'}"


TRAININGS = tuple(
    Training(program, xla) for program in ("resnet", "transformer", "rnn", "custom") for xla in (False, True)
)

_WAYS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("batch", "out_batch", "batch", ()),
    ("fragmentation", "out_fragmentation", "fragmentation", ()),
    ("leak", "out_leak", "leak", ()),
    # A constant that is there and leaves no room for the step, and one that is larger than all there is.
    ("constant", "out_constant", "constant", ("200",)),
    ("constant-over", "out_constant", "constant", ("360",)),
)

EXHAUSTIONS = tuple(
    Exhaustion(way, program, cause, onednn, arguments)
    for way, program, cause, arguments in _WAYS
    for onednn in (True, False)
)


def matches(name: str, parts: list[str]) -> bool:
    """Whether a case was asked for: everything is, where nothing was named."""
    return not parts or any(part.lower() in name for part in parts)
