"""Blocks of samples that were read and may be needed again, as many as there is room for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from lowtide.feed.readers.array_files import Rows


@dataclass
class Blocks:
    """What was read of blocks; those that were not used for longest go first."""

    room_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _kept: OrderedDict[Hashable, Sequence[Rows]] = field(default_factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)

    def get(self, key: Hashable, load: Callable[[], Sequence[Rows]]) -> Sequence[Rows]:
        """The content of a block, read if it is not there."""
        # One at a time: two readers that want the same block would both have it.
        with self._lock:
            if key not in self._kept:
                # It is known only afterwards how large a block is: until then all are taken to be like the last one.
                last = next(reversed(self._kept.values()), ())
                self._make_room(_size(last))
                content = load()
                self._make_room(_size(content))
                self._kept[key] = content
                self._bytes += _size(content)
            self._kept.move_to_end(key)
            return self._kept[key]

    def _make_room(self, size: int) -> None:
        while self._kept and self._bytes + size > self.room_bytes:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= _size(gone)


def _size(content: Sequence[Rows]) -> int:
    return sum(each.nbytes for each in content)
