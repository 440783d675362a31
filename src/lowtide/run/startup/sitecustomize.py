"""What Python runs before the user's script: it waits until the script imports TensorFlow, and records from then on.

The child is started as `python train.py args`, with nothing in between, so that the script cannot tell the difference:
`__main__`, tracebacks, multiprocessing and all else are Python's own. This file is found through PYTHONPATH and takes
itself out of it again. Until TensorFlow is there it imports nothing that Python has not imported by itself.
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
"""The environment variable that says what to record: steps, limit in bytes or nothing, folder."""


class AfterImport:
    """A finder that finds what the others find, and calls `action` once, right after that module was imported."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self.name = name
        self.action = action
        self._asking = False

    def install(self) -> None:
        """Be asked first from now on."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        # Another finder of this kind would ask this one again.
        if name != self.name or self._asking:
            return None
        self._asking = True
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
            spec: Any = next((spec for spec in found if spec is not None), None)
        finally:
            self._asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self)
        return spec

    def imported(self) -> None:
        """Take no further part in imports, and act."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self.action()


class _Loader:
    """A module's own loader, which tells when the module has been executed."""

    def __init__(self, loader: Any, after: AfterImport) -> None:
        self._loader = loader
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        # Nobody finds this loader in the module, neither now nor later.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._after.imported()


# Python leaves out the frames of the import system when an import fails; this is a frame of the import system.
_Loader.exec_module.__code__ = _Loader.exec_module.__code__.replace(
    co_filename="<frozen importlib._bootstrap_external>"
)


def _begin(note: str) -> None:
    steps, limit, folder = note.split(":", 2)
    own, process = os.path.dirname(os.path.abspath(__file__)), os.getpid()
    _leave_the_path(own)
    _run_the_other(own)

    def tensorflow_is_here() -> None:
        # A fork of the script is another program; only the script itself is recorded.
        if os.getpid() == process:
            _record(folder, int(steps), int(limit) if limit else None)

    AfterImport("tensorflow", tensorflow_is_here).install()


def _leave_the_path(own: str) -> None:
    """Let the script, and the processes that it starts, see the path that they would have seen."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(entries[1:] if entries[0] == own else entries)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        os.environ.pop("PYTHONPATH", None)
    if own in sys.path:
        sys.path.remove(own)
    sys.path_importer_cache.pop(own, None)


def _run_the_other(own: str) -> None:
    """Run the sitecustomize that Python would have run, if there is one."""
    this = sys.modules.pop("sitecustomize")
    site.execsitecustomize()
    # The import system wants to find a module of the name that it has just imported.
    sys.modules.setdefault("sitecustomize", this)


def _record(folder: str, steps: int, limit_bytes: int | None) -> None:
    import atexit

    script = _safely(folder, _import_script)
    if script is None:
        return
    if limit_bytes is not None:
        _safely(folder, script.limit_gpus, limit_bytes)
    if _safely(folder, script.begin, folder, steps):
        # Last in, first out: TensorFlow's own handlers, registered while it was imported, come after this one.
        atexit.register(_safely, folder, script.end, os.getpid())


def _import_script() -> Any:
    """Import lowtide from where this file is, wherever the script's own path leads."""
    from importlib import import_module

    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
    sys.path.insert(0, root)
    try:
        import_module("lowtide")
    finally:
        sys.path.remove(root)
    # By its name, because this room lies below the one where the program meets TensorFlow.
    return import_module("lowtide.tf.record.script")


def _safely(folder: str, action: Callable[..., Any], *arguments: object) -> Any:
    """Do something of lowtide's; whatever goes wrong is written down, and is no matter of the script's."""
    try:
        return action(*arguments)
    except Exception:
        import traceback

        with open(os.path.join(folder, "recorder-error.txt"), "a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        return None


if __name__ == "sitecustomize" and NOTE in os.environ:
    _begin(os.environ.pop(NOTE))
