"""The app of `lowtide view` without a server: it is called as a server would, and every answer is checked."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from wsgiref.validate import validator

from lowtide.view.server.api import Api
from lowtide.view.server.app import App, known_hosts
from lowtide.view.server.background import Background
from lowtide.view.server.indexes import Indexes
from lowtide.view.server.library import open_library


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Site:
    """Some paths, and the app that shows what is below them."""

    def __init__(self, *paths: Path, background: Background, **options: Any) -> None:
        self.background = background
        self.api = Api(open_library([str(path) for path in paths], background), Indexes(background))
        self.app = App(self.api, **({"hosts": known_hosts("127.0.0.1")} | options))

    def get(self, path: str, query: str = "", method: str = "GET", **headers: str | None) -> Reply:
        """Ask as a browser would."""
        environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "6007",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        sent = {"HTTP_HOST": "127.0.0.1:6007"} | {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        environ |= {name: value for name, value in sent.items() if value is not None}
        started: list[tuple[str, list[tuple[str, str]]]] = []
        content = validator(self.app)(environ, lambda status, sent, problem=None: started.append((status, sent)))
        body = b"".join(content)
        content.close()
        ((status, sent_back),) = started
        return Reply(int(status.split()[0]), {name.lower(): value for name, value in sent_back}, body)

    def ask(self, path: str, query: str = "") -> Any:
        """What is answered to a request that is fine."""
        reply = self.get(f"/api/{path}", query)
        assert reply.status == 200, reply
        return reply.data

    def refused(self, path: str, query: str = "", **more: Any) -> tuple[int, str]:
        """The status and the error of a request that is not."""
        reply = self.get(path, query, **more)
        assert reply.status >= 400
        assert set(reply.data) == {"error", "cure"}
        assert "\n" not in reply.data["error"]
        return reply.status, reply.data["error"]

    def until(self, path: str, is_so) -> Any:
        """Ask until something is so: files are read and indexes are built in another process."""
        for _ in range(600):
            answer = self.ask(path)
            if is_so(answer):
                return answer
            time.sleep(0.05)
        raise AssertionError(f"never so: {answer}")

    def open(self, graph: str) -> Any:
        """Wait for an index, and say what it holds."""
        return self.until(f"graph/{graph}", lambda answer: answer["state"] in ("ready", "failed"))


@contextmanager
def open_site(*paths: Path, **options: Any):
    background = Background()
    try:
        yield Site(*paths, background=background, **options)
    finally:
        background.close()
