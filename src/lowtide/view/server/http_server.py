"""The web server of `lowtide view`: the standard library's, with bounds on the resources a client can take."""

from __future__ import annotations

import contextlib
import errno
import io
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, TextIO, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from lowtide.errors import LowtideError
from lowtide.view.server.responses import error_response, security_headers

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    WsgiApp = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

# Fixed, so that a link still works after a restart; one above TensorBoard's port.
USUAL_PORT = 6007
_MOST_CONNECTIONS = 64
# A browser sends its request within milliseconds.
_SECONDS_TO_ASK = 10
_SECONDS_TO_SEND = 30
# The limit of the standard library's server.
_LONGEST_LINE = 65536


class _WsgiHandler(ServerHandler):
    """Runs the app for one request."""

    server_software = "lowtide"

    def finish_response(self) -> None:
        """Send the answer; from here on the client is waited for."""
        self.request_handler.server.note_client(self.request_handler.connection, is_waited_for=True)  # type: ignore[attr-defined]
        super().finish_response()


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a point in time, however many reads that takes."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _RequestHandler(WSGIRequestHandler):
    """Handles one request; a client that takes too long to send all of it is disconnected."""

    server_version = "lowtide"
    sys_version = ""

    def setup(self) -> None:
        """Give the client a limited time for its whole request."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_TimedReader(self.connection, _SECONDS_TO_ASK))

    def handle(self) -> None:
        """Read the request and answer it."""
        try:
            self._handle()
        except TimeoutError:
            self.requestline = self.command = ""
            self.send_error(HTTPStatus.REQUEST_TIMEOUT)

    def _handle(self) -> None:
        self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        if len(self.raw_requestline) > _LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            self._answer()

    def _answer(self) -> None:
        assert isinstance(self.server, Server)
        self.server.note_client(self.connection, is_waited_for=False)
        self.connection.settimeout(_SECONDS_TO_SEND)
        handler = _WsgiHandler(self.rfile, cast(IO[bytes], self.wfile), self.get_stderr(), self.get_environ())
        handler.request_handler = self  # type: ignore[attr-defined]  # as its parent expects
        handler.run(self.server.app)

    def log_message(self, *arguments: Any) -> None:
        """Log nothing: the terminal belongs to the user who started the server."""

    def get_stderr(self) -> TextIO:
        return io.StringIO()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request with an error in the same form as all other errors."""
        response = error_response(code, HTTPStatus(code).phrase.lower(), "use a browser")
        # The version of a malformed request is unknown, and HTTP/0.9 has no headers.
        self.request_version = "HTTP/1.0"
        self.send_response(code)
        for name, value in (*response.headers, *security_headers(is_framed=False)):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.content)


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """Starts a thread for each connection, up to a maximum.

    At the maximum, a new client takes the place of the one that has been sending its request, or receiving its answer,
    for the longest time: slow or idle clients cannot keep others from being served.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, app: WsgiApp) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._connections = 0
        self._waited_for: dict[socket.socket, None] = {}
        """The connections whose request or answer is incomplete, the oldest first."""
        self._ended = threading.Condition()
        self.app = app
        super().__init__((host, port), _RequestHandler)

    def server_bind(self) -> None:
        """Bind without looking up the host name, which can take a resolver many seconds."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread once there is room for a connection."""
        with self._ended:
            while self._connections >= _MOST_CONNECTIONS:
                oldest = next(iter(self._waited_for), None)
                if oldest is not None:
                    del self._waited_for[oldest]
                    _disconnect(oldest)
                self._ended.wait()
            self._connections += 1
            self._waited_for[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # The system has no thread left for this client.
            self._end_connection(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._end_connection(request)

    def _end_connection(self, connection: socket.socket) -> None:
        self.note_client(connection, is_waited_for=False)
        with self._ended:
            self._connections -= 1
            self._ended.notify()

    def note_client(self, connection: socket.socket, *, is_waited_for: bool) -> None:
        """Note whether a client is waited for: it is sending its request or receiving its answer."""
        with self._ended:
            self._waited_for.pop(connection, None)
            if is_waited_for:
                self._waited_for[connection] = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have disconnected."""

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        host, port = self.server_address[:2]
        name = socket.gethostname() if host in ("0.0.0.0", "::") else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def _disconnect(connection: socket.socket) -> None:
    """Let the thread that reads from a connection end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def open_server(host: str, port: int | None, app: WsgiApp) -> Server:
    """Return a listening server; without a port, at the usual one or at any that is free."""
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
