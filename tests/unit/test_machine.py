"""The limits and counters of control groups, from folders that look like the kernel's."""

from pathlib import Path

import pytest

from lowtide.run.machine import available_bytes, count_group_kills, group_bytes

BOTH = "5:cpu,cpuacct:/x\n4:memory:/jobs/7\n0::/\n"


@pytest.fixture
def write(tmp_path: Path):
    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    return put


def test_without_control_groups_there_is_no_limit(tmp_path):
    for membership in ("", "0::/\n", BOTH, "0::/../../other\n", "damaged\n"):
        assert group_bytes(tmp_path, membership) is None
        assert count_group_kills(tmp_path, membership) is None


def test_the_lowest_limit_of_all_parents_holds(tmp_path, write):
    write("memory.max", "max\n")
    write("jobs/memory.max", "3000000\n")
    write("jobs/7/memory.max", "max\n")
    assert group_bytes(tmp_path, "0::/jobs/7\n") == 3_000_000
    write("jobs/7/memory.max", "2000000\n")
    assert group_bytes(tmp_path, "0::/jobs/7\n") == 2_000_000
    # In a container the group's folder is mounted as the root.
    write("memory.max", "1000000\n")
    assert group_bytes(tmp_path, "0::/not/visible\n") == 1_000_000


def test_version_1_has_other_names(tmp_path, write):
    write("memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n")
    assert group_bytes(tmp_path, BOTH) is None
    write("memory/memory.limit_in_bytes", "4000000\n")
    assert group_bytes(tmp_path, BOTH) == 4_000_000
    write("memory/jobs/7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert count_group_kills(tmp_path, BOTH) == 3


def test_what_is_available_is_the_least_of_the_machine_and_its_groups(tmp_path, write):
    memory = tmp_path / "meminfo"
    assert available_bytes(tmp_path, "", memory) is None
    memory.write_text("MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:  5000 kB\n")
    assert available_bytes(tmp_path, "0::/jobs/7\n", memory) == 5000 << 10
    write("jobs/7/memory.max", "max\n")
    write("jobs/7/memory.current", "900000\n")
    write("jobs/memory.max", "4000000\n")
    write("jobs/memory.current", "3000000\n")
    assert available_bytes(tmp_path, "0::/jobs/7\n", memory) == 1_000_000
    # Pages of files are given up when memory is needed.
    write("jobs/memory.stat", "anon 100\ninactive_file 500000\n")
    assert available_bytes(tmp_path, "0::/jobs/7\n", memory) == 1_500_000
    write("memory/x/memory.limit_in_bytes", "2000000\n")
    write("memory/x/memory.usage_in_bytes", "1900000\n")
    write("memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n")
    assert available_bytes(tmp_path, "4:memory:/x\n", memory) == 150_000


def test_kills_are_those_of_the_innermost_group(tmp_path, write):
    write("jobs/memory.events", "low 0\noom 9\noom_kill 9\n")
    assert count_group_kills(tmp_path, "0::/jobs/7\n") == 9
    write("jobs/7/memory.events", "low 0\noom 2\noom_kill 1\noom_group_kill 0\n")
    assert count_group_kills(tmp_path, "0::/jobs/7\n") == 1
