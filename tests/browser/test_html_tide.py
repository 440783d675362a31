"""The file that `--html` writes of a tide, in a real browser."""

from dataclasses import replace

import pytest

from lowtide.units import format_bytes
from lowtide.view.reports.tide import LargestBatch, TideReport
from tests.browser.viewer import ENTER, LEFT, RIGHT, UP
from tests.pages import tide_page

pytestmark = pytest.mark.browser

FOUND, SPACE = "[aria-label='How this was found']", "[aria-label='Address space']"
PREDICTED = ".chart.curve [data-name='overlay predicted']"


@pytest.fixture
def open_page(open_html):
    return lambda report: open_html(tide_page(report))


def text(browser, selector: str) -> str:
    return browser.find_element("css selector", selector).text


def rows(browser) -> list[list[str]]:
    script = "return [...document.querySelectorAll('.listing tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    return browser.execute_script(script)


def point_to(browser, event: int, events: int, *, click: bool = False):
    """Move the pointer to where an event is drawn."""
    from selenium.webdriver import ActionChains

    chart = browser.find_element("css selector", ".chart.curve")
    line = browser.execute_script(
        "return [...document.querySelector('.chart.curve [data-name=grid]').points].map((point) => point.x)"
    )
    x = line[0] + (line[1] - line[0]) * event / (events - 1)
    actions = ActionChains(browser).move_to_element_with_offset(chart, round(x - chart.size["width"] / 2), 20)
    (actions.click() if click else actions).perform()


def test_it_shows_the_answer(open_page, tide):
    browser = open_page(TideReport(tide, 10240, LargestBatch(6, 10000)))
    assert browser.title == "train.py:build · batch 5 · lowtide"
    answers = text(browser, ".answers")
    for part in ("8.5 KiB", "9 KiB", "Fits", "fits in 10 KiB, with 1 KiB to spare", "gradient of dense (MatMul)"):
        assert part in answers
    assert "FancyOp ×2" in text(browser, FOUND)
    assert text(browser, "h2.moment") == "At the peak: gradient of dense (MatMul)"
    # One area for each kind of memory that the step holds.
    drawn = browser.find_elements("css selector", ".chart.curve .ground polygon")
    assert len(drawn) == 7


@pytest.mark.parametrize(("budget", "words"), [(9000, "May run out"), (8000, "Does not fit")])
def test_it_says_when_it_does_not_fit(open_page, tide, budget, words):
    browser = open_page(TideReport(tide, budget, LargestBatch(0, None)))
    assert text(browser, ".answer.exceeds .value") == words
    assert "not even a batch of 1" in text(browser, ".answers")


def test_pointing_reads_a_moment(open_page, tide):
    browser = open_page(TideReport(tide))
    assert not browser.find_element("css selector", ".chart.curve .tooltip").is_displayed()
    point_to(browser, 2, 7)
    tooltip = text(browser, ".chart.curve .tooltip")
    assert "8 KiB after event 2" in tooltip
    assert "dense/MatMul" in tooltip
    assert "300 B" in tooltip


def test_clicking_shows_what_is_alive_there_and_there_is_a_way_back(open_page, tide):
    browser = open_page(TideReport(tide))
    assert [row[4] for row in rows(browser)] == ["4 KiB", "2 KiB", "1 KiB", "1 KiB", "512 B"]
    point_to(browser, 5, 7, click=True)
    assert "after event 5" in text(browser, "h2.moment")
    assert rows(browser)[0][2] == "adam/dense_kernel_velocity:0"
    assert "dense/Relu:0" not in [row[2] for row in rows(browser)]
    assert "activations" not in text(browser, ".by-kind")
    browser.find_element("xpath", "//button[text()='Back to the peak']").click()
    assert "dense/Relu:0" in [row[2] for row in rows(browser)]


def test_the_keyboard_moves_through_the_step(open_page, tide):
    browser = open_page(TideReport(tide))
    chart = browser.find_element("css selector", ".chart.curve")
    chart.send_keys(LEFT, ENTER)
    assert "after event 3" in text(browser, "h2.moment")
    chart.send_keys(RIGHT, RIGHT, ENTER)
    assert "after event 5" in text(browser, "h2.moment")


def test_the_table_sorts_and_filters(open_page, tide):
    browser = open_page(TideReport(tide))
    head = browser.find_element("css selector", "th.column-bytes button")
    head.click()
    assert [row[4] for row in rows(browser)] == ["512 B", "1 KiB", "1 KiB", "2 KiB", "4 KiB"]
    browser.find_element("css selector", "th.column-tensor button").click()
    names = [row[2] for row in rows(browser)]
    assert names == sorted(names)
    browser.find_element("css selector", "input[type=search]").send_keys("train.py relu")
    assert [row[2] for row in rows(browser)] == ["dense/Relu:0"]


def test_amounts_are_written_as_everywhere_else(open_page, tide_factory):
    sizes = [0, 1, 1023, 1024, 1536, 10188, 10240, 102400, 2**20 - 1, 2**20, 123456789, 2**30 - 1, 6 * 2**30 + 7, 2**44]
    # Half-way between two digits.
    sizes = sorted([*sizes, 1152, 1408, 10496, 11008])
    made = [(f"t{size}:0", "Op", None, "other", "uint8", (size,), size, size, 0, 1, None) for size in sizes]
    tide = tide_factory(rows=made, curve=[sum(sizes)], node=[0], nodes=[], peak_bytes=sum(sizes), safe_bytes=sum(sizes))
    browser = open_page(TideReport(tide))
    assert [row[4] for row in rows(browser)] == [format_bytes(size) for size in reversed(sizes)]


def test_names_are_shown_as_text(open_page, tide):
    nasty = "</script><img src=x onerror=alert(1)>"
    buffers = replace(tide.buffers, layer=[nasty] * len(tide.buffers), name=[nasty] * len(tide.buffers))
    browser = open_page(TideReport(replace(tide, target=nasty, notes=(nasty,), buffers=buffers)))
    assert text(browser, "h1").startswith(f"{nasty} · batch 5")
    assert rows(browser)[0][2] == nasty
    assert browser.find_elements("css selector", "img") == []


def test_light_and_dark(open_page, tide):
    browser = open_page(TideReport(tide))
    shade = "return getComputedStyle(document.body).backgroundColor"
    first = browser.execute_script(shade)
    browser.find_element("css selector", "[aria-label='Light or dark']").click()
    assert browser.execute_script(shade) != first


@pytest.mark.parametrize("width", [500, 800, 1920])
def test_it_fits_the_window(open_page, tide, width):
    from selenium.webdriver.support.ui import WebDriverWait

    browser = open_page(TideReport(tide, 10240))
    browser.set_window_size(width, 900)
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(overflow) == 0
    # The curve is drawn anew in the frame after the window changed.
    chart = "document.querySelector('.chart.curve')"
    is_drawn = f"return {chart}.querySelector('svg').viewBox.baseVal.width == {chart}.clientWidth"
    WebDriverWait(browser, 10).until(lambda browser: browser.execute_script(is_drawn))
    browser.set_window_size(1280, 1400)


def point_to_buffer(browser, name: str, *, aside: int = 0, click: bool = False) -> None:
    """Move the pointer to the middle of a buffer in the address space, or `aside` of it."""
    from selenium.webdriver import ActionChains

    chart = browser.find_element("css selector", ".chart.space")
    x, y = browser.execute_script(
        """
        // Scrolled before the pointer moves: a page that scrolls under the pointer moves it too.
        const element = document.querySelector(".chart.space");
        const { data } = JSON.parse(document.getElementById("data").textContent);
        element.scrollIntoView({ block: "center", behavior: "instant" });
        const { tiles } = data.space;
        const tile = tiles.row.findIndex((row) => data.buffers.name[row] === arguments[0]);
        const chart = element.getBoundingClientRect();
        // The margins of the chart: 76 to the left, 12 above and to the right, 26 below.
        const [width, height] = [chart.width - 88, chart.height - 38];
        const x = 76 + width * (tiles.born[tile] + tiles.died[tile]) / 2 / data.curve.events;
        const y = 12 + height * (1 - (tiles.low[tile] + tiles.high[tile]) / 2);
        return [x - chart.width / 2, y - chart.height / 2];
        """,
        name,
    )
    actions = ActionChains(browser).move_to_element_with_offset(chart, round(x) + aside, round(y))
    (actions.click() if click else actions).perform()


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_pointing_at_the_address_space_names_the_buffer(open_page, window, recorded_tide, tide, width, dark):
    from selenium.webdriver.support.ui import WebDriverWait

    window(width, dark=dark)
    browser = open_page(TideReport(recorded_tide, predicted=tide))
    for name, words in [
        ("dense/Relu:0", ("dense\n", "float32 100×10", "4 KiB", "activations", "events 1 to 5")),
        ("x:0", ("512 B", "input", "events 0 to 7")),
    ]:
        point_to_buffer(browser, name)
        WebDriverWait(browser, 10).until(lambda browser, name=name: name in text(browser, ".chart.space .tooltip"))
        for word in words:
            assert word in text(browser, ".chart.space .tooltip")
    assert "Predicted" in text(browser, ".answers")
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(overflow) == 0
    tooltip = "document.querySelector('.chart.space .tooltip')"
    left, right = browser.execute_script(f"const box = {tooltip}.getBoundingClientRect(); return [box.left, box.right]")
    assert 0 <= left < right <= width
    dark_page = "return document.documentElement.dataset.theme"
    assert browser.execute_script(dark_page) == ("dark" if dark else "light")


def test_the_keyboard_reads_the_address_space(open_page, recorded_tide):
    browser = open_page(TideReport(recorded_tide))
    chart = browser.find_element("css selector", ".chart.space")
    assert "512 B are free after event 4; the largest block is 512 B" in text(browser, SPACE)
    chart.send_keys(UP)  # from the lowest address on
    read = "return document.querySelector('.chart.space').nextElementSibling.textContent"
    assert browser.execute_script(read) == "dense/Relu:0, activations, dense, float32 100×10, 4 KiB, events 1 to 5"
    chart.send_keys(UP)
    assert browser.execute_script(read).startswith("adam/dense_kernel_velocity:0, optimizer")
    chart.send_keys(RIGHT)  # the next moment, here and in the curve
    assert "4.5 KiB are free after event 5; the largest block is 4 KiB" in text(browser, SPACE)
    assert "after event 5" in text(browser, "h2.moment")
    assert "addresses over the step, 9 KiB" in chart.get_attribute("aria-label")


def test_clicking_in_the_address_space_chooses_the_moment(open_page, recorded_tide):
    browser = open_page(TideReport(recorded_tide))
    point_to_buffer(browser, "gradient_tape/MatMul:0", aside=4, click=True)
    assert "after event 5" in text(browser, "h2.moment")


def test_a_predicted_step_shows_no_address_space_and_a_prediction_is_a_line(open_page, recorded_tide, tide):
    browser = open_page(TideReport(tide))
    assert browser.find_elements("css selector", SPACE) == []
    assert browser.find_elements("css selector", PREDICTED) == []
    browser = open_page(TideReport(recorded_tide, predicted=tide))
    assert browser.find_element("css selector", SPACE).is_displayed()
    (line,) = browser.find_elements("css selector", PREDICTED)
    assert len(line.get_attribute("points").split()) == 7
    assert "within 0.1% of the recorded peak" in text(browser, ".answers")
    assert "recorded in step 12; the peaks of steps 11 to 13" in text(browser, ".answers")
    assert "building" not in text(browser, FOUND)
