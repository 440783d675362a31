"""`lowtide view` as a person types it: the address it prints, what it serves, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

import lowtide
from tests.training_runs import finished_run, write_run
from tests.unit.protos import GRAPH, event, events, message, node


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "logs"
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "events.out.tfevents.1.host").write_bytes(events(event(message(4, GRAPH))))
    return folder


@contextmanager
def viewing(*arguments: str | Path):
    """Run the verb in a process of its own; yields the process and the first line that it prints."""
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", "lowtide", "view", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(lowtide.__file__).parent.parent)},
        # Where tests run in the background Ctrl-C is ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        yield program, program.stdout.readline()
    finally:
        program.kill()
        program.communicate()


def read(address: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def children_of(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").iterdir()
    return [int(text) for thread in threads for text in (thread / "children").read_text().split()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_address_is_printed_and_ctrl_c_ends_it(logs):
    with viewing(logs, "--port", "0") as (program, line):
        words = line.split()
        assert words[:2] == ["1", "graph:"]
        address = words[2]
        assert address.startswith("http://127.0.0.1:")
        status, page = read(address)
        assert status == 200
        assert b"<script" in page
        files = json.loads(read(f"{address}api/files")[1])["files"]
        assert [file["path"] for file in files] == ["run/events.out.tfevents.1.host"]
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
        assert (program.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_process_that_builds_ends_with_the_server(tmp_path, monkeypatch, end):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "graph.pb").write_bytes(b"".join(node(f"scope/n{number}", "Relu") for number in range(200_000)))
    with viewing(tmp_path / "graph.pb", "--port", "0") as (program, _):
        # The only graph is built at once, and this one takes a while.
        builders = children_of(program.pid)
        assert len(builders) == 1
        program.send_signal(end)
        program.wait(60)
        for _ in range(600):
            if not is_running(builders[0]):
                break
            time.sleep(0.1)
        assert not is_running(builders[0])
        assert list((tmp_path / "cache").glob("graphs/building-*")) == []
        if end != signal.SIGKILL:
            assert program.returncode == 0


def test_training_runs_are_counted_and_served(tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    for name in "ab":
        write_run(tmp_path / "runs" / name, finished_run())
    with viewing(tmp_path / "runs", "--port", "0") as (_, line):
        assert line.startswith("2 training runs: ")
        assert json.loads(read(f"{line.split()[3]}api/run/1")[1])["state"] == "finished"
    with viewing(tmp_path / "runs" / "a", "--port", "0") as (_, line):
        assert line.startswith("1 training run: ")


def test_json_is_one_line_with_the_address_and_the_files(logs):
    with viewing(logs, "--port", "0", "--json") as (_, line):
        answer = json.loads(line)
        assert answer["schema_version"] == 1
        assert [file["kind"] for file in answer["files"]] == ["events"]
        assert read(f"{answer['address']}api/graph/0.0")[0] == 200


def test_a_malformed_request_is_answered_like_any_other(logs):
    with viewing(logs, "--port", "0", "--json") as (_, line):
        port = int(json.loads(line)["address"].rstrip("/").rpartition(":")[2])
        for sent, status in (
            (b"nonsense\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n\r\n", 403),
            (b"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 403),
            (b"POST /api/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n", 405),
            (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
            (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(sent)
                head, _, body = b"".join(iter(lambda one=connection: one.recv(65536), b"")).partition(b"\r\n\r\n")
            assert f" {status} " in head.decode().splitlines()[0]
            assert b"Content-Security-Policy: default-src 'none'" in head
            assert set(json.loads(body)) == {"error", "cure"}


def test_a_silent_client_does_not_block_others(logs):
    with viewing(logs, "--port", "0", "--json") as (_, line):
        address = json.loads(line)["address"]
        port = int(address.rstrip("/").rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
        assert read(f"{address}api/files")[0] == 200
        for connection in silent:
            connection.close()


def test_a_port_that_is_taken_is_refused_in_one_line(logs, refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused("view", logs, "--port", port)
    assert "Address already in use" in line
    assert "--port" in line


def test_nothing_to_show_is_a_usage_error(tmp_path, refused, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk.pb").write_bytes(b"\xff" * 100)
    assert "nothing to show here" in refused("view", tmp_path / "empty")
    assert "no graph is in this file" in refused("view", tmp_path / "junk.pb")
    assert "no such file or folder" in refused("view", tmp_path / "nowhere")
    assert "neither a file nor a folder" in refused("view", "/dev/null")
    assert "Missing argument" in refused("view")
