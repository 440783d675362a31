"""The web server with real connections: slow and idle clients are dropped, and others are served meanwhile."""

import socket
import threading
import time
import urllib.request

import pytest

from lowtide.view.server import http_server
from lowtide.view.server.http_server import Server

# More than the server has connections.
MANY = 80


# More than the buffers of a connection hold.
LARGE = bytes(16 << 20)


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [LARGE if environ["PATH_INFO"] == "/large" else b"served"]


@pytest.fixture
def server():
    server = Server("127.0.0.1", 0, app)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def connect(server, content=b""):
    connection = socket.create_connection(server.server_address[:2], timeout=60)
    connection.sendall(content)
    return connection


def read(server):
    with urllib.request.urlopen(server.address, timeout=60) as answer:
        return answer.read()


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_slow_and_idle_clients_do_not_keep_others_from_being_served(server, sent):
    clients = [connect(server, sent) for _ in range(MANY)]
    assert [read(server) for _ in range(10)] == [b"served"] * 10
    for client in clients:
        client.close()
    assert read(server) == b"served"


def test_clients_that_receive_nothing_do_not_keep_others_from_being_served(server, monkeypatch):
    # Longer than the test waits for an answer.
    monkeypatch.setattr(http_server, "_SECONDS_TO_SEND", 600)
    clients = [connect(server, b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") for _ in range(MANY)]
    assert [read(server) for _ in range(10)] == [b"served"] * 10
    for client in clients:
        client.close()


def test_a_large_answer_arrives_whole(server):
    with urllib.request.urlopen(f"{server.address}large", timeout=60) as answer:
        assert len(answer.read()) == len(LARGE)


def test_a_request_that_never_ends_is_dropped(server, monkeypatch):
    monkeypatch.setattr(http_server, "_SECONDS_TO_ASK", 0.5)
    answer = None
    with connect(server, b"GET / HTTP/1.1\r\nX-Slow: ") as client:
        client.settimeout(0.05)
        # Each byte arrives in time; all of them together do not.
        while answer is None:
            try:
                client.sendall(b"x")
                answer = client.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.0 408")
    assert read(server) == b"served"


def test_clients_that_answer_nothing_end_when_the_time_is_over(server, monkeypatch):
    monkeypatch.setattr(http_server, "_SECONDS_TO_ASK", 0.2)
    with connect(server) as client:
        assert client.recv(1 << 16).startswith(b"HTTP/1.0 408")


def test_a_request_in_pieces_is_answered(server):
    answer = b""
    with connect(server) as client:
        for piece in (b"GET / HT", b"TP/1.1\r\nHost: 127.0.0.1", b"\r\n\r\n"):
            client.sendall(piece)
            time.sleep(0.05)
        while more := client.recv(1 << 16):
            answer += more
    assert answer.endswith(b"served")
