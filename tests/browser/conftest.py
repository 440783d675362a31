"""A browser for every test of a page, and windows of any width."""

import shutil

import pytest

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


@pytest.fixture
def window(browser):
    """Make the window as wide as asked, narrower than Chromium itself allows if need be, light or dark."""

    def resize(width: int, *, dark: bool = False):
        metrics = {"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    yield resize
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
