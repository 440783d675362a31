"""Reads a log of any length, line by line, and finds each time that memory ran out.

One shortfall is told several times: the allocator says what it could not give and dumps its blocks, the kernel says for
which tensor, Python raises, and shows it twice. Old versions dump first and say why afterwards; two threads may fail
together. So the latest few drafts are kept open, and each line goes to the one that it fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lowtide.oom import log_patterns as lines_of
from lowtide.oom.evidence import Draft
from lowtide.oom.log_patterns import read_amount, read_dtype, read_shape, read_xla_dtype, tensor_bytes
from lowtide.oom.log_report import Shortfall
from lowtide.oom.shortage import Holder

# How many are open at once, and for how many lines one is. A traceback of TensorFlow 1 takes some hundred lines.
_OPEN_DRAFTS = 8
_OPEN_LINES = 3000
# How far the name of a node may be from the error that it belongs to.
_NAME_LINES = 400


def read_shortfalls(lines: Iterable[bytes]) -> Iterator[Shortfall]:
    """Yield each time that memory ran out, in the order of the log; takes bounded memory, however long the log is."""
    reader = _Reader()
    one, two, three, four, five, six = lines_of.WORDS
    for number, line in enumerate(lines, start=1):
        # Written out, because this is all that most lines of a long log meet.
        told = one in line or two in line or three in line or four in line or five in line or six in line
        if told or number < reader.attentive_until:
            reader.number = number
            reader.read(line, told)
            while len(reader.drafts) > _OPEN_DRAFTS:
                yield reader.drafts.pop(0).finish()
    for draft in reader.drafts:
        yield draft.finish()


class _Reader:
    """The state between two lines."""

    def __init__(self) -> None:
        self.number = 0
        self.attentive_until = 0
        """Up to which line names may follow that belong to what was said before."""
        self.drafts: list[Draft] = []
        self.dumping: Draft | None = None
        """Whose blocks and statistics are being read."""
        self.latest: Draft | None = None
        """The one that was last spoken of."""
        self.listing: str | None = None
        """Which list of holders is being read: "usage", "histogram" or "buffers"."""
        self.detected: tuple[int, str] | None = None
        """The node that an error is about to be told of, and the line that named it."""
        self.source: str | None = None
        self.refused_bytes: int | None = None

    def read(self, line: bytes, told: bool) -> None:
        """Take from one line what it says; it was `told` that it may be more than a name or a statistic."""
        if b"\x1b" in line:
            line = lines_of.COLOURS.sub(b"", line)
        if told:
            if b" of size " in line and self._read_block(line):
                return
            if self._read_failure(line) or self._read_dump(line) or self._read_error(line):
                return
        elif (b"InUse: " in line or b"Limit: " in line) and self._read_dump(line):
            return
        self._read_names(line)
        if self.listing is not None:
            self._read_listing(line)

    def _attend(self) -> None:
        self.attentive_until = self.number + _NAME_LINES

    # Which draft a line belongs to.

    def _open(self) -> Draft:
        draft = Draft(self.number, self.number)
        if self.refused_bytes is not None:
            draft.note(
                f"the driver refused {self.refused_bytes:,} bytes before: another process may hold the device's memory"
            )
            self.refused_bytes = None
        self.drafts.append(draft)
        return self._touch(draft)

    def _touch(self, draft: Draft) -> Draft:
        draft.last_line = self.number
        self.latest = draft
        self.listing = None
        self._attend()
        return draft

    def _recent(self) -> Iterator[Draft]:
        return (draft for draft in reversed(self.drafts) if self.number - draft.last_line < _OPEN_LINES)

    def _draft_of_dump(self) -> Draft:
        draft = self.dumping
        if draft is None or draft.summarised or self.number - draft.last_line > _NAME_LINES:
            draft = self.dumping = self._open()
        draft.last_line = self.number
        self._attend()
        return draft

    # What the allocator says.

    def _read_failure(self, line: bytes) -> bool:
        match = lines_of.FAILED.search(line)
        if match is None:
            return False
        if lines_of.NOT_A_FAILURE in line:
            return True
        allocator, amount = _text(match["allocator"]), read_amount(match["amount"])
        draft = None
        if allocator is None or b"freed_by_count" in line:
            # Said after the dump, not before it.
            same = (draft for draft in self._recent() if draft.has_dump and draft.agrees(amount, exact=False))
            draft = next(same, None)
        if draft is None:
            draft = self.dumping = self._open()
        self._touch(draft)
        draft.allocator = draft.allocator or allocator
        draft.learn(allocator=allocator)
        if match["rounded"] is not None:
            draft.set_bytes(int(match["rounded"]), exact=True)
        draft.set_bytes(amount, exact=False)
        if match["op"] is not None:
            draft.asked_by = _text(lines_of.CALLS.sub(b"", match["op"]))
        return True

    def _read_dump(self, line: bytes) -> bool:
        if b"Bin (" in line and (match := lines_of.BIN.search(line)):
            draft = self.dumping
            if draft is None or draft.blocks or draft.summarised or (match[1] == b"256" and draft.begins_whole):
                draft = self.dumping = self._open()
            draft.begins_whole, draft.last_line = True, self.number
            return True
        if self.dumping is None:
            return False
        draft = self.dumping
        if match := lines_of.DUMP_OF.search(line):
            if draft.has_dump:
                draft = self.dumping = self._open()
            draft.allocator = _text(match[1])
        elif match := lines_of.SUM.search(line):
            draft.summarised = True
            if draft.bytes_in_use is None:
                draft.bytes_in_use = read_amount(match[1])
        elif match := lines_of.POOL.search(line):
            draft.limit_bytes, draft.available_bytes = read_amount(match[1]), read_amount(match[2])
        elif b"InUse: " in line or b"Limit: " in line:
            _read_statistics(draft, line)
        else:
            return False
        draft.last_line = self.number
        self._attend()
        return True

    def _read_block(self, line: bytes) -> bool:
        if match := lines_of.BLOCK.search(line):
            self._draft_of_dump().add_block(int(match[2], 16), int(match[3]), match[1] != b"Free")
        elif match := lines_of.SUMMARY.search(line):
            draft = self.dumping or self._draft_of_dump()
            draft.summarised, draft.last_line = True, self.number
            self._attend()
            if len(draft.summary) < 100_000:
                draft.summary[int(match[2])] = int(match[1])
        elif match := lines_of.REGION.search(line):
            self._draft_of_dump().region_bytes += int(match[1])
        else:
            return False
        return True

    # What kernels, compilers and Python say.

    def _read_error(self, line: bytes) -> bool:
        if match := lines_of.TENSOR.search(line):
            self._tell_tensor(match, line)
        elif match := lines_of.COMPILED.search(line):
            exact = match["exact"] or match["bytes"]
            self._tell_amount(read_amount(exact or match["amount"]), exact=exact is not None).compiled = True
        elif match := lines_of.CUDA.search(line):
            draft = self.dumping = self._open()
            draft.set_bytes(int(match["amount"]), exact=True)
            draft.learn(allocator=_text(match["allocator"]))
        elif lines_of.UNNAMED.search(line):
            self._tell_amount(None, exact=False)
        elif match := lines_of.COPY.search(line):
            self._tell_amount(None, exact=False)
            self._learn(op=_text(match["op"]))
        elif match := lines_of.TPU.search(line):
            draft = self._tell_amount(read_amount(match[2]), exact=False)
            draft.limit_bytes, draft.compiled = read_amount(match[3]), True
            draft.learn(device=f"TPU {_text(match[1])}")
        elif match := lines_of.NUMPY.search(line):
            draft = self._tell_amount(read_amount(match["amount"]), exact=False)
            shape, dtype = read_shape(match["shape"]), read_dtype(match["dtype"])
            draft.set_bytes(tensor_bytes(shape, dtype), exact=True)
            draft.learn(shape=shape, dtype=dtype, allocator="numpy")
        elif match := lines_of.REFUSED.search(line):
            self.refused_bytes = int(match[1])
        else:
            return False
        self._read_names(line)
        return True

    def _tell_tensor(self, match: re.Match[bytes], line: bytes) -> None:
        shape, dtype, device = read_shape(match["shape"]), read_dtype(match["dtype"]), _text(match["device"])
        amount, allocator = tensor_bytes(shape, dtype), _text(match["allocator"])
        draft = self._find_tensor(shape, amount, allocator) or self._open()
        self._touch(draft)
        draft.set_bytes(amount, exact=True)
        draft.learn(shape=shape, dtype=dtype, device=device, allocator=allocator)
        if self.detected is not None:
            draft.learn(node=self.detected[1], source=self.source)
            self.detected = None
        if eager := lines_of.EAGER_OP.search(line):
            # The op as it was written; the allocator knows the kernel, which may be oneDNN's.
            draft.request = replace(draft.request, op=_text(eager[1]))

    def _find_tensor(self, shape: tuple[int, ...], amount: int | None, allocator: str | None) -> Draft | None:
        for draft in self._recent():
            known = draft.request
            if allocator is not None and known.allocator not in (None, allocator):
                continue
            if known.shape is None and draft.agrees(amount, exact=True):
                return draft
            if known.shape == shape:
                return draft
        return None

    def _tell_amount(self, amount: int | None, *, exact: bool) -> Draft:
        same = (draft for draft in self._recent() if draft.agrees(amount, exact=exact))
        draft = next(same, None) or self._open()
        self._touch(draft)
        draft.set_bytes(amount, exact=exact)
        if self.detected is not None:
            self._learn(node=self.detected[1], source=self.source)
            self.detected = None
        return draft

    def _learn(self, **facts: object) -> None:
        if self.latest is not None:
            self.latest.learn(**facts)

    # Names, which follow an error or come before it.

    def _read_names(self, line: bytes) -> None:
        if match := lines_of.DETECTED.search(line):
            self.detected, self.source = (self.number, match[1].decode("utf-8", "replace")), None
            self._attend()
        elif self.detected is not None and (match := lines_of.FRAME.search(line)):
            if self.number - self.detected[0] > _NAME_LINES:
                self.detected = None
            elif lines_of.is_own_source(match[1]):
                # Frames go inwards: the last one of the user's own is where the op was written.
                self.source = _place(match[1], match[2])
        if self.latest is None:
            return
        if match := lines_of.NODE.search(line):
            self._learn(node=_text(match["braced"] or match["plain"]))
            if match["file"] is not None:
                self._learn(source=_place(match["file"], match["line"]))
            if match := lines_of.DEVICE.search(line):
                self._learn(device=_text(match[1]))
        elif lines_of.USAGE_BEGINS.search(line):
            self.listing = "usage"
        elif lines_of.HISTOGRAM_BEGINS in line:
            self.listing = "histogram"
        elif lines_of.PEAK_BUFFERS_BEGIN in line:
            self.listing = "buffers"
        elif match := lines_of.CUDA_FREE.search(line):
            free, total = int(match[1]), int(match[2])
            self.latest.note(f"the driver reported {free:,} of {total:,} bytes free on the device")
        elif lines_of.VAIN_HINT.search(line):
            self.latest.note(
                "report_tensor_allocations_upon_oom, of TensorFlow's hint, is for sessions of version 1 only"
            )

    def _read_listing(self, line: bytes) -> None:
        draft = self.latest
        if draft is None:
            return
        if self.listing == "histogram" and (match := lines_of.HISTOGRAM.search(line.rstrip())):
            draft.add_holder(Holder(int(match[1]) * int(match[2]), max(1, int(match[2]))))
        elif self.listing == "usage" and (match := lines_of.USAGE.search(line)):
            draft.add_holder(Holder(read_amount(match[1]), name=_text(match[2])))
        elif self.listing == "usage" and (match := lines_of.USAGE_REST.search(line)):
            draft.add_holder(Holder(read_amount(match[2]), max(1, int(match[1]))))
            self.listing = None
        elif self.listing == "buffers":
            _read_peak_buffer(draft, line)
        else:
            return
        draft.last_line = self.number
        self._attend()


def _read_statistics(draft: Draft, line: bytes) -> None:
    # A collector may have put them all on one line.
    for match in lines_of.STATISTIC.finditer(line):
        amount = read_amount(match[2])
        if match[1] == b"Limit" and amount and draft.limit_bytes is None:
            draft.limit_bytes = amount
        elif match[1] == b"InUse":
            draft.bytes_in_use = amount
        elif match[1] == b"MaxInUse":
            draft.peak_bytes = amount


def _read_peak_buffer(draft: Draft, line: bytes) -> None:
    if match := lines_of.PEAK_BUFFER.search(line):
        draft.add_holder(Holder(read_amount(match[1])))
    elif draft.holders:
        last = draft.holders[-1]
        if match := lines_of.PEAK_BUFFER_NAME.search(line):
            source = None if match[2] is None else _place(match[2], match[3])
            draft.holders[-1] = replace(last, name=_text(match[1]), source=source)
        elif match := lines_of.PEAK_BUFFER_LABEL.search(line):
            draft.holders[-1] = replace(last, op=_text(match[1]))
        elif match := lines_of.PEAK_BUFFER_SHAPE.search(line):
            draft.holders[-1] = replace(last, dtype=read_xla_dtype(match[1]), shape=read_shape(match[2]))


def _place(file: bytes, line: bytes) -> str:
    """Return "train.py:66" of a path and a line."""
    name = re.split(rb"[/\\]", file)[-1]
    return f"{name.decode('utf-8', 'replace')}:{int(line)}"


def _text(found: bytes | None) -> str | None:
    return None if found is None else found.decode("utf-8", "replace")
