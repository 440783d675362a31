"""One epoch of one way, in a separate process: seconds, samples, and the memory of the process."""

from __future__ import annotations

import argparse
import json
import resource
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.explore.memory import held_bytes


class Watcher:
    """Samples the private memory of this process every few milliseconds."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.highest = 0
        self._seconds = seconds
        self._settled_bytes, self._settled_at = 0, time.perf_counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def is_settled(self, seconds: float) -> bool:
        """Whether the memory has not grown for some seconds, by more than a hundredth."""
        if self.highest > 1.01 * self._settled_bytes:
            self._settled_bytes, self._settled_at = self.highest, time.perf_counter()
        return time.perf_counter() - self._settled_at > seconds

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(self._seconds):
            self.highest = max(self.highest, held_bytes())


def make_model() -> Any:
    import keras

    model = keras.Sequential([keras.layers.Conv2D(4, 8, 8), keras.layers.Flatten(), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """Train for an epoch over arrays, and return the growth of the memory of the process."""
    import numpy as np

    from benchmarks.feed import sets, ways

    paths = sets.sparse_arrays(options.folder, options.gibibytes)
    model = make_model()
    # The memory of a training step is not part of the dataset.
    model.train_on_batch(np.zeros((options.batch_size, *sets.IMAGE), np.float32), np.zeros(options.batch_size))
    base = held_bytes()
    began = time.perf_counter()
    with Watcher() as watcher:
        try:
            data = ways.arrays(options.way, paths, options.batch_size, options.budget)
            model.fit(data, epochs=1, shuffle=False, verbose=0)
            ended = "trained"
        except Exception as error:
            ended = type(error).__name__
    seconds = time.perf_counter() - began
    return {"base_bytes": base, "highest_bytes": watcher.highest, "ended": ended, "seconds": seconds}


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """Iterate over epochs at full speed for at least some seconds, after one untimed epoch.

    Also counted is the time until the iterator of each epoch is gone.
    """
    from benchmarks.feed import sets, ways

    source = {"arrays": sets.dense_arrays, "images": sets.photos, "table": sets.table}[options.set](options.folder)
    data = getattr(ways, options.set)(options.way, source, options.batch_size, options.budget)
    take_epoch(data)
    samples, until_last, until_gone = 0, 0.0, 0.0
    while until_last < options.seconds:
        taken, last, gone = take_epoch(data)
        samples, until_last, until_gone = samples + taken, until_last + last, until_gone + gone
    return {"samples": samples, "until_last": until_last, "until_gone": until_gone}


def take_epoch(data: Any) -> tuple[int, float, float]:
    """The number of samples, the time of the last one, and the time at which the iterator was deleted."""
    samples, last, began = 0, 0.0, time.perf_counter()
    for batch in data:
        samples += int(batch[1].shape[0])
        last = time.perf_counter() - began
    return samples, last, time.perf_counter() - began


def pipeline(options: argparse.Namespace) -> dict[str, Any]:
    """Iterate over a pipeline at the pace of training, and return the growth of the memory of the process."""
    import tensorflow as tf

    from benchmarks.feed.pipelines import BEFORE, PIPELINES

    BEFORE.get(options.way, lambda: None)()
    # The memory that TensorFlow takes for the first pipeline of a process is not part of the measured one.
    for _ in tf.data.Dataset.range(64).map(lambda n: n + 1, num_parallel_calls=2).shuffle(8).batch(4).prefetch(2):
        pass
    allocator = "CPU:0" if options.allocator else None
    base = held_bytes()
    allocated = 0
    if allocator:
        tf.config.experimental.reset_memory_stats(allocator)
        allocated = tf.config.experimental.get_memory_info(allocator)["current"]
    taken, began = 0, time.perf_counter()
    with Watcher(0.005) as watcher:
        for _ in PIPELINES[options.way](options.folder):
            taken += 1
            time.sleep(options.pause)
            if time.perf_counter() - began > options.longest or watcher.is_settled(options.settled):
                break
    result = {"recorded_bytes": watcher.highest - base, "taken": taken}
    if allocator:
        result["allocator_bytes"] = tf.config.experimental.get_memory_info(allocator)["peak"] - allocated
    return result


def feed(options: argparse.Namespace) -> dict[str, Any]:
    """Iterate over a dataset of lt.feed at the pace of training, and return the growth of the memory of the process."""
    from benchmarks.feed.feeds import FEEDS, warm_up

    budget, make = FEEDS[options.way]
    warm_up(options.folder)
    base = held_bytes()
    taken, began = 0, time.perf_counter()
    with Watcher(0.005) as watcher:
        data = make(options.folder, budget)
        is_over = False
        while not is_over:
            for _ in data:
                taken += 1
                time.sleep(options.pause)
                is_over = time.perf_counter() - began > options.longest or watcher.is_settled(options.settled)
                if is_over:
                    break
    return {"recorded_bytes": watcher.highest - base, "taken": taken}


def forecast(options: argparse.Namespace) -> dict[str, Any]:
    """The prediction for a pipeline, which is not run."""
    import lowtide as lt
    from benchmarks.feed.pipelines import PIPELINES

    made = PIPELINES[options.way](options.folder)
    base = held_bytes()
    began = time.perf_counter()
    with Watcher(0.005) as watcher:
        predicted = lt.feed.predict(made)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "grown_bytes": watcher.highest - base, "text": str(predicted), **predicted.to_dict()}


WORKS = {"memory": memory, "speed": speed, "pipeline": pipeline, "feed": feed, "forecast": forecast}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=list(WORKS))
    parser.add_argument("--way", required=True)
    parser.add_argument("--set", default="arrays")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--gibibytes", type=float, default=24)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--budget", default="256MiB")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds that a step takes")
    parser.add_argument("--seconds", type=float, default=3, help="of epochs that are timed, at least")
    parser.add_argument("--longest", type=float, default=20, help="seconds that a pipeline runs at most")
    parser.add_argument("--settled", type=float, default=1e9, help="seconds without growth after which it ends")
    parser.add_argument("--allocator", action="store_true", help="ask TensorFlow's allocator too")
    parser.add_argument("--limit", type=int, default=0, help="bytes that the process may ask for")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.limit:
        # The limit protects other processes from a way that takes all of the memory.
        resource.setrlimit(resource.RLIMIT_DATA, (options.limit, options.limit))
    options.output.write_text(json.dumps(WORKS[options.work](options)))


if __name__ == "__main__":
    main()
