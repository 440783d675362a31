"""A Gauge: the bytes in use while each task of an order runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lowtide.planning.order.tasks import TaskId, Tasks

Bytes = npt.NDArray[np.int64]


class Gauge:
    """Tells the bytes in use while each task of an order runs; what is there throughout is left aside."""

    def __init__(self, tasks: Tasks) -> None:
        self.count = len(tasks)
        self.workspace = np.array(tasks.workspace, np.int64)
        # A variable that is only read and updated is there throughout.
        values = [value for value, maker in enumerate(tasks.makers) if maker is not None or not tasks.lasting[value]]
        makers = [tasks.makers[value] for value in values]
        self.sizes = np.array([tasks.sizes[value] for value in values], np.int64)
        self.lasting = np.array([tasks.lasting[value] for value in values], bool)
        self.maker = np.array([self.count if maker is None else maker for maker in makers], np.int64)
        """The task that makes each value; what is there before is made by one more task, which comes first."""
        touching = [[maker, *tasks.readers[value]] for maker, value in zip(self.maker, values, strict=True)]
        self.touching = np.array([task for group in touching for task in group], np.int64)
        self.first = np.cumsum([0, *map(len, touching)], dtype=np.int64)[:-1]
        place = {value: index for index, value in enumerate(values)}
        takes = [
            (task, place[source], tasks.sizes[output])
            for task, pairs in enumerate(tasks.takes)
            for output, source in pairs
            if source in place and tasks.makers[source] is not None
        ]
        self.taker, self.source, self.taken = np.array(takes, np.int64).reshape(-1, 3).T

    def hills(self, order: Sequence[TaskId] | Bytes) -> Bytes:
        """The bytes in use while each task runs, one after the other."""
        count, order = self.count, np.asarray(order, np.int64)
        position = np.zeros(count + 1, np.int64)
        position[order] = np.arange(count)
        hills: Bytes = self.workspace[order]
        if not len(self.sizes):
            return hills
        last = np.maximum.reduceat(position[self.touching], self.first)
        last[self.lasting] = count
        come = np.bincount(position[self.maker], self.sizes, count)
        gone = np.bincount(last + 1, self.sizes, count + 2)
        hills = hills + np.cumsum((come - gone[:count]).astype(np.int64))
        # Who reads a value last may take its place; who may take one of two places takes one.
        spared = np.zeros(count, np.int64)
        np.maximum.at(spared, position[self.taker], np.where(last[self.source] == position[self.taker], self.taken, 0))
        return hills - spared
