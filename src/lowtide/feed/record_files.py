"""TFRecord files as records that can be read by number: where each lies is found once, from the lengths alone."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import google_crc32c
import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.files import matching
from lowtide.feed.order import Places
from lowtide.sources.records import masked_checksum, read_length

_HEADER, _FOOTER = 12, 4
_GZIP = b"\x1f\x8b"


@dataclass
class RecordFiles:
    """The records of some files, one after the other."""

    paths: list[str]
    first: Places
    """The number of each file's first record, and behind the last file how many there are."""
    start: Places
    length: Places
    problems: list[str] = field(default_factory=list)
    """Where files are cut."""
    _maps: dict[int, mmap.mmap] = field(default_factory=dict, init=False)

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
        return content

    def where(self, record: int) -> str:
        file = self._file(record)
        return f"record {record - int(self.first[file])} of {self.paths[file]}"

    def reason(self, record: int) -> str:
        try:
            self.read(record)
        except LowtideError as error:
            return error.problem
        return "it cannot be parsed: a feature is missing, or of another type or shape"

    def _file(self, record: int) -> int:
        return int(np.searchsorted(self.first, record, side="right")) - 1

    def _place(self, record: int) -> tuple[mmap.mmap, int, int]:
        file = self._file(record)
        if file not in self._maps:
            with open(self.paths[file], "rb") as opened:
                self._maps[file] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        start = int(self.start[record])
        return self._maps[file], start, start + int(self.length[record])


def open_records(given: str | os.PathLike[str] | Sequence[str], skip: bool) -> RecordFiles:
    """Find where the records of files lie; a pattern stands for all files that match it."""
    paths = matching(given)
    starts, lengths, counts, problems = [], [], [], []
    for path in paths:
        try:
            start, length, problem = _walk(path)
        except OSError as error:
            raise LowtideError(f"{path} cannot be read: {error.strerror}", cure="check the path") from error
        if problem is not None:
            if not skip:
                raise LowtideError(problem, cure='write it again, or give on_error="skip" for what is whole')
            problems.append(problem)
        starts.append(start)
        lengths.append(length)
        counts.append(len(start))
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if first[-1] == 0:
        raise LowtideError("there are no records", given=", ".join(paths[:5]), cure="check the files")
    return RecordFiles(paths, first, np.concatenate(starts), np.concatenate(lengths), problems)


def _walk(path: str) -> tuple[Places, Places, str | None]:
    """Where the records of a file begin, how long they are, and what is wrong with it."""
    starts: list[int] = []
    lengths: list[int] = []
    problem = None
    size = os.path.getsize(path)
    if size:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:2] == _GZIP and read_length(data, 0) is None:
                raise LowtideError(f"{path} is compressed and cannot be read at random", cure="unpack it with gunzip")
            position = 0
            while position < size:
                length = read_length(data, position)
                if length is None or position + _HEADER + length + _FOOTER > size:
                    what = (
                        "ends in the middle of" if length is not None or size - position < _HEADER else "is damaged at"
                    )
                    problem = f"{path} {what} record {len(starts)}, at byte {position:,} of {size:,}"
                    break
                starts.append(position + _HEADER)
                lengths.append(length)
                position += _HEADER + length + _FOOTER
    return np.array(starts, np.int64), np.array(lengths, np.int64), problem
