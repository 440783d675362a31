"""A browser for every test of a page, and windows of any width."""

import shutil
from contextlib import ExitStack

import pytest

from tests.browser.programs import TRAIN_STEP, WIDER_STEP, traced_run
from tests.browser.viewer import Viewer, atlas_of, serving
from tests.conftest import WIDER, WIDER_CURVE, make_recorded_tide, make_tide
from tests.plans import make_plan

NEEDED = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]


@pytest.fixture(scope="session")
def browser():
    if NEEDED:
        pytest.skip(f"{' and '.join(NEEDED)} not found: the page is not tested (apt install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1400"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def open_html(browser, tmp_path):
    """Show a page, and see at the end that it neither complained nor fetched anything."""

    def show(html: str):
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        browser.get(path.as_uri())
        return browser

    yield show
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    # A theme that was chosen is remembered for all files.
    browser.execute_script("localStorage.clear()")


@pytest.fixture
def window(browser):
    """Make the window as wide as asked, narrower than Chromium itself allows if need be, light or dark."""

    def resize(width: int, *, height: int = 1400, dark: bool = False):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    yield resize
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def complaints(browser) -> list[str]:
    """What the browser has to say about a page: errors, warnings, and what the page was not allowed to do."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def look(browser):
    """Open pages of a server; check at the end that they logged no error and sent no request to another host."""
    opened: list[Viewer] = []
    complaints(browser)

    def open_viewer(address: str, view: str = "") -> Viewer:
        opened.append(Viewer(browser, address))
        return opened[-1].open(view)

    yield open_viewer
    leave(browser, opened)


def leave(browser, opened: list[Viewer]) -> None:
    """Check the page that was opened last, and leave it."""
    assert complaints(browser) == []
    for viewer in opened[-1:]:
        asked = viewer.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        assert [name for name in asked if not name.startswith(viewer.address)] == []
    opened.clear()
    browser.get("about:blank")
    # A request on the way ends with the page.
    complaints(browser)


@pytest.fixture
def view(browser, look, tmp_path, monkeypatch):
    """Serve some paths for one test, and look at them."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    opened: list[Viewer] = []
    with ExitStack() as servers:

        def show(*paths, view: str = "") -> Viewer:
            address, _ = servers.enter_context(serving(*paths))
            opened.append(look(address, view))
            return opened[-1]

        yield show
        # Before its server stops: what the page asks afterwards is refused.
        leave(browser, opened)


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    """A folder with everything of one program, and how each file in it is numbered."""
    folder = tmp_path_factory.mktemp("logs")
    (folder / "a_train_step.pb").write_bytes(TRAIN_STEP)
    (folder / "b_wider_step.pb").write_bytes(WIDER_STEP)
    (folder / "c_run").mkdir()
    (folder / "c_run" / "events.out.tfevents.1.host").write_bytes(traced_run())
    make_recorded_tide().save(folder / "d_step.tide")
    make_tide(WIDER, WIDER_CURVE, peak_bytes=14080, safe_bytes=16384).save(folder / "e_wider.tide")
    make_plan().save(folder / "f_step.plan")
    return folder


@pytest.fixture(scope="module")
def site(logs, tmp_path_factory):
    """The address of a server for that folder, with all indexes built."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        with serving(logs) as (address, site):
            site.until("files", lambda answer: all(file["kind"] != "reading" for file in answer["files"]))
            for graph in ("0.0", "1.0", "2.0", "2.1", "2.2"):
                assert site.open(graph)["state"] == "ready"
            yield address


@pytest.fixture(scope="session")
def train_step(logs, tmp_path_factory):
    """The training step, read without the server."""
    return atlas_of(logs / "a_train_step.pb", tmp_path_factory.mktemp("atlas"))
