"""The errors lowtide raises on purpose: what went wrong, what was given, what to do."""


class LowtideError(Exception):
    """A problem that the user can solve, described in one line.

    The line has the same parts in the same order for every error: the problem, then `given` (the value received), then
    `cure` (what to do).
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
        # `problem` may contain the message of another library's exception, which may span several lines.
        super().__init__(" ".join(line.split()))


class MissingTensorFlowError(LowtideError, ImportError):
    """A function that needs TensorFlow was called, and TensorFlow is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "this needs TensorFlow, which is not installed",
            cure='run: pip install "lowtide[cpu]" (or "lowtide[gpu]" for NVIDIA GPUs)',
        )
