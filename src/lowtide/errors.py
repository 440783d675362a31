"""The errors lowtide raises on purpose: what went wrong, what was given, what to do."""


class LowtideError(Exception):
    """A problem the user can do something about, told in one line.

    The line is built from the parts, so that every error states all it knows in the same order:
    the problem, then `given` (what was received), then `cure` (what to do about it).
    """

    def __init__(self, problem: str, *, given: object = None, cure: str | None = None) -> None:
        self.problem = problem
        self.given = given
        self.cure = cure
        line = problem
        if given is not None:
            line += f" (given: {given})"
        if cure is not None:
            line += f"; {cure}"
        # Exceptions of other libraries end up in `problem`, and theirs may span many lines.
        super().__init__(" ".join(line.split()))


class MissingTensorFlowError(LowtideError, ImportError):
    """Something that needs TensorFlow was asked for where TensorFlow is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "this needs TensorFlow, which is not installed",
            cure='run: pip install "lowtide[cpu]" (or "lowtide[gpu]" for NVIDIA GPUs)',
        )
