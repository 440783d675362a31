"""Builds the index of a file's largest graph, in a process that does nothing else."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.explore.memory import peak_bytes
from lowtide.atlas.atlas import Source
from lowtide.atlas.index_cache import build_atlas
from lowtide.cache.folder import cache_folder
from lowtide.sources.graphs.find_graphs import find_graphs


def build(path: Path) -> dict[str, Any]:
    before = peak_bytes()
    start, busy = time.perf_counter(), time.process_time()
    found = find_graphs(path, cache_folder() / "converted")
    found_at = time.perf_counter()
    number, span = max(enumerate(found.spans), key=lambda pair: pair[1].end - pair[1].start)
    is_settled = found.kind == "events" and span.end <= span.path.stat().st_size
    atlas = build_atlas(Source(span.path, span.start, span.end, span.label, is_settled))
    end = time.perf_counter()
    return {
        "graph": number,
        "nodes": len(atlas),
        "edges": atlas.edge_count,
        "file_bytes": span.path.stat().st_size,
        "seconds": end - start,
        "finding_seconds": found_at - start,
        "busy_seconds": time.process_time() - busy,
        "peak_bytes": peak_bytes(),
        "before_bytes": before,
        "disk_bytes": sum(each.stat().st_size for each in atlas.folder.iterdir()),
        "notes": list(atlas.notes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.output.write_text(json.dumps(build(chosen.path)))


if __name__ == "__main__":
    main()
