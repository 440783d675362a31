"""The files of the cases: written once, and again when what writes them has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.common.cache import digest
from benchmarks.common.processes import run_module
from benchmarks.explore.generate import wrap_in_events, write_training, write_wide
from benchmarks.explore.suite import GraphCase

HERE = Path(__file__).parent
GENERATORS = (HERE / "block.py", HERE / "generate.py")
KERAS_GENERATORS = (HERE / "keras_graphs.py",)
EVENTS = "events.out.tfevents.1700000000.benchmark"
_KERAS_SECONDS = 3600.0
_REAL = {"step": "step/*tfevents*", "trace": "trace/*tfevents*", "saved": "saved", "frozen": "frozen.pb"}


def prepare(case: GraphCase, folder: Path) -> Path:
    """What is given to `lowtide view`; TensorBoard is given the folder of an event file."""
    if case.is_real:
        return next(_keras_graphs(folder).glob(_REAL[case.form]))
    own = folder / case.name
    path = own / (EVENTS if case.as_events else "graph.pb")
    stamp = f"{digest(*GENERATORS)} {case!r}"
    if not _is_written(own, stamp):
        print(f"  writing {path}", flush=True)
        _write(case, own / "graph.pb")
        if case.as_events:
            wrap_in_events(own / "graph.pb", path)
            (own / "graph.pb").unlink()
        (own / "stamp").write_text(stamp)
    return path


def _write(case: GraphCase, path: Path) -> None:
    with path.open("wb") as file:
        if case.form == "wide":
            write_wide(file, case.nodes)
        else:
            flat = case.form == "flat"
            write_training(file, case.nodes, flat=flat, hub=case.hub, weights_bytes=case.weights_bytes)


def _keras_graphs(folder: Path) -> Path:
    own = folder / "efficientnet"
    stamp = digest(*KERAS_GENERATORS)
    if not _is_written(own, stamp):
        print("  writing EfficientNetV2L's graphs, which takes TensorFlow some minutes", flush=True)
        result = run_module("benchmarks.explore.keras_graphs", [str(own)], {}, _KERAS_SECONDS)
        if "step_nodes" not in result:
            raise RuntimeError(f"EfficientNetV2L's graphs were not written: {result.get('failed', result)}")
        (own / "stamp").write_text(stamp)
    return own


def _is_written(folder: Path, stamp: str) -> bool:
    """Whether it is there as it should be; what is not is removed."""
    path = folder / "stamp"
    if path.exists() and path.read_text() == stamp:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return False
