"""TFRecord files with random access: the offset of each record is found once, from the lengths in the files."""

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
from lowtide.feed.readers.files import find_files
from lowtide.feed.readers.samples import Indices
from lowtide.feed.readers.unpacked_files import (
    DamagedArchive,
    UnpackedFile,
    estimate_unpacked_bytes,
    is_compressed,
    read_stream,
    unpack_once,
)
from lowtide.sources.graphs.tfrecords import masked_checksum, read_length

_HEADER, _FOOTER = 12, 4
_EXAMPLE = 0x0A
# A mapped file counts as an open file, and the number of these is limited per process.
_MOST_MAPPED = 64


class MappedFiles:
    """Files that are mapped on demand; the least recently used ones are dropped first."""

    def __init__(self, paths: Sequence[str], unpacked: dict[int, mmap.mmap]) -> None:
        self._paths, self._unpacked = paths, unpacked
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, mmap.mmap] = OrderedDict()

    def get(self, file: int) -> mmap.mmap:
        """The content of a file, or the unpacked copy that contains it."""
        if file in self._unpacked:
            return self._unpacked[file]
        with self._lock:
            if file not in self._kept:
                while len(self._kept) >= _MOST_MAPPED:
                    # Not closed, because another reader may be using it.
                    self._kept.popitem(last=False)
                with open(self._paths[file], "rb") as opened:
                    self._kept[file] = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            self._kept.move_to_end(file)
            return self._kept[file]


@dataclass
class RecordFiles:
    """The records of some files, in the order of the files."""

    paths: list[str]
    first: Indices
    """The index of the first record of each file, and as the last entry the number of records."""
    start: Indices
    length: Indices
    maps: MappedFiles
    unpacked: UnpackedFile | None = None
    """The unpacked copy of the compressed files."""
    problems: list[str] = field(default_factory=list)
    """Where files are truncated or damaged."""

    @property
    def count(self) -> int:
        return len(self.start)

    @property
    def longest(self) -> int:
        """The size of the largest record in bytes."""
        return int(self.length.max(initial=0))

    def read(self, record: int) -> bytes:
        """Return the bytes of a record, after checking its checksum."""
        data, start, end = self._span(record)
        content = data[start:end]
        if masked_checksum(google_crc32c.value(content)) != int.from_bytes(data[end : end + _FOOTER], "little"):
            raise LowtideError(f"{self.where(record)} is damaged: its checksum does not match", cure="write it again")
        # Every tf.train.Example begins with this byte. TensorFlow's own error would quote the binary content.
        if content and content[0] != _EXAMPLE:
            raise LowtideError(f"{self.where(record)} is not a tf.train.Example", cure="check what was written")
        return content

    def where(self, record: int) -> str:
        file = self._file(record)
        return f"record {record - int(self.first[file])} of {self.paths[file]}"

    def reason(self, record: int) -> str:
        try:
            self.read(record)
        except LowtideError as error:
            return error.problem.removeprefix(f"{self.where(record)} ")
        return "it cannot be parsed: a feature is missing, or has another type or shape"

    def _file(self, record: int) -> int:
        return int(np.searchsorted(self.first, record, side="right")) - 1

    def _span(self, record: int) -> tuple[mmap.mmap, int, int]:
        start = int(self.start[record])
        return self.maps.get(self._file(record)), start, start + int(self.length[record])


def open_records(given: str | os.PathLike[str] | Sequence[str], skip: bool) -> RecordFiles:
    """Find the offsets of the records of all files that match a pattern, or of a list of files."""
    paths = find_files(given)
    try:
        spans = [(0, os.path.getsize(path)) for path in paths]
        packed = [number for number, path in enumerate(paths) if _is_compressed(path)]
    except OSError as error:
        raise LowtideError(f"{error.filename} cannot be read: {error.strerror}", cure="check the path") from error
    problems: list[str] = []
    unpacked = _unpack([paths[number] for number in packed], skip) if packed else None
    maps = MappedFiles(paths, {})
    if unpacked is not None:
        for number, span in zip(packed, unpacked.spans, strict=True):
            spans[number] = span
        problems += unpacked.problems
        if unpacked.bytes:
            content = mmap.mmap(unpacked.file.fileno(), 0, access=mmap.ACCESS_READ)
            maps = MappedFiles(paths, dict.fromkeys(packed, content))
    starts, lengths = [], []
    for number, path in enumerate(paths):
        begin, end = spans[number]
        start, length, problem = _find_records(path, maps.get(number), begin, end) if end > begin else _NO_RECORDS
        if problem is not None:
            if not skip:
                raise LowtideError(problem, cure='write it again, or give on_error="skip" to read the records before')
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
    return is_compressed(head) and read_length(head, 0) is None


def _unpack(paths: list[str], skip: bool) -> UnpackedFile:
    """Unpack compressed files into one file, one after the other."""

    def unpack() -> UnpackedFile:
        unpacked = UnpackedFile()
        for path in paths:
            begin = unpacked.bytes
            try:
                unpacked.append(read_stream(path), path, None, estimate_unpacked_bytes(path))
            except DamagedArchive as error:
                if not skip:
                    raise
                unpacked.problems.append(error.problem)
            unpacked.spans.append((begin, unpacked.bytes))
        return unpacked

    return unpack_once(paths, f"records {skip}", unpack)


_NO_RECORDS = (np.zeros(0, np.int64), np.zeros(0, np.int64), None)


def _find_records(path: str, data: mmap.mmap, begin: int, end: int) -> tuple[Indices, Indices, str | None]:
    """Return the offsets and lengths of the records of a file, and a problem if it is truncated or damaged."""
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
