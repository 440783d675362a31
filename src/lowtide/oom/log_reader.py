"""Reads a log of any length, line by line, and finds each allocation failure.

A log reports one failure several times: the allocator names the request and dumps its blocks, the kernel names the
tensor, and Python prints the exception twice. Old versions dump first and give the reason afterwards, and two threads
may fail together. So the last few failures stay open, and each line is added to the one that it matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lowtide.oom import log_patterns as patterns
from lowtide.oom.devices_at_start import DevicesAtStart
from lowtide.oom.evidence import Evidence, Exhausted
from lowtide.oom.evidence_builder import EvidenceBuilder
from lowtide.oom.log_patterns import read_amount, read_dtype, read_shape, read_xla_dtype, tensor_bytes
from lowtide.tide.owner import Owner

# How many failures stay open at once, and for how many lines. A traceback of TensorFlow 1 takes some hundred lines.
_OPEN_FAILURES = 8
_OPEN_LINES = 3000
# The largest distance in lines between an error and the name of its node.
_NAME_LINES = 400
# The largest distance in lines between a failure and what the shell says of the end of its process.
_SHELL_LINES = 20
# The largest distance in lines between the innermost frame of the program in a traceback and its last line.
_TRACEBACK_LINES = 100
# What ran out, the most specific message first.
_EXPLAINS: tuple[Exhausted, ...] = ("container", "machine", "device", "process", "killed")


def read_log_evidence(lines: Iterable[bytes]) -> Iterator[Evidence]:
    """Yield the evidence of each failure in the order of the log, in bounded memory."""
    reader = _LogReader()
    one, two, three, four, five, six, *others = patterns.WORDS
    seven, eight, nine, ten, eleven, twelve, *others = others
    thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen = others
    for number, line in enumerate(lines, start=1):
        # Written out for speed: for most lines of a long log this is the only test.
        has_word = one in line or two in line or three in line or four in line or five in line or six in line
        has_word = has_word or seven in line or eight in line or nine in line or ten in line or eleven in line
        has_word = has_word or twelve in line or thirteen in line or fourteen in line or fifteen in line
        has_word = has_word or sixteen in line or seventeen in line or eighteen in line or nineteen in line
        if has_word or number < reader.attentive_until:
            reader.number = number
            reader.read(line, has_word)
            while len(reader.failures) > _OPEN_FAILURES:
                yield reader.failures.pop(0).build()
    if reader.refused_bytes is not None and not reader.has_failed:
        yield reader.build_refusal()
    for failure in reader.failures:
        yield failure.build()


class _LogReader:
    """The state between two lines."""

    def __init__(self) -> None:
        self.number = 0
        self.attentive_until = 0
        """Up to this line, names that belong to an earlier message may follow."""
        self.failures: list[EvidenceBuilder] = []
        self.has_failed = False
        self.dumping: EvidenceBuilder | None = None
        """The failure whose blocks and statistics are being read."""
        self.latest: EvidenceBuilder | None = None
        """The failure that was mentioned last."""
        self.listing: str | None = None
        """Which list of holders is being read: "usage", "histogram" or "buffers"."""
        self.detected: tuple[int, str] | None = None
        """The line that named a node whose error follows, and the node."""
        self.source: str | None = None
        self.refused_bytes: int | None = None
        self.refused_line = 0
        self.frame: tuple[int, str] | None = None
        """The line of the log that named a line of the program last, and that line."""
        self.devices = DevicesAtStart()

    def read(self, line: bytes, has_word: bool) -> None:
        """Read one line; without one of `WORDS` (`has_word`) it can only be a name or a statistic."""
        if b"\x1b" in line:
            line = patterns.COLOURS.sub(b"", line)
        if has_word:
            if b" of size " in line and self._read_block(line):
                return
            if self._read_failure(line) or self._read_dump(line) or self._read_error(line):
                return
            if self.devices.read(line):
                return
            if (match := patterns.FRAME.search(line)) and patterns.is_own_source(match[1]):
                self.frame = self.number, _source_line(match[1], match[2])
        elif (b"InUse: " in line or b"Limit: " in line) and self._read_dump(line):
            return
        self._read_names(line)
        if self.listing is not None:
            self._read_listing(line)

    def _attend(self) -> None:
        self.attentive_until = self.number + _NAME_LINES

    def build_refusal(self) -> Evidence:
        """Return the evidence of a request that the driver refused, in a log that names no other failure."""
        refused = EvidenceBuilder(self.refused_line, self.refused_line, exhausted="device")
        refused.set_bytes(self.refused_bytes, exact=True)
        return refused.build()

    # The failure that a line belongs to.

    def _open(self) -> EvidenceBuilder:
        failure = EvidenceBuilder(self.number, self.number)
        if self.refused_bytes is not None:
            failure.add_note(
                f"the driver refused {self.refused_bytes:,} bytes before: another process may hold the device's memory"
            )
            self.refused_bytes = None
        failure.devices = self.devices
        self.has_failed = True
        self.failures.append(failure)
        return self._touch(failure)

    def _touch(self, failure: EvidenceBuilder) -> EvidenceBuilder:
        failure.last_line = self.number
        self.latest = failure
        self.listing = None
        self._attend()
        return failure

    def _recent(self) -> Iterator[EvidenceBuilder]:
        return (failure for failure in reversed(self.failures) if self.number - failure.last_line < _OPEN_LINES)

    def _dump_failure(self) -> EvidenceBuilder:
        failure = self.dumping
        if failure is None or failure.has_summary or self.number - failure.last_line > _NAME_LINES:
            failure = self.dumping = self._open()
        failure.last_line = self.number
        self._attend()
        return failure

    # Messages of the allocator.

    def _read_failure(self, line: bytes) -> bool:
        match = patterns.FAILED.search(line)
        if match is None:
            return False
        if patterns.NOT_A_FAILURE in line:
            return True
        allocator, amount = _text(match["allocator"]), read_amount(match["amount"])
        failure = None
        if allocator is None or b"freed_by_count" in line:
            # This message follows the dump instead of preceding it.
            same = (failure for failure in self._recent() if failure.has_dump and failure.matches(amount, exact=False))
            failure = next(same, None)
        if failure is None:
            failure = self.dumping = self._open()
        self._touch(failure)
        failure.allocator = failure.allocator or allocator
        failure.add_to_request(allocator=allocator)
        if match["rounded"] is not None:
            failure.set_bytes(int(match["rounded"]), exact=True)
        failure.set_bytes(amount, exact=False)
        if match["op"] is not None:
            failure.requester = _text(patterns.CALLS.sub(b"", match["op"]))
        return True

    def _read_dump(self, line: bytes) -> bool:
        if b"Bin (" in line and (match := patterns.BIN.search(line)):
            failure = self.dumping
            if failure is None or failure.blocks or failure.has_summary or (match[1] == b"256" and failure.has_start):
                failure = self.dumping = self._open()
            failure.has_start, failure.last_line = True, self.number
            return True
        if self.dumping is None:
            return False
        failure = self.dumping
        if match := patterns.DUMP_OF.search(line):
            if failure.has_dump:
                failure = self.dumping = self._open()
            failure.allocator = _text(match[1])
        elif match := patterns.SUM.search(line):
            failure.has_summary = True
            if failure.bytes_in_use is None:
                failure.bytes_in_use = read_amount(match[1])
        elif match := patterns.POOL.search(line):
            failure.limit_bytes, failure.available_bytes = read_amount(match[1]), read_amount(match[2])
        elif b"InUse: " in line or b"Limit: " in line:
            _read_statistics(failure, line)
        else:
            return False
        failure.last_line = self.number
        self._attend()
        return True

    def _read_block(self, line: bytes) -> bool:
        if match := patterns.BLOCK.search(line):
            self._dump_failure().add_block(int(match[2], 16), int(match[3]), match[1] != b"Free")
        elif match := patterns.SUMMARY.search(line):
            failure = self.dumping or self._dump_failure()
            failure.has_summary, failure.last_line = True, self.number
            self._attend()
            if len(failure.summary) < 100_000:
                failure.summary[int(match[2])] = int(match[1])
        elif match := patterns.REGION.search(line):
            self._dump_failure().region_bytes += int(match[1])
        else:
            return False
        return True

    # Messages of kernels, compilers and Python.

    def _read_error(self, line: bytes) -> bool:
        if match := patterns.TENSOR.search(line):
            self._add_tensor(match, line)
        elif match := patterns.COMPILED.search(line):
            exact = match["exact"] or match["bytes"]
            self._add_amount(read_amount(exact or match["amount"]), exact=exact is not None).compiled = True
        elif match := patterns.CUDA.search(line):
            failure = self.dumping = self._open()
            failure.set_bytes(int(match["amount"]), exact=True)
            failure.add_to_request(allocator=_text(match["allocator"]))
        elif patterns.UNNAMED.search(line):
            self._add_amount(None, exact=False)
        elif match := patterns.COPY.search(line):
            self._add_amount(None, exact=False)
            self._add_to_request(op=_text(match["op"]))
        elif match := patterns.TPU.search(line):
            failure = self._add_amount(read_amount(match[2]), exact=False)
            failure.limit_bytes, failure.compiled = read_amount(match[3]), True
            failure.add_to_request(device=f"TPU {_text(match[1])}")
        elif match := patterns.NUMPY.search(line):
            failure = self._add_amount(read_amount(match["amount"]), exact=False)
            shape, dtype = read_shape(match["shape"]), read_dtype(match["dtype"])
            failure.set_bytes(tensor_bytes(shape, dtype), exact=True)
            failure.add_to_request(shape=shape, dtype=dtype, allocator="numpy", source=self._traceback_line())
        elif match := patterns.PINNED_REFUSED.search(line):
            failure = self._add_exhausted("process")
            failure.set_bytes(int(match["bytes"]), exact=True)
            failure.add_note("the driver refused pinned memory of the host, through which data is copied to the device")
        elif match := patterns.REFUSED.search(line):
            self.refused_bytes = int(match[1])
            self.refused_line = self.number
        elif (exhausted := _exhausted(line)) is not None:
            failure = self._add_exhausted(exhausted)
            if match := patterns.KILLED_BYTES.search(line):
                failure.bytes_in_use = int(match[1]) << 10
        else:
            return False
        self._read_names(line)
        return True

    def _add_exhausted(self, exhausted: Exhausted) -> EvidenceBuilder:
        """Return the failure that a message from outside of TensorFlow's allocators belongs to."""
        known = next(self._recent(), None)
        if known is None or not self._is_one_end(known, exhausted):
            refused, self.refused_bytes = self.refused_bytes if exhausted == "device" else None, None
            known = self._open()
            known.exhausted = exhausted
            known.set_bytes(refused, exact=True)
            if exhausted == "process":
                known.add_to_request(source=self._traceback_line())
        elif known.exhausted is not None and _EXPLAINS.index(exhausted) < _EXPLAINS.index(known.exhausted):
            # The shell only says that a process was killed; the kernel and the scheduler say why.
            known.exhausted = exhausted
        return self._touch(known)

    def _is_one_end(self, known: EvidenceBuilder, exhausted: Exhausted) -> bool:
        """Whether a message from outside of TensorFlow's allocators belongs to a failure that is known."""
        if known.exhausted is not None:
            return (known.exhausted == "device") == (exhausted == "device")
        if exhausted == "process":
            return known.request.allocator == "numpy"
        return exhausted == "device" or (exhausted == "killed" and self.number - known.last_line < _SHELL_LINES)

    def _traceback_line(self) -> str | None:
        """Return the program's innermost line in the traceback that ends here."""
        if self.frame is None or self.number - self.frame[0] > _TRACEBACK_LINES:
            return None
        return self.frame[1]

    def _add_tensor(self, match: re.Match[bytes], line: bytes) -> None:
        shape, dtype, device = read_shape(match["shape"]), read_dtype(match["dtype"]), _text(match["device"])
        amount, allocator = tensor_bytes(shape, dtype), _text(match["allocator"])
        failure = self._find_tensor(shape, amount, allocator) or self._open()
        self._touch(failure)
        failure.set_bytes(amount, exact=True)
        failure.add_to_request(shape=shape, dtype=dtype, device=device, allocator=allocator)
        if self.detected is not None:
            failure.add_to_request(node=self.detected[1], source=self.source)
            self.detected = None
        if eager := patterns.EAGER_OP.search(line):
            # The op of the program; the allocator names the kernel, which may be oneDNN's.
            failure.request = replace(failure.request, op=_text(eager[1]))
            failure.add_to_request(source=self._traceback_line())

    def _find_tensor(self, shape: tuple[int, ...], amount: int | None, allocator: str | None) -> EvidenceBuilder | None:
        for failure in self._recent():
            known = failure.request
            if allocator is not None and known.allocator not in (None, allocator):
                continue
            if known.shape is None and failure.matches(amount, exact=True):
                return failure
            if known.shape == shape:
                return failure
        return None

    def _add_amount(self, amount: int | None, *, exact: bool) -> EvidenceBuilder:
        same = (failure for failure in self._recent() if failure.matches(amount, exact=exact))
        failure = next(same, None) or self._open()
        self._touch(failure)
        failure.set_bytes(amount, exact=exact)
        if self.detected is not None:
            self._add_to_request(node=self.detected[1], source=self.source)
            self.detected = None
        return failure

    def _add_to_request(self, **facts: object) -> None:
        if self.latest is not None:
            self.latest.add_to_request(**facts)

    # Names, which precede or follow an error.

    def _read_names(self, line: bytes) -> None:
        if match := patterns.DETECTED.search(line):
            self.detected, self.source = (self.number, match[1].decode("utf-8", "replace")), None
            self._attend()
        elif self.detected is not None and (match := patterns.FRAME.search(line)):
            if self.number - self.detected[0] > _NAME_LINES:
                self.detected = None
            elif patterns.is_own_source(match[1]):
                # The innermost frame comes last, so the user's last frame is the line that created the op.
                self.source = _source_line(match[1], match[2])
        if self.latest is None:
            return
        if match := patterns.NODE.search(line):
            self._add_to_request(node=_text(match["braced"] or match["plain"]))
            if match["file"] is not None:
                self._add_to_request(source=_source_line(match["file"], match["line"]))
            if match := patterns.DEVICE.search(line):
                self._add_to_request(device=_text(match[1]))
        elif patterns.USAGE_BEGINS.search(line):
            self.listing = "usage"
        elif patterns.HISTOGRAM_BEGINS in line:
            self.listing = "histogram"
        elif patterns.PEAK_BUFFERS_BEGIN in line:
            self.listing = "buffers"
        elif match := patterns.CUDA_FREE.search(line):
            free, total = int(match[1]), int(match[2])
            self.latest.add_note(f"the driver reported {free:,} of {total:,} bytes free on the device")
        elif patterns.USELESS_HINT.search(line):
            self.latest.add_note(
                "report_tensor_allocations_upon_oom, of TensorFlow's hint, is for sessions of version 1 only"
            )

    def _read_listing(self, line: bytes) -> None:
        failure = self.latest
        if failure is None:
            return
        if self.listing == "histogram" and (match := patterns.HISTOGRAM.search(line.rstrip())):
            failure.add_holder(Owner(bytes=int(match[1]) * int(match[2]), count=max(1, int(match[2]))))
        elif self.listing == "usage" and (match := patterns.USAGE.search(line)):
            failure.add_holder(Owner(bytes=read_amount(match[1]), name=_text(match[2])))
        elif self.listing == "usage" and (match := patterns.USAGE_REST.search(line)):
            failure.add_holder(Owner(bytes=read_amount(match[2]), count=max(1, int(match[1]))))
            self.listing = None
        elif self.listing == "buffers":
            _read_peak_buffer(failure, line)
        else:
            return
        failure.last_line = self.number
        self._attend()


def _exhausted(line: bytes) -> Exhausted | None:
    """Return which memory a message from outside of TensorFlow's allocators says ran out."""
    if patterns.DEVICE_FULL.search(line):
        return "device"
    if patterns.CONTAINER_FULL.search(line):
        return "container"
    if patterns.MACHINE_FULL.search(line):
        return "machine"
    if patterns.PROCESS_FULL.search(line):
        return "process"
    return "killed" if patterns.KILLED.search(line) else None


def _read_statistics(failure: EvidenceBuilder, line: bytes) -> None:
    # A log collector may have joined them into one line.
    for match in patterns.STATISTIC.finditer(line):
        amount = read_amount(match[2])
        if match[1] == b"Limit" and amount and failure.limit_bytes is None:
            failure.limit_bytes = amount
        elif match[1] == b"InUse":
            failure.bytes_in_use = amount
        elif match[1] == b"MaxInUse":
            failure.peak_bytes = amount


def _read_peak_buffer(failure: EvidenceBuilder, line: bytes) -> None:
    if match := patterns.PEAK_BUFFER.search(line):
        failure.add_holder(Owner(bytes=read_amount(match[1])))
    elif failure.holders:
        last = failure.holders[-1]
        if match := patterns.PEAK_BUFFER_NAME.search(line):
            source = None if match[2] is None else _source_line(match[2], match[3])
            failure.holders[-1] = replace(last, name=_text(match[1]), source=source)
        elif match := patterns.PEAK_BUFFER_LABEL.search(line):
            failure.holders[-1] = replace(last, op=_text(match[1]))
        elif match := patterns.PEAK_BUFFER_SHAPE.search(line):
            failure.holders[-1] = replace(last, dtype=read_xla_dtype(match[1]), shape=read_shape(match[2]))


def _source_line(file: bytes, line: bytes) -> str:
    """Return "train.py:66" for a path and a line."""
    name = re.split(rb"[/\\]", file)[-1]
    return f"{name.decode('utf-8', 'replace')}:{int(line)}"


def _text(found: bytes | None) -> str | None:
    return None if found is None else found.decode("utf-8", "replace")
