"""Reads the messages of one process: of TensorFlow's allocators, kernels and compilers, and of Python."""

from __future__ import annotations

import re
from dataclasses import replace

from lowtide.oom import log_patterns as patterns
from lowtide.oom.evidence_builder import EvidenceBuilder
from lowtide.oom.log_patterns import read_amount, read_dtype, read_shape, read_xla_dtype, tensor_bytes
from lowtide.oom.outside_reader import OutsideReader
from lowtide.oom.process_log import NAME_LINES, ProcessLog
from lowtide.tide.owner import Owner


class ProcessReader:
    """The state between two messages of one process."""

    def __init__(self, log: ProcessLog) -> None:
        self.log = log
        self.outside = OutsideReader(log)
        self.dumping: EvidenceBuilder | None = None
        """The failure whose blocks and statistics are being read."""
        self.detected: tuple[int, str] | None = None
        """The line that named a node whose error follows, and the node."""
        self.source: str | None = None

    def read(self, line: bytes, has_word: bool) -> None:
        """Read one message; without one of `WORDS` (`has_word`) it can only be a name or a statistic."""
        if self.outside.read_pod(line):
            return
        if has_word:
            if b" of size " in line and self._read_block(line):
                return
            if self._read_failure(line) or self._read_dump(line) or self._read_error(line):
                return
            if self.log.devices.read(line):
                return
            if (match := patterns.FRAME.search(line)) and patterns.is_own_source(match[1]):
                self.log.frame = self.log.number, _source_line(match[1], match[2])
        elif (b"InUse: " in line or b"Limit: " in line) and self._read_dump(line):
            return
        elif self.log.refusal is not None and b"loss: " in line:
            self.log.refusal.is_survived = True
        self._read_names(line)
        if self.log.listing is not None:
            self._read_listing(line)

    # Messages of the allocator.

    def _dump_failure(self) -> EvidenceBuilder:
        failure = self.dumping
        if failure is None or failure.has_summary or self.log.number - failure.last_line > NAME_LINES:
            failure = self.dumping = self.log.open()
        failure.last_line = self.log.number
        self.log.attend()
        return failure

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
            same = (
                failure for failure in self.log.recent() if failure.has_dump and failure.matches(amount, exact=False)
            )
            failure = next(same, None)
        requester = None if match["op"] is None else _text(patterns.CALLS.sub(b"", match["op"]))
        if failure is None:
            failure = self.dumping = self._find_error(amount, allocator, requester) or self.log.open()
        self.log.touch(failure)
        failure.allocator = failure.allocator or allocator
        failure.add_to_request(allocator=allocator)
        if match["rounded"] is not None:
            failure.set_bytes(int(match["rounded"]), exact=True)
        failure.set_bytes(amount, exact=False)
        failure.requester = requester if requester is not None else failure.requester
        return True

    def _find_error(self, amount: int, allocator: str | None, requester: str | None) -> EvidenceBuilder | None:
        """Return the failure whose error precedes the allocator's message: a notebook shows it apart from the log."""
        if allocator is None:
            return None
        for failure in self.log.recent():
            known = failure.request
            if failure.allocator or failure.exhausted or known.allocator not in (None, allocator):
                continue
            # An error that does not state the amount names the op.
            is_same_op = bool(requester) and requester in (known.op, known.node)
            if is_same_op if known.bytes is None else failure.matches(amount, exact=False):
                self.log.note_refusal(failure)
                return failure
        return None

    def _read_dump(self, line: bytes) -> bool:
        if b"Bin (" in line and (match := patterns.BIN.search(line)):
            failure = self.dumping
            if failure is None or failure.blocks or failure.has_summary or (match[1] == b"256" and failure.has_start):
                failure = self.dumping = self.log.open()
            failure.has_start, failure.last_line = True, self.log.number
            return True
        if self.dumping is None:
            return False
        failure = self.dumping
        if match := patterns.DUMP_OF.search(line):
            if failure.has_dump:
                failure = self.dumping = self.log.open()
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
        failure.last_line = self.log.number
        self.log.attend()
        return True

    def _read_block(self, line: bytes) -> bool:
        if match := patterns.BLOCK.search(line):
            self._dump_failure().add_block(int(match[2], 16), int(match[3]), match[1] != b"Free")
        elif match := patterns.SUMMARY.search(line):
            failure = self.dumping or self._dump_failure()
            failure.has_summary, failure.last_line = True, self.log.number
            self.log.attend()
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
        elif patterns.PROFILED in line and (match := patterns.COMPILED.search(line)):
            self._add_profiled(read_amount(match["bytes"] or match["amount"] or match["exact"]))
        elif match := patterns.COMPILED.search(line):
            exact = match["exact"] or match["bytes"]
            self._add_amount(read_amount(exact or match["amount"]), exact=exact is not None).compiled = True
        elif b"cuMemAlloc" in line and (match := patterns.CUDA.search(line)):
            failure = self.dumping = self.log.open()
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
        elif match := patterns.RESERVE.search(line):
            failure = self._add_amount(read_amount(match[1]), exact=False)
            failure.compiled = True
            if match[2] is not None:
                failure.free_bytes = read_amount(match[2])
                failure.largest_free_bytes = None if match[4] is None else read_amount(match[4])
        elif match := patterns.TORCH.search(line):
            self._add_amount(read_amount(match["amount"]), exact=False)
        elif match := patterns.NUMPY.search(line):
            amount = None if match["amount"] is None else read_amount(match["amount"].replace(b"bytes", b"B"))
            failure = self._add_amount(amount, exact=False)
            shape, dtype = read_shape(match["shape"]), read_dtype(match["dtype"])
            failure.set_bytes(tensor_bytes(shape, dtype), exact=True)
            failure.add_to_request(shape=shape, dtype=dtype, allocator="numpy", source=self.log.traceback_line())
        elif not self.outside.read(line):
            return False
        self._read_names(line)
        return True

    def _add_profiled(self, amount: int) -> None:
        """Add the workspace of an algorithm that was tried; the smallest would have been enough."""
        known = next((failure for failure in self.log.recent() if failure.profiled), None) or self.log.open()
        known.profiled = known.compiled = True
        known.add_note("none of cuDNN's algorithms found room for its workspace; the smallest of these is shown")
        known.request = replace(known.request, bytes=min(amount, known.request.bytes or amount))
        self.log.touch(known)

    def _add_tensor(self, match: re.Match[bytes], line: bytes) -> None:
        shape, dtype, device = read_shape(match["shape"]), read_dtype(match["dtype"]), _text(match["device"])
        amount, allocator = tensor_bytes(shape, dtype), _text(match["allocator"])
        failure = self._find_tensor(shape, amount, allocator) or self.log.open()
        self.log.touch(failure)
        failure.set_bytes(amount, exact=True)
        failure.add_to_request(shape=shape, dtype=dtype, device=device, allocator=allocator)
        if self.detected is not None:
            failure.add_to_request(node=self.detected[1], source=self.source)
            self.detected = None
        if eager := patterns.EAGER_OP.search(line):
            # The op of the program; the allocator names the kernel, which may be oneDNN's.
            failure.request = replace(failure.request, op=_text(eager[1]))
            failure.add_to_request(source=self.log.traceback_line())

    def _find_tensor(self, shape: tuple[int, ...], amount: int | None, allocator: str | None) -> EvidenceBuilder | None:
        for failure in self.log.recent():
            known = failure.request
            if allocator is not None and known.allocator not in (None, allocator):
                continue
            if known.shape is None and failure.matches(amount, exact=True):
                return failure
            if known.shape == shape:
                return failure
        return None

    def _add_amount(self, amount: int | None, *, exact: bool) -> EvidenceBuilder:
        same = (failure for failure in self.log.recent() if failure.matches(amount, exact=exact))
        failure = next(same, None) or self.log.open()
        self.log.touch(failure)
        failure.set_bytes(amount, exact=exact)
        if self.detected is not None:
            self._add_to_request(node=self.detected[1], source=self.source)
            self.detected = None
        return failure

    def _add_to_request(self, **facts: object) -> None:
        if self.log.latest is not None:
            self.log.latest.add_to_request(**facts)

    # Names, which precede or follow an error.

    def _read_names(self, line: bytes) -> None:
        if match := patterns.DETECTED.search(line):
            self.detected, self.source = (self.log.number, match[1].decode("utf-8", "replace")), None
            self.log.attend()
        elif self.detected is not None and (match := patterns.FRAME.search(line)):
            if self.log.number - self.detected[0] > NAME_LINES:
                self.detected = None
            elif patterns.is_own_source(match[1]):
                # The innermost frame comes last, so the user's last frame is the line that created the op.
                self.source = _source_line(match[1], match[2])
        if self.log.latest is None:
            return
        if match := patterns.NODE.search(line):
            self._add_node(_text(match["braced"] or match["plain"]), line)
            if match["file"] is not None:
                self._add_to_request(source=_source_line(match["file"], match["line"]))
            if match := patterns.DEVICE.search(line):
                self._add_to_request(device=_text(match[1]))
        elif patterns.USAGE_BEGINS.search(line):
            self.log.listing = "usage"
        elif patterns.HISTOGRAM_BEGINS in line:
            self.log.listing = "histogram"
        elif patterns.PEAK_BUFFERS_BEGIN in line:
            self.log.listing = "buffers"
        elif match := patterns.CUDA_FREE.search(line):
            free, total = int(match[1]), int(match[2])
            self.log.latest.add_note(f"the driver reported {free:,} of {total:,} bytes free on the device")
        elif patterns.USELESS_HINT.search(line):
            self.log.latest.add_note(
                "report_tensor_allocations_upon_oom, of TensorFlow's hint, is for sessions of version 1 only"
            )

    def _add_node(self, node: str | None, line: bytes) -> None:
        """Add the node that a line names to the request, and what the line says of it."""
        self._add_to_request(node=node)
        failure, match = self.log.latest, patterns.CONSTANT.search(line)
        if failure is not None and failure.request.node == node and match is not None:
            shape, dtype = read_shape(match["shape"]), read_dtype(match["dtype"])
            failure.set_bytes(tensor_bytes(shape, dtype), exact=True)
            failure.add_to_request(op="Const", shape=shape, dtype=dtype)

    def _read_listing(self, line: bytes) -> None:
        failure = self.log.latest
        if failure is None:
            return
        if self.log.listing == "histogram" and (match := patterns.HISTOGRAM.search(line.rstrip())):
            failure.add_holder(Owner(bytes=int(match[1]) * int(match[2]), count=max(1, int(match[2]))))
        elif self.log.listing == "usage" and (match := patterns.USAGE.search(line)):
            failure.add_holder(Owner(bytes=read_amount(match[1]), name=_text(match[2])))
        elif self.log.listing == "usage" and (match := patterns.USAGE_REST.search(line)):
            failure.add_holder(Owner(bytes=read_amount(match[2]), count=max(1, int(match[1]))))
            self.log.listing = None
        elif self.log.listing == "buffers":
            _read_peak_buffer(failure, line)
        else:
            return
        failure.last_line = self.log.number
        self.log.attend()


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
