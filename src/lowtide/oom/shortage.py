"""A shortage: one allocation failure with its cause and what to do about it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from lowtide.oom.cause import OomCause, find_cause
from lowtide.oom.evidence import Evidence
from lowtide.tide.explain import LayerShare, share_by_layer

JSON_SCHEMA_VERSION = 1

UNKNOWN_KIND = "unknown"
"""The key in `by_kind` for buffers without a kind: the blocks of a log have sizes only."""

_HOLDER_FIELDS = (
    "bytes", "count", "name", "op", "layer", "kind", "dtype", "shape", "requested_bytes", "source",
)  # fmt: skip


@dataclass(frozen=True)
class CodeMistake:
    """A mistake in the user's code that the doctor knows."""

    code: str
    """The code of the doctor's rule."""
    source: str
    """The line, as in "train.py:66"."""
    message: str

    def __str__(self) -> str:
        return f"{self.code} at {self.source}: {self.message}; lowtide doctor --explain {self.code}"


@dataclass(frozen=True, kw_only=True)
class Shortage(Evidence):
    """The evidence of one allocation failure, explained."""

    target: str
    cause: OomCause
    mistakes: tuple[CodeMistake, ...] = ()
    """What in the code explains it, as far as the doctor finds that."""

    def by_kind(self) -> dict[str, int]:
        """Return the bytes that each kind held, largest first."""
        kinds: dict[str, int] = {}
        for holder in self.holders:
            kind = holder.kind or UNKNOWN_KIND
            kinds[kind] = kinds.get(kind, 0) + holder.bytes
        return dict(sorted(kinds.items(), key=lambda share: -share[1]))

    def by_layer(self) -> tuple[LayerShare, ...]:
        """Return what each layer held, largest first; empty if no layer is known."""
        if all(holder.layer is None for holder in self.holders):
            return ()
        return share_by_layer(self.holders, UNKNOWN_KIND)

    def to_dict(self, *, top: int = 10) -> dict[str, Any]:
        """Return the shortage as plain data with a `schema_version`; `top` limits the holders."""
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "target": self.target,
            "cause": asdict(self.cause),
            "mistakes": [asdict(mistake) for mistake in self.mistakes],
            "request": asdict(self.request),
            "limit_bytes": self.limit_bytes,
            "in_use_bytes": self.in_use_bytes,
            "peak_bytes": self.peak_bytes,
            "free_bytes": self.free_bytes,
            "largest_free_bytes": self.largest_free_bytes,
            "holders": [holder.to_dict(_HOLDER_FIELDS) for holder in self.holders[:top]],
            "holders_in_all": sum(holder.count for holder in self.holders),
            "by_kind": self.by_kind(),
            "by_layer": [asdict(share) for share in self.by_layer()],
            "batch_size": self.batch_size,
            "largest_batch_size": self.largest_batch_size,
            "planned_slowdown": self.planned_slowdown,
            "step": self.step,
            "samples": [list(sample) for sample in self.samples],
            "tide": None if self.tide is None else self.tide.to_dict(top=top),
            "notes": list(self.notes),
        }

    def to_json(self, *, top: int = 10, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(top=top), indent=indent)


def explain_evidence(evidence: Evidence, target: str) -> Shortage:
    """Return the evidence together with its cause and advice."""
    cause, facts = find_cause(evidence), dict(vars(evidence))
    if cause.name != "batch":
        # A smaller batch or a plan helps only if the step is too large.
        facts |= {"largest_batch_size": None, "planned_slowdown": None}
    if evidence.line is not None:
        facts["notes"] = (f"from line {evidence.line:,} of the log on", *evidence.notes)
    return Shortage(**facts, target=target, cause=cause)
