"""Leaks of graph mode: a graph to which each step adds ops, and sessions that are never closed."""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import Any

from lowtide.tf.call_stack import user_line
from lowtide.tf.trace.source_lines import find_user_line
from lowtide.tf.watch.finding import Finding
from lowtide.tide.growth import find_growth
from lowtide.units import format_count

# One session for training and one for evaluation are usual.
_MIN_SESSIONS = 4
_MIN_SAMPLES = 8


class SessionMonitor:
    """The number of ops of the graphs that sessions run, at each sample, and the sessions that were opened."""

    def __init__(self) -> None:
        self.sessions: list[tuple[weakref.ref, int, str | None]] = []
        self.sizes: weakref.WeakKeyDictionary[Any, list[tuple[int, int]]] = weakref.WeakKeyDictionary()

    def note_session(self, session: Any, step: int) -> None:
        self.sessions = [entry for entry in self.sessions if entry[0]() is not None]
        self.sessions.append((weakref.ref(session), step, user_line()))

    def note_run(self, session: Any, step: int) -> None:
        self.sizes.setdefault(session.graph, []).append((step, session.graph.num_operations()))

    def findings(self, growth: int | None) -> list[Finding]:
        return self._open_sessions(growth) + self._growing_graphs(growth)

    def _open_sessions(self, growth: int | None) -> list[Finding]:
        alive = [(entry[0](), *entry[1:]) for entry in self.sessions]
        still_open = [(step, line) for session, step, line in alive if session is not None and not _is_closed(session)]
        if len(still_open) < _MIN_SESSIONS or len({step for step, _ in still_open}) < _MIN_SESSIONS - 1:
            return []
        return [
            Finding(
                "open sessions",
                f"{format_count(len(still_open), 'session is', 'sessions are')} open, and more are"
                " opened; each holds its variables",
                "sessions that are created and not closed",
                still_open[-1][1],
                growth,
                "create one session and use it for all steps, or write `with tf.compat.v1.Session() as session:`",
            )
        ]

    def _growing_graphs(self, growth: int | None) -> list[Finding]:
        found = []
        for graph, sizes in list(self.sizes.items()):
            if not _grows(sizes):
                continue
            per_step = (sizes[-1][1] - sizes[0][1]) / (sizes[-1][0] - sizes[0][0])
            newest = graph.get_operations()[-1]
            found.append(
                Finding(
                    "growing graph",
                    f"the graph has {sizes[-1][1]:,} ops and grows by {per_step:.3g} in each step",
                    f"the loop adds ops such as `{newest.name}` ({newest.type})",
                    find_user_line(newest),
                    growth,
                    "build all ops before the loop and only run them inside it;"
                    " graph.finalize() before the loop raises where an op is added",
                )
            )
        return found


def _is_closed(session: Any) -> bool:
    return bool(session._closed or getattr(session, "_explicitly_closed", False))


def _grows(sizes: list[tuple[int, int]]) -> bool:
    if len(sizes) < _MIN_SAMPLES or sizes[-1][0] == sizes[0][0]:
        return False
    last = [ops for _, ops in sizes[-_MIN_SAMPLES:]]
    return find_growth(sizes) is not None or all(a < b for a, b in pairwise(last))
