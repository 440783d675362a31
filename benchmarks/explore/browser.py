"""Headless Chromium, as empty as it can be, and what it holds."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.explore.memory import count_others, family, shared_out_bytes, unfiled_bytes

RECORDER = Path(__file__).parent / "recorder.js"
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1400",
    "--disable-background-networking", "--disable-component-update", "--no-first-run",
)  # fmt: skip
# A browser that has just loaded something still allocates, and gives some of it back.
_SETTLE_SECONDS, _BETWEEN_LOOKS, _STEADY = 20.0, 0.5, 0.005
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class _Held:
    all_bytes: int
    unfiled_bytes: int


class Browser:
    """A window, and what the browser held when it was blank."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._blank = self._settled()

    def open(self, address: str) -> None:
        """Go to an address, from a page that has nothing to do with it; does not wait."""
        self._driver.get("about:blank")
        self._driver.get(address)

    def call(self, expression: str, *arguments: Any) -> Any:
        """What an expression gives in the page; a promise is waited for. The arguments are `given`."""
        script = (
            f"const given = arguments; const done = given[given.length - 1]; Promise.resolve({expression}).then(done)"
        )
        return self._driver.execute_async_script(script, *arguments)

    def wait_for(self, expression: str, seconds: float) -> Any:
        """The first value of an expression that is not nothing; None if there is none in time."""
        from selenium.common.exceptions import JavascriptException, TimeoutException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # The page may not have come so far, or be busy.
            with contextlib.suppress(JavascriptException, TimeoutException):
                if (value := self._driver.execute_script(f"return {expression}")) is not None:
                    return value
            time.sleep(_POLL_SECONDS)
        return None

    def text(self) -> str:
        """What can be read in the page."""
        return str(self._driver.execute_script("return document.body.innerText"))

    def busy_seconds(self) -> float:
        """The processor time of the page's own thread so far; unlike a clock it does not run while others work."""
        metrics = self._driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    def picture(self, path: Path) -> None:
        self._driver.save_screenshot(str(path))

    def added(self, prefix: str = "") -> dict[str, int]:
        """What the browser holds above what it held when it was blank, and whether another one was there too."""
        held = self._settled()
        return {
            f"{prefix}browser_bytes": held.all_bytes - self._blank.all_bytes,
            f"{prefix}browser_unfiled_bytes": held.unfiled_bytes - self._blank.unfiled_bytes,
            f"{prefix}other_browsers": count_others("chromium", self._processes()),
        }

    def _processes(self) -> list[int]:
        driver = self._driver.service.process.pid
        return [process for process in family(driver) if process != driver]

    def _settled(self) -> _Held:
        """What all its processes hold, once four looks in a row see the same."""
        seen: list[_Held] = []
        end = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < end:
            time.sleep(_BETWEEN_LOOKS)
            processes = self._processes()
            seen.append(_Held(shared_out_bytes(processes), unfiled_bytes(processes)))
            last = [held.unfiled_bytes for held in seen[-4:]]
            if len(last) == 4 and max(last) - min(last) <= _STEADY * max(last):
                break
        return seen[-1]


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser of its own, ended with the block."""
    from selenium import webdriver

    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"error: {' and '.join(missing)} not found; try: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.page_load_strategy = "none"
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(300)
        driver.execute_cdp_cmd("Page.enable", {})
        driver.execute_cdp_cmd("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        driver.execute_cdp_cmd("Performance.enable", {})
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": RECORDER.read_text()})
        driver.get("about:blank")
        yield Browser(driver)
    finally:
        driver.quit()


@lru_cache(maxsize=1)
def browser_version() -> str:
    """Of the Chromium that is here, in a word."""
    path = shutil.which("chromium")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout if path else ""
    return next((word for word in said.split() if word[:1].isdecimal()), "none")
