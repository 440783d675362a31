"""The page of `lowtide view` as a tab of TensorBoard, which finds it by the entry point `tensorboard_plugins`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorboard.plugins import base_plugin

from lowtide.view.server.api import Api
from lowtide.view.server.app import App
from lowtide.view.server.background import Background
from lowtide.view.server.indexes import Indexes
from lowtide.view.server.library import Library, Root

NAME = "lowtide"

# Remote file systems, which only TensorFlow can read.
_REMOTE = re.compile(r"[a-zA-Z][0-9a-zA-Z.]*://")


class Loader(base_plugin.TBLoader):  # type: ignore[misc]  # TensorBoard has no types
    """Creates the plugin if there are logs on this machine."""

    def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin | None:
        """Return the plugin; None for no tab."""
        spec = getattr(context.flags, "logdir_spec", "") or ""
        roots = spec_roots(spec) if not context.logdir else log_roots(context.logdir)
        return LowtidePlugin(context, context.logdir or spec, roots) if roots else None


class LowtidePlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """Shows the graphs, tides, plans and training runs below TensorBoard's log folders."""

    plugin_name = NAME

    def __init__(self, context: base_plugin.TBContext, title: str, roots: list[Root]) -> None:
        super().__init__(context)
        background = Background()
        self._api = Api(Library(title, roots, background), Indexes(background))
        self._search_lock = threading.Lock()
        self._has_content = False
        # TensorBoard calls is_active when its page opens, and not again until it is reloaded: start looking now.
        self.is_active()

    def get_plugin_apps(self) -> dict[str, Callable[..., Any]]:
        """Return the app for all paths; TensorBoard checks the origin of requests."""
        app = App(self._api, hosts=None, prefix=f"/data/plugin/{NAME}")
        return {"/index.js": app, "/*": app}

    def is_active(self) -> bool:
        """Whether the last search found something to show; until one does, start another."""
        if not self._has_content and self._search_lock.acquire(blocking=False):
            threading.Thread(target=self._look_for_content, name="lowtide-content", daemon=True).start()
        return self._has_content

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the module and the name of the tab."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Lowtide")

    def _look_for_content(self) -> None:
        try:
            self._has_content = self._api.has_content()
        finally:
            self._search_lock.release()


def log_roots(logs: str) -> list[Root]:
    """Return the folder of `--logdir`."""
    return [] if _REMOTE.match(logs) else [_root("", logs)]


def spec_roots(spec: str) -> list[Root]:
    """Return the folders of `--logdir_spec`; each may have a name before a colon."""
    roots = []
    for text in filter(None, spec.split(",")):
        name, colon, path = text.partition(":")
        if _REMOTE.match(text) or _REMOTE.match(path):
            continue
        # As in TensorBoard: an entry that begins with a slash is a path that contains a colon.
        is_named = colon and not text.startswith("/")
        roots.append(_root(name, path) if is_named else _root(text, text))
    return roots


def _root(display_name: str, path: str) -> Root:
    return Root(Path(path).expanduser().absolute(), display_name)
