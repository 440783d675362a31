"""HTTP responses: status, content, compression, and the headers that protect users of the page."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

JSON, HTML = "application/json", "text/html; charset=utf-8"

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "worker-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'"
)
_SECURITY = (
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
)
# Smaller responses fit into one packet anyway.
_LEAST_COMPRESSED = 1400


@dataclass(frozen=True)
class Response:
    """A response to a request."""

    status: int
    content: bytes
    content_type: str = JSON
    more_headers: tuple[tuple[str, str], ...] = ()

    @property
    def status_line(self) -> str:
        """The status code with its phrase."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        """All headers but those that protect the page."""
        if self.status == HTTPStatus.NOT_MODIFIED:
            return list(self.more_headers)
        about = ("Content-Type", self.content_type), ("Content-Length", str(len(self.content)))
        return [*about, *self.more_headers]

    @property
    def tag(self) -> str:
        """The entity tag of the content."""
        return f'"{hashlib.blake2b(self.content, digest_size=12).hexdigest()}"'


def security_headers(*, is_framed: bool) -> list[tuple[str, str]]:
    """Return the headers of every response; `is_framed` says that another page embeds this one on purpose."""
    if is_framed:
        return [("Content-Security-Policy", _CONTENT_POLICY), *_SECURITY]
    alone = ("Content-Security-Policy", f"{_CONTENT_POLICY}; frame-ancestors 'none'"), ("X-Frame-Options", "DENY")
    return [*alone, *_SECURITY]


def data_response(data: Any) -> Response:
    """Return data as a JSON response."""
    return Response(200, json.dumps(data, separators=(",", ":")).encode())


def error_response(status: int, error: str, cure: str, *headers: tuple[str, str]) -> Response:
    """Return an error response: what went wrong, and what to do."""
    content = json.dumps({"error": " ".join(error.split()), "cure": " ".join(cure.split())}).encode()
    return Response(status, content, more_headers=headers)


def encode_response(response: Response, encodings: str, known_tag: str) -> Response:
    """Return the response for a client: empty if it has the content already, compressed if it accepts gzip."""
    headers = (*response.more_headers, ("Vary", "Accept-Encoding"), ("Cache-Control", "no-cache"))
    if response.status == 200:
        headers = (*headers, ("ETag", response.tag))
        if known_tag == response.tag:
            return Response(304, b"", response.content_type, headers)
    content = response.content
    if len(content) >= _LEAST_COMPRESSED and _accepts_gzip(encodings):
        content, headers = gzip.compress(content, 1, mtime=0), (*headers, ("Content-Encoding", "gzip"))
    return Response(response.status, content, response.content_type, headers)


def _accepts_gzip(encodings: str) -> bool:
    for each in encodings.split(","):
        name, _, quality = each.replace(" ", "").partition(";q=")
        if name == "gzip":
            return not quality or quality.strip("0.") != ""
    return False
