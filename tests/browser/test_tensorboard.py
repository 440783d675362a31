"""The tab of TensorBoard: a real one, which finds the plugin as it finds any other, in a real browser."""

import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

import lowtide
from tests.conftest import make_tide
from tests.unit.graph_bytes import TRAINING
from tests.unit.protos import event, events, message

pytestmark = pytest.mark.browser

PROJECT = Path(__file__).parent.parent.parent
ADDRESS = re.compile(r"http://\S+:\d+/")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The metadata of the installed project, which may be older than its sources."""
    points = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]["tensorboard_plugins"]
    folder = tmp_path_factory.mktemp("installed")
    facts = folder / "lowtide-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: lowtide\nVersion: 0.1.0\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[tensorboard_plugins]", *lines, ""]))
    return folder


@pytest.fixture(scope="module")
def tensorboard(installed, tmp_path_factory):
    """The address of a TensorBoard that shows a folder with one run and a tide."""
    pytest.importorskip("tensorboard")
    logs = tmp_path_factory.mktemp("logs")
    (logs / "run").mkdir()
    (logs / "run" / "events.out.tfevents.1.host").write_bytes(events(event(message(4, b"".join(TRAINING)))))
    make_tide().save(logs / "step.tide")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(Path(lowtide.__file__).parent.parent), str(installed))),
        "LOWTIDE_CACHE": str(tmp_path_factory.mktemp("cache")),
    }
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logs), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as program:
        try:
            found = next(filter(None, map(ADDRESS.search, filter(lambda line: "CTRL+C" in line, program.stderr))), None)
            assert found, "TensorBoard ended before it had an address"
            yield found[0]
        finally:
            program.terminate()
            program.stderr.close()


@pytest.fixture
def tab(browser, tensorboard):
    """The frame of the tab, open."""
    from selenium.webdriver.support.wait import WebDriverWait

    wait = WebDriverWait(browser, 60)
    browser.get_log("browser")
    browser.get(f"{tensorboard}#lowtide")
    frame = wait.until(lambda driver: driver.execute_script("return document.querySelector('iframe')"))
    browser.switch_to.frame(frame)
    yield wait
    browser.switch_to.default_content()
    complaints = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [text for text in complaints if "plugin/lowtide" in text] == []


def test_the_tab_lists_what_there_is_and_draws_the_graph_of_the_run(browser, tab):
    listed = "return [...document.querySelectorAll('.start .entry a.open')].map((each) => each.textContent)"
    tab.until(lambda driver: len(driver.execute_script(listed)) == 2)
    browser.find_element("css selector", ".start .entry.graph a.open").click()
    tab.until(lambda driver: driver.execute_script("return window.lowtide?.drawn().length > 0"))
    drawn = browser.execute_script("return window.lowtide.drawn().map(({ key, kind }) => [key, kind])")
    assert sorted(map(tuple, drawn)) == [
        ("adam", "scope"), ("dense", "scope"), ("gradient_tape", "scope"), ("lr", "node"), ("x", "node"),
    ]  # fmt: skip


def test_links_stay_in_the_tab(browser, tab):
    shown = "return document.querySelector('main')?.dataset.view"
    for link, view in (("Tide", "tide"), ("Start", "files"), ("Graph", "graph"), ("Start", "files")):
        tab.until(lambda driver, link=link: driver.find_elements("link text", link))
        browser.find_element("link text", link).click()
        tab.until(lambda driver, view=view: driver.execute_script(shown) == view)


def test_other_tabs_and_this_one_are_listed(tensorboard):
    with urllib.request.urlopen(f"{tensorboard}data/plugins_listing", timeout=60) as answer:
        listing = answer.read()
    assert b'"tab_name": "Lowtide"' in listing


def test_the_app_answers_only_below_its_prefix(tensorboard):
    with urllib.request.urlopen(f"{tensorboard}data/plugin/lowtide/api/files", timeout=60) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert b"step.tide" in answer.read()
