"""The messages in a line of a log: without what a collector puts around them, and with the process that wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from lowtide.oom.log_patterns import COLOURS

# Collectors that write a JSON object per line have the message under one of these names.
_MESSAGE_KEYS = ("log", "message", "msg", "text", "textPayload", "MESSAGE")
# The kubelet's and Docker's time, which says nothing about the writer.
_TIME = re.compile(rb"^\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) (?:std(?:err|out) [FP] )?")
# The prefixes of mpirun, Ray, docker compose, kubectl and launchers of one process per device.
_WRITER = re.compile(
    rb"^(?:\[[^\]\s]{1,80}\]<std(?:err|out)>: ?"
    rb"|\((?:[^()]{0,80}[ ,])?pid=\d{1,9}[^()]{0,80}\) ?"
    rb"|[\w.-]{1,80} +\| "
    rb"|\[pod/[^\]\s]{1,200}\] "
    rb"|\[(?:rank|host|worker) ?\d{1,6}\]:? ?)"
)


def split_line(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the messages of a line, each with the prefix that identifies its writer; b"" if there is none."""
    if b"\x1b" in line:
        line = COLOURS.sub(b"", line)
    for message in _unwrap(line):
        # A progress bar returns to the beginning of its line.
        for part in message.split(b"\r") if b"\r" in message else (message,):
            time = _TIME.match(part)
            text = part[time.end() :] if time else part
            writer = _WRITER.match(text)
            if writer is None:
                yield b"", text
            else:
                yield writer[0], text[writer.end() :]


def _unwrap(line: bytes) -> list[bytes]:
    """Return the lines of the message in a JSON object, after its other fields; other lines as they are."""
    if not line.startswith(b"{"):
        return [line]
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return [line]
    key = next((key for key in _MESSAGE_KEYS if isinstance(fields.get(key), str)), None)
    if key is None:
        return [line]
    message = fields.pop(key)
    return [json.dumps(fields).encode(), *message.encode("utf-8", "replace").split(b"\n")]
