"""Runs before the user's script, waits until it imports TensorFlow, and starts the recorder.

The child is started as `python train.py args`, so that `__main__`, tracebacks and multiprocessing are the same as
without lowtide. Python finds this file through PYTHONPATH; it removes itself from there. Until TensorFlow is imported
it imports nothing that Python has not imported already.
"""

from __future__ import annotations

import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NOTE = "LOWTIDE_RUN"
"""The environment variable with the module that records, the steps, the limit in bytes or nothing, and the folder."""


SEED = "LOWTIDE_SEED"
"""The environment variable with the seed for the generators of the script, if its choices must be the same again."""
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
"""The environment variable with the lowest severity of messages that TensorFlow writes, and a file with that number."""
WARNING = 1
"""The severity of the message in which the allocator says that it ran out of memory."""


class AfterImport:
    """A meta path finder that calls `action` once, right after the module `name` was imported.

    `prepare` is called right before that and returns a function, which is called when the import has ended or failed.
    """

    def __init__(
        self, name: str, action: Callable[[], object], prepare: Callable[[], Callable[[], object]] | None = None
    ) -> None:
        self.name = name
        self.action = action
        self.prepare = prepare
        self._asking = False

    def install(self) -> None:
        """Put this finder before all others."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        # Another finder of this class calls this one again.
        if name != self.name or self._asking:
            return None
        self._asking = True
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
            spec: Any = next((spec for spec in found if spec is not None), None)
        finally:
            self._asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _NotifyingLoader(spec.loader, self)
        return spec

    def imported(self) -> None:
        """Remove this finder and call the action."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self.action()


class _NotifyingLoader:
    """Wraps the loader of a module and reports when the module has been executed."""

    def __init__(self, loader: Any, after: AfterImport) -> None:
        self._loader = loader
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        # The module must not refer to this loader, neither now nor later.
        module.__loader__ = module.__spec__.loader = self._loader
        undo = self._after.prepare() if self._after.prepare is not None else None
        try:
            self._loader.exec_module(module)
        finally:
            if undo is not None:
                undo()
        self._after.imported()


# Python removes the frames of the import system from tracebacks; this makes exec_module one of them.
_NotifyingLoader.exec_module.__code__ = _NotifyingLoader.exec_module.__code__.replace(
    co_filename="<frozen importlib._bootstrap_external>"
)


def _begin(note: str) -> None:
    recorder, steps, limit, folder = note.split(":", 3)
    own, process = os.path.dirname(os.path.abspath(__file__)), os.getpid()
    _remove_from_path(own)
    if SEED in os.environ:
        _seed_generators(int(os.environ.pop(SEED)))
    _run_other_sitecustomize()

    def start_recorder() -> None:
        # Only the script itself is recorded, not its forks.
        if os.getpid() == process:
            _record(recorder, folder, int(steps), int(limit) if limit else None)

    if recorder:
        AfterImport("tensorflow", start_recorder, lambda: _log_warnings(folder, process)).install()


def _seed_generators(seed: int) -> None:
    """Seed the global generators of Python and NumPy as soon as their modules are imported."""

    def seed_module(name: str) -> None:
        sys.modules[name].seed(seed)

    def seed_when_imported(name: str) -> None:
        if name in sys.modules:
            seed_module(name)
        else:
            AfterImport(name, lambda: seed_module(name)).install()

    seed_when_imported("random")
    seed_when_imported("numpy.random")


def _log_warnings(folder: str, process: int) -> Callable[[], object]:
    """Make TensorFlow write its warnings, which lowtide reads and does not show; returns a function that undoes this.

    TensorFlow reads the level once, while it is imported.
    """
    given = os.environ.get(LOG_LEVEL, "")
    if os.getpid() != process or not given.strip().isdigit() or int(given) <= WARNING:
        return lambda: None
    with open(os.path.join(folder, LOG_LEVEL), "w", encoding="utf-8") as file:
        file.write(given)
    os.environ[LOG_LEVEL] = str(WARNING)

    def restore() -> None:
        os.environ[LOG_LEVEL] = given

    return restore


def _remove_from_path(own: str) -> None:
    """Restore the path that the script and its child processes would have without lowtide."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(entries[1:] if entries[0] == own else entries)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        os.environ.pop("PYTHONPATH", None)
    if own in sys.path:
        sys.path.remove(own)
    sys.path_importer_cache.pop(own, None)


def _run_other_sitecustomize() -> None:
    """Run the sitecustomize that Python would have run without lowtide, if there is one."""
    this = sys.modules.pop("sitecustomize")
    site.execsitecustomize()
    # The import system expects the module that it has just imported.
    sys.modules.setdefault("sitecustomize", this)


def _record(recorder: str, folder: str, steps: int, limit_bytes: int | None) -> None:
    import atexit

    module = _safely(folder, _import_recorder, recorder)
    if module is None:
        return
    if limit_bytes is not None:
        _safely(folder, module.limit_gpus, limit_bytes)
    if _safely(folder, module.begin, folder, steps):
        # Handlers run in reverse order, so this one runs before those that TensorFlow registered during its import.
        atexit.register(_safely, folder, module.end, os.getpid())


def _import_recorder(name: str) -> Any:
    """Import the recorder with the lowtide that this file belongs to, whatever the script's path is."""
    from importlib import import_module

    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
    sys.path.insert(0, root)
    try:
        import_module("lowtide")
    finally:
        sys.path.remove(root)
    return import_module(name)


def _safely(folder: str, action: Callable[..., Any], *arguments: object) -> Any:
    """Call a function of lowtide; an exception is written to a file and does not reach the script."""
    try:
        return action(*arguments)
    except Exception:
        import traceback

        with open(os.path.join(folder, "recorder-error.txt"), "a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        return None


if __name__ == "sitecustomize" and NOTE in os.environ:
    _begin(os.environ.pop(NOTE))
