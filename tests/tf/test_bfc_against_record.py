"""The BFC model against TensorFlow's own allocator, event by event.

A child process runs TensorFlow with the real allocator, all of it under the profiler from the first
allocation on, so that nothing about the allocator's state is unknown. The model follows its record:
address, chunk size, bytes in use and fragmentation must agree after each event. What the model
cannot know is where the operating system puts a region; that one number is taken from the record,
where the first chunk of a region has the region's address.

Run as a program, this file is the child.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.simulator.bfc import BfcAllocator, OutOfMemory, Region
from lowtide.sources.profiles.xplane import AllocationRecord, read_profile

# An int32 holds any size up to the limit: Empty takes no other shapes.
LIMIT_MIB = 2000


class RealAllocator:
    """A child process with TensorFlow's allocator, and the model that follows it."""

    def __init__(self, directory: Path, onednn: bool) -> None:
        environment = os.environ | {
            "TF_CPU_ALLOCATOR_USE_BFC": "true",
            "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT_MIB),
            "TF_ENABLE_ONEDNN_OPTS": str(int(onednn)),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # The child imports what this process imports, also where pytest added to the path.
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(directory)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.model = BfcAllocator(LIMIT_MIB << 20, place_region=self._recorded_address)
        # All that happened so far, as a stream that can be replayed.
        self.sizes: list[int] = []
        self.events: list[int] = []
        self._buffers: dict[int, int] = {}  # address -> buffer
        self._address = 0

    def _recorded_address(self, size_bytes: int, regions: object) -> int:
        return self._address

    def ask(self, command: str, argument: Any = None) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([command, argument]), file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("answer "):
                answer: dict[str, Any] = json.loads(line.removeprefix("answer "))
                return answer
        raise AssertionError(f"the child ended with {self.process.wait()} during {command}")

    def record(self, command: str, argument: Any = None) -> AllocationRecord:
        """Run a command in the child, follow its record with the model, and compare them."""
        record = read_profile(self.ask(command, argument)["profile"]).allocations
        assert len(record) > 0
        assert record.breaks() == []
        for row in range(len(record)):
            self._follow(record, row)
        return record

    def _follow(self, record: AllocationRecord, row: int) -> None:
        model = self.model
        address = self._address = int(record.address[row])
        if record.is_allocation[row]:
            assert model.allocate(int(record.requested_bytes[row])) == address
            assert model.chunk_bytes(address) == record.allocated_bytes[row]
            self._buffers[address] = len(self.sizes)
            self.events.append(len(self.sizes))
            self.sizes.append(int(record.requested_bytes[row]))
        else:
            model.free(address)
            self.events.append(~self._buffers.pop(address))
        assert model.bytes_in_use == record.bytes_in_use[row]
        fragmentation = float(record.fragmentation[row])
        # Without a free byte TensorFlow divides by zero.
        free_bytes = model.reserved_bytes - model.bytes_in_use
        expected = 1 - model.largest_free_bytes() / free_bytes if free_bytes else math.nan
        assert fragmentation == pytest.approx(expected, rel=1e-5, abs=1e-9, nan_ok=True)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # A child that ended early has closed its end; the test has said so already.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)


@pytest.fixture(scope="module", params=[False, True], ids=["eigen", "onednn"])
def real(request: pytest.FixtureRequest) -> Iterator[RealAllocator]:
    with tempfile.TemporaryDirectory() as directory:
        allocator = RealAllocator(Path(directory), request.param)
        yield allocator
        allocator.close()


def sequences() -> st.SearchStrategy[list[int]]:
    """Positive: allocate that number of bytes. Zero or negative: free one of those alive."""
    small = st.integers(1, 5_000)
    large = st.integers(1, 24 << 20)
    few_sizes = st.sampled_from([256, 512, 1 << 20, (1 << 20) + 1, 3 << 20])
    free = st.integers(-30, 0)
    further = st.lists(st.one_of(small, large, few_sizes, free, free), max_size=60)
    return st.tuples(large, further).map(lambda parts: [parts[0], *parts[1]])


def test_nothing_is_in_use_before_the_first_tensor(real: RealAllocator) -> None:
    assert real.ask("info") == {"current": 0, "peak": 0}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=sequences())
def test_eager_tensors(real: RealAllocator, sequence: list[int]) -> None:
    real.record("tensors", sequence)


def test_large_requests(real: RealAllocator) -> None:
    """Where a rest of 128 MiB is split off, and how a region is sized after a raised one."""
    mebibyte = 1 << 20
    # The second 400 MiB get a region of 512 again: after 1024 they would be split off it.
    numbers = [400, 400, 0, 0, 385, 0, 384, 0, 300]
    record = real.record("tensors", [number * mebibyte for number in numbers])
    large = record.is_allocation & (record.requested_bytes >= mebibyte)
    assert (record.allocated_bytes[large] // mebibyte).tolist() == [512, 512, 512, 384, 300]
    assert [region.size_bytes // mebibyte for region in real.model.regions[-2:]] == [512, 512]


def test_training_steps(real: RealAllocator) -> None:
    record = real.record("train")
    assert len(set(record.thread.tolist())) > 1
    assert real.ask("info")["current"] == real.model.bytes_in_use


def test_regions_placed_by_the_model(real: RealAllocator) -> None:
    """A prediction has no record to take the regions' addresses from.

    They decide only between chunks of one size in two regions, and Linux maps regions downwards
    unless malloc has memory of its own to give, so the peak must come out nearly the same.
    """
    real.record("train")
    model = BfcAllocator(LIMIT_MIB << 20)
    replay = model.replay(real.sizes, real.events)
    assert model.peak_bytes_in_use == pytest.approx(real.model.peak_bytes_in_use, rel=0.02)
    assert model.reserved_bytes == real.model.reserved_bytes
    assert len(replay.bytes_in_use) == len(real.events)


# One variant is enough: TensorFlow waits ten seconds before it says that it is out of memory.
@pytest.mark.parametrize("real", [False], ids=["eigen"], indirect=True)
def test_the_limit_counts_regions(real: RealAllocator) -> None:
    model = real.model
    remaining = model.limit_bytes - model.reserved_bytes
    assert model.largest_free_bytes() < remaining
    assert real.ask("attempt", remaining + 1) == {"fits": False}
    with pytest.raises(OutOfMemory):
        model.allocate(remaining + 1)
    real.record("keep", remaining)
    assert model.reserved_bytes == model.limit_bytes == LIMIT_MIB << 20
    assert model.regions[-1] == Region(model.regions[-1].address, remaining)


def serve(directory: str) -> None:
    """The child: read commands, run each under the profiler, answer where its record is."""
    import tensorflow as tf

    kept: list[Any] = []

    def empty(size: int) -> Any:
        return tf.raw_ops.Empty(shape=[size], dtype=tf.uint8)

    def tensors(sequence: list[int]) -> None:
        alive = []
        for number in sequence:
            if number > 0:
                alive.append(empty(number))
            elif alive:
                del alive[number % len(alive)]

    def keep(size: int) -> None:
        kept.append(empty(size))

    def attempt(size: int) -> dict[str, bool]:
        try:
            empty(size)
        except tf.errors.ResourceExhaustedError:
            return {"fits": False}
        return {"fits": True}

    def recorded(function: Any, argument: Any) -> dict[str, str]:
        target = tempfile.mkdtemp(dir=directory)
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
        tf.profiler.experimental.start(target, options)
        function(argument)
        tf.profiler.experimental.stop()
        (profile,) = Path(target).rglob("*.xplane.pb")
        return {"profile": str(profile)}

    def train(_: None) -> None:
        import keras

        layers = keras.layers
        model = keras.Sequential(
            [
                layers.Input((24, 24, 3)),
                layers.Conv2D(16, 3, use_bias=False),
                layers.BatchNormalization(),
                layers.Activation("relu"),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10),
            ]
        )
        model.compile("adam", "mse", jit_compile=False)
        images, labels = np.zeros((32, 24, 24, 3), np.float32), np.zeros((32, 10), np.float32)
        for _step in range(3):
            model.train_on_batch(images, labels)
        kept.append(model)

    for line in sys.stdin:
        command, argument = json.loads(line)
        if command == "info":
            answer = tf.config.experimental.get_memory_info("CPU:0")
        elif command == "attempt":
            answer = attempt(argument)
        else:
            function = {"tensors": tensors, "keep": keep, "train": train}[command]
            answer = recorded(function, argument)
        print("answer " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
