"""The page of `lowtide view` in a browser: what a user sees, clicks and types."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.index_cache import open_atlas
from lowtide.atlas.screens.screen import Screen
from lowtide.view.server.http_server import Server
from tests.unit.sites import Site, open_site

# Not a measure of anything: other programs may need the machine too.
PATIENCE_SECONDS = 30

ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
LEFT, UP, RIGHT, DOWN = "\ue012", "\ue013", "\ue014", "\ue015"


@contextmanager
def serving(*paths: Path) -> Iterator[tuple[str, Site]]:
    """A server for some paths: its address, and the site that it serves."""
    with open_site(*paths) as site, Server("127.0.0.1", 0, site.app) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.address, site
        finally:
            server.shutdown()
            thread.join()


def atlas_of(path: Path, cache: Path) -> Atlas:
    """The graph in a file that holds nothing else, read without the server."""
    return open_atlas(Source(path, 0, path.stat().st_size, "graph"), cache=cache)


class Viewer:
    """A page that is open."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser = browser
        self.address = address

    def open(self, view: str = "") -> Viewer:
        """Open an address as if it had been typed into a new window."""
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}{view}")
        return self

    # -- waiting ----------------------------------------------------------------------------------------

    def wait(self, is_so: Callable[[], Any], what: str = "") -> Any:
        """Wait until something is so; what is about to be replaced is looked for again."""
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        ignored = (NoSuchElementException, StaleElementReferenceException)
        wait = WebDriverWait(self.browser, PATIENCE_SECONDS, 0.05, ignored_exceptions=ignored)
        return wait.until(lambda _: is_so(), what)

    def wait_for_text(self, selector: str, words: str) -> str:
        """Wait until an element says something, and return all that it says."""
        return self.wait(lambda: words in (said := self.text(selector)) and said, f"{selector} never said: {words}")

    def wait_for_keys(self, *keys: str) -> None:
        """Wait until these are drawn."""
        self.wait(lambda: set(keys) <= self.keys(), f"never drawn: {keys}")

    # -- looking ----------------------------------------------------------------------------------------

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        return self.browser.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements, also of those that are out of sight."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def rows(self, selector: str) -> list[list[str]]:
        """The cells of all rows of a table."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map((r) => [...r.cells].map((c) => c.textContent))"
        )
        return self.run(script, selector)

    @property
    def hash(self) -> str:
        return self.run("return location.hash")

    def drawn(self) -> list[dict[str, Any]]:
        return self.run("return window.lowtide ? window.lowtide.drawn() : []")

    def keys(self) -> set[str]:
        return {box["key"] for box in self.drawn()}

    def edges(self) -> set[tuple[str, str, int]]:
        return {tuple(edge) for edge in self.run("return window.lowtide.edges()")}

    @property
    def selected(self) -> str | None:
        return self.run("return window.lowtide.state().selected")

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.run("return document.documentElement.scrollWidth - innerWidth")

    # -- doing ------------------------------------------------------------------------------------------

    def click(self, selector: str) -> None:
        self.find(selector).click()

    def press(self, label: str, within: str = "body") -> None:
        """Press the button that says so."""
        script = """
        return [...document.querySelector(arguments[1]).querySelectorAll('button, a, summary')]
            .find((each) => each.textContent.trim() === arguments[0] && each.checkVisibility()) ?? null
        """
        self.wait(lambda: self.run(script, label, within), f"no button says {label}").click()

    def choose(self, selector: str, label: str) -> None:
        """Choose the option that says so."""
        from selenium.webdriver.support.ui import Select

        self.wait(lambda: label in self.texts(f"{selector} option"), f"no option says {label}")
        Select(self.find(selector)).select_by_visible_text(label)

    def keyboard(self, *keys: str) -> None:
        """Type to whatever has the focus."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def point(self, key: str, clicks: int = 1) -> None:
        """Click on a box of the canvas, away from its sign for opening."""
        from selenium.webdriver.common.action_chains import ActionBuilder, ActionChains

        (box,) = (each for each in self.drawn() if each["key"] == key)
        actions: ActionBuilder = ActionChains(self.browser).w3c_actions
        actions.pointer_action.move_to_location(round(box["x"] + box["width"] - 14), round(box["y"] + 14))
        for _ in range(clicks):
            actions.pointer_action.click()
        actions.perform()

    def select(self, name: str) -> None:
        """Search for a node and choose it, whatever is open."""
        search = self.find("form.search > input")
        search.clear()
        search.send_keys(name)
        button = f".results button[title='{name}']"
        self.wait(lambda: self.find(button))
        self.click(button)
        self.wait(lambda: self.selected == name, f"never selected: {name}")
        self.wait_for_text(".details .path", name)


def shown_items(screen: Screen) -> set[tuple[str, str, str, int]]:
    """The items of a screen, as `Viewer.drawn` returns them."""
    return {(item.key, item.kind, item.label, item.nodes) for item in screen.items}


def shown_edges(screen: Screen) -> set[tuple[str, str, int]]:
    """The edges of a screen, as `Viewer.edges` returns them; what stays within one item is not drawn."""
    keys = [item.key for item in screen.items]
    return {(keys[start], keys[end], count) for start, end, count, *_ in screen.edges if start != end}


def drawn_items(viewer: Viewer) -> set[tuple[str, str, str, int]]:
    return {(box["key"], box["kind"], box["label"], box["count"]) for box in viewer.drawn()}
