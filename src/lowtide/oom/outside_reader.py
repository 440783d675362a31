"""Reads messages about memory that ran out outside of TensorFlow: of drivers, the system and schedulers."""

from __future__ import annotations

from lowtide.oom import log_patterns as patterns
from lowtide.oom.evidence import Evidence, Exhausted
from lowtide.oom.evidence_builder import EvidenceBuilder
from lowtide.oom.log_patterns import read_amount
from lowtide.oom.process_log import ProcessLog
from lowtide.oom.refused_requests import RefusedRequests
from lowtide.units import format_bytes

# The largest distance in lines between a failure and what the shell says of the end of its process.
_SHELL_LINES = 20
# What ran out, the most specific message first.
_EXPLAINS: tuple[Exhausted, ...] = ("container", "machine", "device", "process", "killed")


class OutsideReader:
    """Finds out which memory ran out for one process."""

    def __init__(self, log: ProcessLog) -> None:
        self.log = log
        self.filling: tuple[int, int] | None = None
        """How many elements the shuffle buffer has that is being filled, and of how many."""
        self.spared_line: int | None = None
        """The line that named another reason for a SIGKILL than memory."""
        self.pod: EvidenceBuilder | None = None
        """The failure of a container in Kubernetes whose limits may follow."""
        self.in_limits = False

    def read(self, line: bytes) -> bool:
        """Read one message, and return whether it is about such memory."""
        if match := patterns.PINNED_REFUSED.search(line):
            failure = self._add("process")
            failure.set_bytes(int(match["bytes"]), exact=True)
            failure.add_note("the driver refused pinned memory of the host, through which data is copied to the device")
        elif match := patterns.REFUSED.search(line):
            self._refuse(int(match[1]))
        elif patterns.NOT_INITIALIZED.search(line):
            if self.log.refusal is None and not self.log.devices.is_full():
                return False
            self._add("device")
        elif patterns.SPARED.search(line):
            self._spare()
        elif self._read_limit(line):
            pass
        elif (exhausted := _exhausted(line)) is not None and not self._is_spared(exhausted):
            failure = self._add(exhausted)
            self._read_bytes(failure, line)
            if b"OOMKilled" in line:
                self.pod, self.in_limits = failure, False
        else:
            return self._read_shuffle(line)
        return True

    def read_pod(self, line: bytes) -> bool:
        """Read the limit of a container in the output of `kubectl describe pod`."""
        if self.pod is None:
            return False
        if section := patterns.POD_SECTION.search(line):
            self.in_limits = section[1] is not None
            if section[2] is not None:
                # The limits that follow are those of another container.
                self.pod = None
        if self.pod is None or not self.in_limits or (match := patterns.POD_MEMORY.search(line)) is None:
            return False
        # In Kubernetes Gi is a binary unit and G a decimal one.
        unit = match[2] or b""
        self.pod.limit_bytes = read_amount(match[1] + unit + b"B" * bool(unit))
        self.pod = None
        return True

    def _read_shuffle(self, line: bytes) -> bool:
        """Read how far a shuffle buffer is filled."""
        if match := patterns.FILLING.search(line):
            self.filling = int(match[1]), int(match[2])
        elif patterns.FILLED in line:
            self.filling = None
        else:
            return False
        return True

    def _refuse(self, amount: int) -> None:
        if self.log.refusal is None:
            self.log.refusal = RefusedRequests(self.log.number, amount)
        else:
            self.log.refusal.add(amount)
        # What follows shows whether the program went on.
        self.log.attend()

    def _spare(self) -> None:
        """Read that a SIGKILL had another reason than memory."""
        self.spared_line = self.log.number
        known = next(self.log.recent(), None)
        if known is not None and known.exhausted == "killed" and self.log.number - known.last_line < _SHELL_LINES:
            self.log.shared.failures.remove(known)

    def _is_spared(self, exhausted: Exhausted) -> bool:
        spared = self.spared_line
        return exhausted == "killed" and spared is not None and self.log.number - spared < _SHELL_LINES

    def _read_limit(self, line: bytes) -> bool:
        """Read what was held and the limit that it reached, next to a message that says so."""
        match = patterns.HELD_OF_LIMIT.search(line)
        if match is None:
            return False
        held, limit = (
            next(text for name, text in match.groupdict().items() if text and name.startswith(which))
            for which in ("held", "limit")
        )
        exhausted = _exhausted(line)
        failure = self._add("container" if exhausted is None else exhausted)
        # These programs write kB for KiB.
        failure.bytes_in_use, failure.limit_bytes = read_amount(held.rstrip(b"bB")), read_amount(limit.rstrip(b"bB"))
        return True

    def _read_bytes(self, failure: EvidenceBuilder, line: bytes) -> None:
        if (match := patterns.KILLED_BYTES.search(line)) and failure.bytes_in_use is None:
            failure.bytes_in_use = int(match[1]) << 10
        if match := patterns.REFUSED_BYTES.search(line):
            failure.set_bytes(int(match[1]), exact=True)

    def _add(self, exhausted: Exhausted) -> EvidenceBuilder:
        """Return the failure that a message from outside of TensorFlow's allocators belongs to."""
        known = next(self.log.recent(of_any=exhausted == "killed"), None)
        if known is None or not self._is_one_end(known, exhausted):
            refusal = self.log.refusal if exhausted == "device" else None
            if refusal is not None:
                self.log.refusal = None
            known = self.log.open()
            known.exhausted = exhausted
            known.set_bytes(None if refusal is None else refusal.largest_bytes, exact=True)
            if self.filling is not None and exhausted != "device":
                known.filling = self.filling
            if exhausted == "process":
                known.add_to_request(source=self.log.traceback_line())
        elif known.exhausted is not None and _EXPLAINS.index(exhausted) < _EXPLAINS.index(known.exhausted):
            # The shell only says that a process was killed; the kernel and the scheduler say why.
            known.exhausted = exhausted
        return self.log.touch(known)

    def _is_one_end(self, known: EvidenceBuilder, exhausted: Exhausted) -> bool:
        """Whether a message from outside of TensorFlow's allocators belongs to a failure that is known."""
        if known.exhausted is not None:
            return (known.exhausted == "device") == (exhausted == "device")
        if exhausted == "process":
            return known.request.allocator == "numpy"
        return exhausted == "device" or (exhausted == "killed" and self.log.number - known.last_line < _SHELL_LINES)

    def build_refusal(self) -> Evidence | None:
        """Return the evidence of a refused request after which the process neither failed nor went on."""
        refusal = self.log.refusal
        if refusal is None or refusal.is_survived or self.log.has_failed:
            return None
        refused = EvidenceBuilder(refusal.line, refusal.line, exhausted="device")
        refused.set_bytes(refusal.largest_bytes, exact=True)
        if refusal.least_bytes < refusal.largest_bytes:
            refused.add_note(
                f"the driver refused {refusal.count:,} requests, the smallest of {format_bytes(refusal.least_bytes)}: "
                "TensorFlow asks for less each time, and goes on with what it gets"
            )
        return refused.build()


def _exhausted(line: bytes) -> Exhausted | None:
    """Return which memory a message from outside of TensorFlow's allocators says ran out."""
    if patterns.DEVICE_FULL.search(line):
        return "device"
    if patterns.CONTAINER_FULL.search(line):
        return "container"
    if patterns.MACHINE_FULL.search(line):
        return "machine"
    if patterns.PROCESS_FULL.search(line) or (b"MemoryError" in line and patterns.MEMORY_ERROR.search(line)):
        return "process"
    may_be_killed = any(word in line for word in patterns.KILLED_WORDS)
    return "killed" if may_be_killed and patterns.KILLED.search(line) else None
