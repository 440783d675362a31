"""The web server of `lowtide view`: Python's own, with bounds on what a client can make it hold."""

from __future__ import annotations

import errno
import io
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, TextIO, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from lowtide.errors import LowtideError
from lowtide.view.server.responses import error_response, security_headers

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    App = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

# Beside TensorBoard's, so that a link still works when the server is started again.
USUAL_PORT = 6007
_MOST_CONNECTIONS = 64
_SECONDS_TO_ASK = 30
# What Python's own server reads of a line.
_LONGEST_LINE = 65536


class _Answering(ServerHandler):
    """Runs the app for one request."""

    server_software = "lowtide"


class _Handler(WSGIRequestHandler):
    """One request; whoever takes too long to send it is left."""

    timeout = _SECONDS_TO_ASK
    server_version = "lowtide"
    sys_version = ""

    def handle(self) -> None:
        """Read the request, and have it answered."""
        self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        if len(self.raw_requestline) > _LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            self._answer()

    def _answer(self) -> None:
        assert isinstance(self.server, Server)
        handler = _Answering(self.rfile, cast(IO[bytes], self.wfile), self.get_stderr(), self.get_environ())
        handler.request_handler = self  # type: ignore[attr-defined]  # as its parent expects
        handler.run(self.server.app)

    def log_message(self, *arguments: Any) -> None:
        """The terminal is for the person who started the server."""

    def get_stderr(self) -> TextIO:
        return io.StringIO()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is not even a request, as all else is answered."""
        response = error_response(code, HTTPStatus(code).phrase.lower(), "ask with a browser")
        # Of a request that cannot be read the version is unknown, and the oldest one has no headers.
        self.request_version = "HTTP/1.0"
        self.send_response(code)
        for name, value in (*response.headers, *security_headers(is_framed=False)):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.content)


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A thread for each request, but only so many."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, app: App) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._connections = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.app = app
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind, without the question for the machine's name that can take a resolver many seconds."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, once there is room for it."""
        self._connections.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is nobody's problem."""

    @property
    def address(self) -> str:
        """What to open in a browser."""
        host, port = self.server_address[:2]
        name = socket.gethostname() if host in ("0.0.0.0", "::") else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def open_server(host: str, port: int | None, app: App) -> Server:
    """A server that listens; at the usual port, or any that is free, if none is asked for."""
    try:
        if port is not None:
            return Server(host, port, app)
        try:
            return Server(host, USUAL_PORT, app)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return Server(host, 0, app)
    except OSError as error:
        given = host if port is None else f"{host}, port {port}"
        cure = "choose another --port, or leave it out" if port is not None else "choose another --host"
        raise LowtideError(f"cannot listen: {error.strerror}", given=given, cure=cure) from error
