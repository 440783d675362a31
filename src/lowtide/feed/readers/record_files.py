"""TFRecord files as records that can be read by number: where each lies is found once, from the lengths alone."""

from __future__ import annotations

import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import google_crc32c
import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.order import Places
from lowtide.feed.readers.files import matching
from lowtide.feed.readers.unpacked_files import (
    Damaged,
    Unpacked,
    is_packed,
    least_unpacked,
    stream_pieces,
    unpacked_once,
)
from lowtide.sources.graphs.tfrecords import masked_checksum, read_length

_HEADER, _FOOTER = 12, 4
_EXAMPLE = 0x0A
# Every file that is mapped is one that is open, and a process may not have many.
_MOST_MAPPED = 64


class Maps:
    """Files that are mapped when they are needed; those that were not used for longest are let go."""

    def __init__(self, paths: Sequence[str], unpacked: dict[int, mmap.mmap]) -> None:
        self._paths, self._unpacked = paths, unpacked
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, mmap.mmap] = OrderedDict()

    def get(self, file: int) -> mmap.mmap:
        """The content of a file, or what it was unpacked to together with others."""
        if file in self._unpacked:
            return self._unpacked[file]
        with self._lock:
            if file not in self._kept:
                while len(self._kept) >= _MOST_MAPPED:
                    # Not closed: another reader may just be using it.
                    self._kept.popitem(last=False)
                with open(self._paths[file], "rb") as opened:
                    self._kept[file] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            self._kept.move_to_end(file)
            return self._kept[file]


@dataclass
class RecordFiles:
    """The records of some files, one after the other."""

    paths: list[str]
    first: Places
    """The number of each file's first record, and behind the last file how many there are."""
    start: Places
    length: Places
    maps: Maps
    unpacked: Unpacked | None = None
    """What the files that are compressed were unpacked to."""
    problems: list[str] = field(default_factory=list)
    """Where files are cut."""

    @property
    def count(self) -> int:
        return len(self.start)

    @property
    def longest(self) -> int:
        """The bytes of the largest record."""
        return int(self.length.max(initial=0))

    def read(self, record: int) -> bytes:
        """The bytes of a record, which are as they were written."""
        data, start, end = self._place(record)
        content = data[start:end]
        if masked_checksum(google_crc32c.value(content)) != int.from_bytes(data[end : end + _FOOTER], "little"):
            raise LowtideError(f"{self.where(record)} is damaged: its checksum does not match", cure="write it again")
        # The first byte of an example is always the same. TensorFlow's error would quote what is none, unreadably.
        if content and content[0] != _EXAMPLE:
            raise LowtideError(f"{self.where(record)} is no tf.train.Example", cure="check what was written")
        return content

    def where(self, record: int) -> str:
        file = self._file(record)
        return f"record {record - int(self.first[file])} of {self.paths[file]}"

    def reason(self, record: int) -> str:
        try:
            self.read(record)
        except LowtideError as error:
            return error.problem.removeprefix(f"{self.where(record)} ")
        return "it cannot be parsed: a feature is missing, or of another type or shape"

    def _file(self, record: int) -> int:
        return int(np.searchsorted(self.first, record, side="right")) - 1

    def _place(self, record: int) -> tuple[mmap.mmap, int, int]:
        start = int(self.start[record])
        return self.maps.get(self._file(record)), start, start + int(self.length[record])


def open_records(given: str | os.PathLike[str] | Sequence[str], skip: bool) -> RecordFiles:
    """Find where the records of files lie; a pattern stands for all files that match it."""
    paths = matching(given)
    try:
        spans = [(0, os.path.getsize(path)) for path in paths]
        packed = [number for number, path in enumerate(paths) if _is_compressed(path)]
    except OSError as error:
        raise LowtideError(f"{error.filename} cannot be read: {error.strerror}", cure="check the path") from error
    problems: list[str] = []
    unpacked = _unpack([paths[number] for number in packed], skip) if packed else None
    maps = Maps(paths, {})
    if unpacked is not None:
        for number, span in zip(packed, unpacked.spans, strict=True):
            spans[number] = span
        problems += unpacked.problems
        if unpacked.bytes:
            whole = mmap.mmap(unpacked.file.fileno(), 0, access=mmap.ACCESS_READ)
            maps = Maps(paths, dict.fromkeys(packed, whole))
    starts, lengths = [], []
    for number, path in enumerate(paths):
        begin, end = spans[number]
        start, length, problem = _walk(path, maps.get(number), begin, end) if end > begin else _NOTHING
        if problem is not None:
            if not skip:
                raise LowtideError(problem, cure='write it again, or give on_error="skip" for what is whole')
            problems.append(problem)
        starts.append(start)
        lengths.append(length)
    first = np.concatenate([[0], np.cumsum([len(start) for start in starts])]).astype(np.int64)
    if first[-1] == 0:
        raise LowtideError("there are no records", given=", ".join(paths[:5]), cure="check the files")
    return RecordFiles(paths, first, np.concatenate(starts), np.concatenate(lengths), maps, unpacked, problems)


def _is_compressed(path: str) -> bool:
    with open(path, "rb") as file:
        head = file.read(_HEADER)
    return is_packed(head) and read_length(head, 0) is None


def _unpack(paths: list[str], skip: bool) -> Unpacked:
    """What is in files that are compressed, one behind the other."""

    def make() -> Unpacked:
        unpacked = Unpacked()
        for path in paths:
            begin = unpacked.bytes
            try:
                unpacked.add(stream_pieces(path), path, None, least_unpacked(path))
            except Damaged as error:
                if not skip:
                    raise
                unpacked.problems.append(error.problem)
            unpacked.spans.append((begin, unpacked.bytes))
        return unpacked

    return unpacked_once(paths, f"records {skip}", make)


_NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64), None)


def _walk(path: str, data: mmap.mmap, begin: int, end: int) -> tuple[Places, Places, str | None]:
    """Where the records of a file begin, how long they are, and what is wrong with it."""
    starts: list[int] = []
    lengths: list[int] = []
    problem = None
    position = begin
    while position < end:
        length = read_length(data, position) if end - position >= _HEADER else None
        if length is None or position + _HEADER + length + _FOOTER > end:
            what = "ends in the middle of" if length is not None or end - position < _HEADER else "is damaged at"
            problem = f"{path} {what} record {len(starts)}, at byte {position - begin:,} of {end - begin:,}"
            break
        starts.append(position + _HEADER)
        lengths.append(length)
        position += _HEADER + length + _FOOTER
    return np.array(starts, np.int64), np.array(lengths, np.int64), problem
