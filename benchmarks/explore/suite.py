"""What is shown: graphs of all sizes and forms, and what each is held to.

Nothing here imports TensorFlow; `benchmarks.explore.graphs` writes the files.
"""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 10**6


@dataclass(frozen=True)
class Limits:
    """What a graph may take: to be indexed, and on the page."""

    index_seconds: float
    index_bytes: int
    drawing_ms: float
    server_bytes: int
    browser_bytes: int
    expand_ms: float
    search_ms: float
    blocked_ms: float


MILLION = Limits(10, 150 * MEGABYTE, 2000, 250 * MEGABYTE, 200 * MEGABYTE, 300, 200, 200)
TEN_MILLION = Limits(100, 1000 * MEGABYTE, 3000, 375 * MEGABYTE, 300 * MEGABYTE, 450, 300, 300)

# Every screen is bounded by count, whatever it shows.
BOUNDED_DRAWING_MS = 2000.0
MOST_BOXES = 2000
MOST_GROWTH_BYTES = 10 * MEGABYTE
LEAST_FRAMES = 55.0
FUZZED_INPUTS = 100_000


@dataclass(frozen=True)
class BoundedScreen:
    """A screen that could have too much on it: a scope that is opened, or what a node reads."""

    name: str
    kind: str = "scope"
    """"scope", "inputs" (the nodes that a node reads) or "details" (a node that is selected)."""
    members: int | None = None
    """How many things it would hold if all were shown; None where the graph is asked."""


@dataclass(frozen=True)
class GraphCase:
    """A graph: its form, its size, and what is measured of it."""

    name: str
    form: str = "training"
    """"training", "flat", "wide", or a form of a real model: "step", "trace", "saved", "frozen"."""
    nodes: int = 0
    hub: int = 0
    weights_bytes: int = 0
    as_events: bool = False
    limits: Limits | None = None
    screens: tuple[BoundedScreen, ...] = ()
    has_page: bool = False
    """Whether it is opened, expanded and searched; the others are only opened."""
    is_crowded: bool = False
    """Whether as many boxes as the page draws are opened at once, and moved."""
    peer: str | None = None
    """Whether TensorBoard is given it too: "always", or where it takes minutes "large"."""

    @property
    def is_real(self) -> bool:
        return self.form in ("step", "trace", "saved", "frozen")


HUB_INPUTS = 10_059

CASES = (
    GraphCase("scopes-20k", nodes=20_000, as_events=True, has_page=True, peer="always"),
    GraphCase("scopes-100k", nodes=100_000, as_events=True, has_page=True, is_crowded=True, peer="always"),
    GraphCase("scopes-1m", nodes=1_000_000, as_events=True, has_page=True, limits=MILLION, peer="large"),
    GraphCase("scopes-10m", nodes=10_000_000, has_page=True, limits=TEN_MILLION),
    GraphCase("flat-100k", "flat", nodes=100_000, has_page=True),
    GraphCase("wide-10k", "wide", nodes=10_000, screens=(BoundedScreen("wide"),), is_crowded=True),
    GraphCase("wide-1m", "wide", nodes=1_000_000, has_page=True, screens=(BoundedScreen("wide"),)),
    GraphCase(
        "hub-10059",
        nodes=20_000,
        hub=HUB_INPUTS,
        screens=(
            BoundedScreen("hub"),
            BoundedScreen("hub/AddN", "inputs", HUB_INPUTS),
            BoundedScreen("hub/AddN", "details", HUB_INPUTS),
        ),
    ),
    GraphCase("weights-10mb", nodes=20_000, weights_bytes=10 * MEGABYTE),
    GraphCase("weights-1gb", nodes=20_000, weights_bytes=1000 * MEGABYTE),
    GraphCase(
        "efficientnet-step", "step", has_page=True, screens=(BoundedScreen("adam"),), is_crowded=True, peer="always"
    ),
    GraphCase("efficientnet-trace", "trace"),
    GraphCase("efficientnet-saved", "saved"),
    GraphCase("efficientnet-frozen", "frozen"),
)

# A part that takes a few minutes.
QUICK = ("scopes-20k", "wide-10k", "hub-10059", "weights-10mb")


def select(parts: list[str], quick: bool) -> list[GraphCase]:
    """The cases that were asked for by a part of their name; all of them where nothing was named."""
    chosen = [case for case in CASES if not parts or any(part.lower() in case.name for part in parts)]
    return [case for case in chosen if not quick or case.name in QUICK]
