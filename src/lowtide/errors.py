"""The errors lowtide raises on purpose: what went wrong, what was given, what to do."""


class LowtideError(Exception):
    """A problem that the user can solve, described in one line.

    The line has the same parts in the same order for every error: the problem, then `given` (the value received), then
    `cure` (what to do). `command_line_cure` replaces the cure on the command line, where it differs from Python.
    """

    def __init__(
        self, problem: str, *, given: object = None, cure: str | None = None, command_line_cure: str | None = None
    ) -> None:
        self.problem = problem
        self.given = given
        self.cure = cure
        self.command_line_cure = command_line_cure or cure
        super().__init__(self._line(cure))

    def command_line(self) -> str:
        """Return the line for a user of the command line."""
        return self._line(self.command_line_cure)

    def _line(self, cure: str | None) -> str:
        # Messages of other libraries may end with a full stop.
        line = self.problem.rstrip().removesuffix(".") if cure is not None or self.given is not None else self.problem
        if self.given is not None:
            line += f" (given: {self.given})"
        if cure is not None:
            line += f"; {cure}"
        # `problem` may contain the message of another library's exception, which may span several lines.
        return " ".join(line.split())


class MissingTensorFlowError(LowtideError, ImportError):
    """A function that needs TensorFlow was called, and TensorFlow is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "this needs TensorFlow, which is not installed",
            cure='run: pip install "lowtide[cpu]" (or "lowtide[gpu]" for NVIDIA GPUs)',
        )
