"""The files that `--html` writes of a difference, of shortages and of a forecast, in a real browser."""

from dataclasses import replace

import pytest

from lowtide.feed.forecast.forecast import Forecast, forecast
from lowtide.tide.diff import diff
from lowtide.units import parse_growth
from lowtide.view.html_page import render_html
from lowtide.view.page_data.difference import difference_data
from lowtide.view.page_data.forecast import forecast_data
from lowtide.view.page_data.shortage import shortage_data
from lowtide.view.reports.difference import DifferenceReport
from lowtide.view.reports.forecast import ForecastReport
from lowtide.view.reports.tide import TideReport
from tests.browser.viewer import ENTER, LEFT, RIGHT
from tests.conftest import WIDER, WIDER_CURVE, make_tide
from tests.unit.test_feed_forecast import PROCESSORS, over, source
from tests.unit.test_shortage import make_shortage

pytestmark = pytest.mark.browser

NASTY = "</script><img src=x onerror=alert(1)>"


def text(browser, selector: str = "main") -> str:
    return browser.find_element("css selector", selector).text


def rows(browser, label: str) -> list[list[str]]:
    script = f"return [...document.querySelectorAll(\"table[aria-label='{label}'] tbody tr\")]"
    return browser.execute_script(f"{script}.map((row) => [...row.cells].map((cell) => cell.textContent))")


@pytest.fixture
def wider():
    return make_tide(WIDER, WIDER_CURVE, peak_bytes=14080, safe_bytes=16384)


def difference_page(before, after) -> str:
    report = DifferenceReport(diff(before, after), TideReport(after, 1 << 14), parse_growth("5%"))
    return render_html("difference", difference_data(report))


def test_a_difference_shows_what_grew(open_html, tide, wider):
    browser = open_html(difference_page(tide, wider))
    answers = text(browser, ".answers")
    for part in ("+5.25 KiB", "8.5 KiB -> 13.8 KiB, +61.8%", "more than the 5% (435 B) allowed", "fits in 16 KiB"):
        assert part in answers
    assert rows(browser, "By layer")[0][:4] == ["↑ dense_3 (was dense)", "7.81 KiB", "12.6 KiB", "+4.79 KiB"]
    assert ["gradients", "1000 B", "900 B", "-100 B", ""] in rows(browser, "By kind")
    tensors = rows(browser, "dense_3 (was dense)")
    assert tensors[0] == ["↑ Relu", "dense_3/Relu:0", "float32 100×10 -> 200×10", "+3.91 KiB", "train.py:8"]
    chart = browser.find_element("css selector", ".chart.curves")
    chart.send_keys(RIGHT)
    assert "before\n8.5 KiB" in text(browser, ".chart.curves .tooltip")
    assert "after\n13.8 KiB" in text(browser, ".chart.curves .tooltip")


def test_a_shortage_shows_its_cause_and_what_to_do(open_html, tide):
    browser = open_html(render_html("shortage", shortage_data([make_shortage(tide=tide), make_shortage()])))
    page = text(browser)
    for part in ("2 of 2 · train.py", "The step is too large", "use a smaller batch", "free in one piece 60 MiB"):
        assert part in page
    assert rows(browser, "Buffers that held the memory")[0][:4] == ["500 MiB", "1", "500 MiB", "conv (Conv2D)"]
    (chart,) = browser.find_elements("css selector", ".chart.curve")
    assert text(browser, "h2.moment") == "At the peak: gradient of dense (MatMul)"
    chart.send_keys(LEFT, ENTER)
    assert "after event 3" in text(browser, "h2.moment")


def make_forecast() -> Forecast:
    return forecast(over("Prefetch", over("Shuffle", source(), buffer_size=400), buffer_size=4), PROCESSORS)


def forecast_page(shown: Forecast, target: str = "train.py:data") -> str:
    return render_html("forecast", forecast_data(ForecastReport(shown, target, 1 << 20)))


def test_a_forecast_lists_its_stages(open_html):
    shown = make_forecast()
    browser = open_html(forecast_page(shown))
    assert "Does not fit" in text(browser, ".answers")
    listed = rows(browser, "Stages")
    assert [row[0] for row in listed] == ["consumer", *(holding.name for holding in shown.holdings)]
    # The texts of the terminal.
    assert [row[1:] for row in listed] == [list(row[1:]) for row in shown.rows()]


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_they_fit_the_window_and_names_are_text(open_html, window, tide, wider, width, dark):
    window(width, dark=dark)
    nasty = replace(wider, target=NASTY, notes=(NASTY,))
    shortage = make_shortage(target=NASTY, notes=(NASTY,), tide=tide)
    pages = (
        difference_page(tide, nasty),
        render_html("shortage", shortage_data([shortage])),
        forecast_page(make_forecast(), NASTY),
    )
    for page in pages:
        browser = open_html(page)
        assert NASTY in text(browser, "h1")
        assert browser.find_elements("css selector", "img") == []
        overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.execute_script(overflow) == 0
        assert browser.execute_script("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
