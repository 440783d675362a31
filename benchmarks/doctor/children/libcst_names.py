"""Finds the full names of all calls with LibCST's providers, in two processes; it runs where LibCST is installed."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def count_names(path: Path) -> int:
    import libcst
    from libcst.metadata import MetadataWrapper, QualifiedNameProvider, ScopeProvider

    try:
        wrapper = MetadataWrapper(libcst.parse_module(path.read_bytes()))
        wrapper.resolve(ScopeProvider)
        return len(wrapper.resolve(QualifiedNameProvider))
    except (libcst.ParserSyntaxError, RecursionError, UnicodeDecodeError):
        return 0


if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(count_names, sorted(Path(sys.argv[1]).glob("*.py")), chunksize=8)))
