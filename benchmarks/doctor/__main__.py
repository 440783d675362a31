"""Does the doctor find the mistakes, and only those: snippets, fixes, articles, public code, speed.

python -m benchmarks.doctor                                  snippets and fixes; needs nothing else
python -m benchmarks.doctor --articles FOLDER --corpora FOLDER --peers FOLDER
python -m benchmarks.doctor --corpora FOLDER --part real     a part; may be repeated
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common.cache import cpu_model, setting
from benchmarks.common.report import Section, bars_markdown, to_markdown
from benchmarks.doctor.articles import measure_articles
from benchmarks.doctor.fixes import measure_fixes
from benchmarks.doctor.real import findings_markdown, measure_real
from benchmarks.doctor.snippets import measure_snippets
from benchmarks.doctor.speed import measure_speed

RESULTS = Path(__file__).parent / "results"
PARTS = ("snippets", "fixes", "articles", "real", "speed")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS, help="may be repeated; all of them without it")
    parser.add_argument("--articles", type=Path, help="folder of the five articles, *.txt in Markdown")
    parser.add_argument("--corpora", type=Path, help="folder of repositories, each in a folder OWNER+NAME")
    parser.add_argument("--peers", type=Path, help="a virtual environment with LibCST, TorchFix and pylint")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the table")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> Iterator[Section]:
    """The sections that are asked for and for which there is code."""
    parts = options.part or PARTS
    if "snippets" in parts:
        yield measure_snippets()
    if "fixes" in parts:
        yield measure_fixes()
    if "articles" in parts and options.articles is not None:
        yield measure_articles(options.articles)
    if "real" in parts and options.corpora is not None:
        yield from measure_real(options.corpora)
    if "speed" in parts and options.corpora is not None:
        yield measure_speed(options.corpora, options.peers)


def main() -> None:
    options = parse()
    found = []
    for section in measure(options):
        print(section.title, flush=True)
        found.append(section)
    print("\n" + "\n".join(bars_markdown(bar for section in found for bar in section.bars)))
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / ("part.md" if options.part else "table.md")
    described = {"python": platform.python_version(), "cpu": cpu_model(), "cores": setting()["cores"]}
    path.write_text(to_markdown(found, described, title="The doctor", unit="bytes"))
    if options.corpora is not None and not options.part:
        (options.results / "findings.md").write_text(findings_markdown(options.corpora))
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
