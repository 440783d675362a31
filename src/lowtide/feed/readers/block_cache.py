"""A cache of blocks of samples, limited in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from lowtide.feed.readers.samples import Rows


@dataclass
class BlockCache:
    """Blocks that were read; the least recently used ones are dropped first."""

    most_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _blocks: OrderedDict[Hashable, Sequence[Rows]] = field(default_factory=OrderedDict, init=False)
    _bytes: int = field(default=0, init=False)

    def get(self, key: Hashable, load: Callable[[], Sequence[Rows]]) -> Sequence[Rows]:
        """Return the content of a block, and load it if it is not cached."""
        # One thread at a time: two readers that need the same block would otherwise both load it.
        with self._lock:
            if key not in self._blocks:
                # The size of a block is known after loading only: until then it is assumed to equal the last one's.
                last = next(reversed(self._blocks.values()), ())
                self._make_room(_size(last))
                content = load()
                self._make_room(_size(content))
                self._blocks[key] = content
                self._bytes += _size(content)
            self._blocks.move_to_end(key)
            return self._blocks[key]

    def _make_room(self, size: int) -> None:
        while self._blocks and self._bytes + size > self.most_bytes:
            _, dropped = self._blocks.popitem(last=False)
            self._bytes -= _size(dropped)


def _size(content: Sequence[Rows]) -> int:
    return sum(each.nbytes for each in content)
