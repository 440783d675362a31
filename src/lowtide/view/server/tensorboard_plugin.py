"""The page of `lowtide view` as a tab of TensorBoard, which finds it by the entry point `tensorboard_plugins`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorboard.plugins import base_plugin

from lowtide.view.server.api import Answers
from lowtide.view.server.app import App
from lowtide.view.server.background import Background
from lowtide.view.server.indexes import Indexes
from lowtide.view.server.library import Library, Root

NAME = "lowtide"

# Somebody else's disk: only TensorFlow can read there.
_REMOTE = re.compile(r"[a-zA-Z][0-9a-zA-Z.]*://")


class Loader(base_plugin.TBLoader):  # type: ignore[misc]  # TensorBoard has no types
    """Makes the plugin, where there are logs on this machine."""

    def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin | None:
        """The plugin; None is no tab."""
        spec = getattr(context.flags, "logdir_spec", "") or ""
        roots = spec_roots(spec) if not context.logdir else log_roots(context.logdir)
        return LowtidePlugin(context, context.logdir or spec, roots) if roots else None


class LowtidePlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """Graphs, tides and plans below TensorBoard's folder of logs."""

    plugin_name = NAME

    def __init__(self, context: base_plugin.TBContext, title: str, roots: list[Root]) -> None:
        super().__init__(context)
        background = Background()
        self._answers = Answers(Library(title, roots, background), Indexes(background))
        self._looking = threading.Lock()
        self._has_something = False
        # TensorBoard asks as soon as its page is open, and not again until somebody reloads it.
        self.is_active()

    def get_plugin_apps(self) -> dict[str, Callable[..., Any]]:
        """The whole app; who may ask is TensorBoard's to check."""
        app = App(self._answers, hosts=None, prefix=f"/data/plugin/{NAME}")
        return {"/index.js": app, "/*": app}

    def is_active(self) -> bool:
        """Whether there was something to show when it was last looked for; until there is, that begins again now."""
        if not self._has_something and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, name="lowtide-looking", daemon=True).start()
        return self._has_something

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """The tab."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Lowtide")

    def _look(self) -> None:
        try:
            self._has_something = self._answers.has_something()
        finally:
            self._looking.release()


def log_roots(logs: str) -> list[Root]:
    """The folder of `--logdir`."""
    return [] if _REMOTE.match(logs) else [_root("", logs)]


def spec_roots(spec: str) -> list[Root]:
    """The folders of `--logdir_spec`: several, and each may have a name before a colon."""
    roots = []
    for text in filter(None, spec.split(",")):
        name, colon, path = text.partition(":")
        if _REMOTE.match(text) or _REMOTE.match(path):
            continue
        # As TensorBoard has it: what begins with a slash is a path that has a colon.
        is_named = colon and not text.startswith("/")
        roots.append(_root(name, path) if is_named else _root(text, text))
    return roots


def _root(shown: str, path: str) -> Root:
    return Root(Path(path).expanduser().absolute(), shown)
