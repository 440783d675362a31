"""The WSGI app: the page and its API, for `lowtide view` and for TensorBoard."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
from collections.abc import Iterable
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lowtide.errors import LowtideError
from lowtide.view.server.api import Api
from lowtide.view.server.queries import Parameters, Refusal
from lowtide.view.server.responses import (
    HTML,
    Response,
    data_response,
    encode_response,
    error_response,
    security_headers,
)

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": HTML,
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "md": "text/plain; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}
_METHODS = ("GET", "HEAD")
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
# A server that listens at every address of the machine is reached by any of them. A foreign page cannot use this:
# it cannot make a numeric address point to another server.
_ANY_ADDRESS = "any address"
# How many answers are computed at the same time; each takes tens of megabytes for a graph of millions of nodes.
_MOST_AT_ONCE = 4


class App:
    """Serves the page and its API.

    `hosts` are the host names under which a browser may reach the server; None leaves that check, and which pages may
    embed this one, to the program that contains this app. `prefix` is the path of the app in that program.
    """

    def __init__(self, api: Api, hosts: frozenset[str] | None, prefix: str = "") -> None:
        self._api = api
        self._hosts = hosts
        self._prefix = prefix
        self._security = security_headers(is_framed=hosts is None)
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # TensorBoard logs an error for a response without content, because it has no content type.
        known_tag = "" if self._hosts is None else environ.get("HTTP_IF_NONE_MATCH", "")
        response = encode_response(self._respond(environ), environ.get("HTTP_ACCEPT_ENCODING", ""), known_tag)
        start_response(response.status_line, [*response.headers, *self._security])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [response.content]

    def _respond(self, environ: WSGIEnvironment) -> Response:
        try:
            if environ.get("REQUEST_METHOD") not in _METHODS:
                allowed = ("Allow", ", ".join(_METHODS))
                return error_response(405, "this server is read-only", "use GET", allowed)
            self._check_sender(environ)
            return self._route(environ)
        except Refusal as refusal:
            return error_response(refusal.status, refusal.error, refusal.cure)
        except LowtideError as error:
            # `error.given` is left out: it may be a path of this machine.
            return error_response(422, error.problem, error.cure or "choose something else")
        except Exception as error:
            logging.getLogger(__name__).exception("lowtide could not answer %s", environ.get("PATH_INFO"))
            return error_response(500, f"the server failed ({type(error).__name__})", "reload the page, and report it")

    def _check_sender(self, environ: WSGIEnvironment) -> None:
        """Refuse requests that a foreign page makes the browser send."""
        if self._hosts is None:
            return
        if not is_known_host(environ.get("HTTP_HOST", ""), self._hosts):
            raise Refusal(403, "the server is not known by this name", "open the address that it printed")
        is_api = environ.get("PATH_INFO", "").startswith("/api/")
        if is_api and environ.get("HTTP_SEC_FETCH_SITE", "none") not in ("none", "same-origin"):
            raise Refusal(403, "only the page itself may call the API", "open the address that the server printed")

    def _route(self, environ: WSGIEnvironment) -> Response:
        path = environ.get("PATH_INFO", "")
        if not path.startswith(f"{self._prefix}/"):
            raise Refusal(404, "there is no such address", "open the page without it")
        first, *rest = path[len(self._prefix) + 1 :].split("/")
        if first == "api":
            parameters = Parameters(environ.get("QUERY_STRING", ""))
            with self._slots:
                return data_response(self._call_api(rest, parameters))
        if rest or (first or "index.html") not in self._page:
            raise Refusal(404, "there is no such page", "open the page without it")
        return self._page[first or "index.html"]

    def _call_api(self, path: list[str], parameters: Parameters) -> dict[str, Any]:
        api = self._api
        match path:
            case ["files"]:
                return api.files()
            case ["graph", name]:
                return api.graph(name)
            case ["graph", name, verb]:
                return api.query_graph(name, verb, parameters)
            case ["diff"]:
                return api.difference(parameters)
            case ["tide", name]:
                return api.tide(name, parameters)
            case ["plan", name]:
                return api.plan(name)
            case ["run", name]:
                return api.training_run(name)
        raise Refusal(404, "there is no such address", "reload the page")

    @cached_property
    def _page(self) -> dict[str, Response]:
        """The files of the page; nothing else is ever sent as a file."""
        folder = files("lowtide.view") / "page"
        return {
            file.name: Response(200, file.read_bytes(), _TYPES[ending])
            for file in (folder.iterdir() if folder.is_dir() else ())
            if (ending := file.name.rpartition(".")[2]) in _TYPES
        }


def known_hosts(host: str) -> frozenset[str]:
    """Return the host names under which a server that listens at `host` may be reached."""
    names = {f"[{host}]" if ":" in host else host.lower()}
    if host in ("0.0.0.0", "::", ""):
        names |= {_ANY_ADDRESS, socket.gethostname().lower()}
    return _LOOPBACK | names


def is_known_host(header: str, hosts: frozenset[str]) -> bool:
    """Whether a Host header names this server; another name that resolves to its address does not."""
    name, colon, port = header.lower().rpartition(":")
    if not colon or not port.isdecimal():
        name = header.lower()
    return name in hosts or (_ANY_ADDRESS in hosts and _is_address(name.strip("[]")))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
