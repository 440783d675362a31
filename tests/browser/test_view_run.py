"""Training runs in the page of `lowtide view`, and in the file that `--html` writes."""

from itertools import pairwise

import pytest

from lowtide.run.train.history import RunEnded
from lowtide.view.html_page import render_html
from lowtide.view.page_data.training_run import training_run_data
from lowtide.view.reports.training_run import read_run_report
from tests.browser.viewer import LEFT, RIGHT
from tests.training_runs import BEGAN, ended, epoch, finished_run, long_run, started, write_run

pytestmark = pytest.mark.browser

ATTEMPTS = "table[aria-label='Attempts'] tbody tr"
BARS = ".bar-of-attempt"


@pytest.fixture
def show(view, tmp_path):
    """Show a run."""

    def open_run(events):
        directory = write_run(tmp_path / "a", events)
        viewer = view(directory.folder)
        viewer.wait_for_text("h1", "train.py --epochs 6")
        return viewer, directory

    return open_run


def boxes(viewer, selector: str) -> list[dict[str, float]]:
    """Where elements are drawn."""
    script = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".map((each) => each.getBoundingClientRect()).map(({ left, right, top }) => ({ left, right, top }))"
    )
    return viewer.run(script, selector)


def test_a_run_shows_what_ended_each_attempt_and_what_was_changed(show):
    viewer, _ = show(finished_run())
    # The only run opens at once.
    assert viewer.hash == "#run/0"
    assert viewer.texts(".answers .value") == ["Finished", "600 steps", "7.3 GiB", "step 600"]
    bars = boxes(viewer, BARS)
    assert len(bars) == 4
    # One after the other, each below the one before it.
    for bar, following in pairwise(bars):
        assert bar["left"] < bar["right"] <= following["left"] + 1
        assert bar["top"] < following["top"]
    # The night between the last two is drawn shorter.
    assert bars[3]["left"] - bars[2]["right"] < bars[2]["right"] - bars[2]["left"]
    assert viewer.texts(".between") == [
        "→ steps are planned for 7.44 GiB: the device's memory ran out with steps planned for 8 GiB",
        "→ the same settings, from the last checkpoint: the process was killed by something else",
        "→ continued after 12 h 00 min",
    ]
    assert len(viewer.find_all(".timeline .tick")) == 8
    assert len(viewer.find_all(".timeline .restored")) == 3
    colours = viewer.run(f"return [...document.querySelectorAll('{BARS}')].map((each) => each.style.backgroundColor)")
    assert len(set(colours)) == 4
    rows = viewer.rows(ATTEMPTS)
    assert [(row[0], *row[2:5]) for row in rows][1:] == [
        ("2", "1 min 19 s", "step 150", "killed: the process was killed by SIGKILL"),
        ("3", "3 min 39 s", "step 200", "interrupted: by SIGINT"),
        ("4", "2 min 05 s", "step 450", "finished"),
    ]
    assert rows[0][5:] == [
        "the step is too large: 480.5 MiB was asked for",
        "steps are planned for 7.44 GiB",
    ]
    assert "Python generator" in viewer.text("section[aria-label='Notes']")
    assert "8 GiB" in viewer.text("section[aria-label='Program']")
    assert viewer.find_all(".usage") == []


def test_epochs_are_read_with_the_keyboard(show):
    viewer, _ = show(finished_run())
    memory, process, loss = viewer.find_all(".chart.epochs")
    assert "resident 8.3 GiB" in process.get_attribute("aria-label")
    assert "budget 7.44 GiB" in memory.get_attribute("aria-label")
    memory.send_keys(LEFT, LEFT)
    said = viewer.text(".chart.epochs .tooltip")
    for words in ("epoch 5", "7.3 GiB", "7.44 GiB", "attempt 4 · 500 steps · 600 ms a step"):
        assert words in said
    loss.send_keys(RIGHT, LEFT)
    spoken = viewer.run("return document.querySelectorAll('.chart-frame .unseen')[2].textContent")
    assert spoken.startswith("epoch 5, loss 0.35, val_loss 0.42")


def test_a_run_in_progress_is_read_again(show):
    viewer, directory = show(finished_run()[:4])
    assert viewer.texts(".answers .value")[0] == "Not running"
    assert viewer.text(".usage code").startswith("lowtide train --resume ")
    directory.lock()
    try:
        viewer.open("#run/0")
        viewer.wait_for_text(".answers", "Running")
        assert viewer.find_all(".usage") == []
        for event in [ended(1, 120, 120, "killed", "killed"), *started(2, 121, steps=100), *epoch(2, 190, 1, 0.7, 1)]:
            directory.history.append(event)
        viewer.wait(lambda: len(viewer.find_all(BARS)) == 2, "the second attempt was never drawn")
        directory.history.append(ended(2, 200, 79, "finished", "the script ended well"))
        directory.history.append(RunEnded(attempt=2, time=BEGAN + 200, status="finished", exit_code=0))
        viewer.wait_for_text(".answers", "Finished")
    finally:
        directory.unlock()


def test_fifty_attempts_scroll_in_their_card(show):
    viewer, _ = show(long_run())
    assert len(viewer.rows(ATTEMPTS)) == len(boxes(viewer, BARS)) == 50
    assert viewer.run("return document.querySelector('.timeline').clientHeight") < 600
    assert viewer.texts(".answers .value")[0] == "Given up"


def test_a_run_without_events(show):
    viewer, _ = show([])
    assert "nothing has been started" in viewer.text(".answers")
    assert viewer.find_all(BARS) == []


def test_runs_below_a_folder_are_listed(view, tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / "runs" / name, finished_run())
    viewer = view(tmp_path / "runs")
    viewer.wait_for_text(".start [role=status]", "2 training runs")
    assert viewer.texts(".start h2") == ["a", "b"]
    assert viewer.texts(".entry .size") == ["600 steps", "600 steps"]
    viewer.press("Run")
    viewer.wait_for_text("h1", "train.py --epochs 6")
    assert viewer.text(".where .name") == "a · train.py --epochs 6"


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_a_run_as_a_file_fits_the_window(open_html, window, tmp_path, width, dark):
    window(width, dark=dark)
    nasty = "</script><img src=x onerror=alert(1)>"
    events = [*finished_run(), *started(5, 90_000), ended(5, 90_100, 100, "failure", nasty * 3)]
    folder = write_run(tmp_path / "a", events).folder
    browser = open_html(render_html("run", training_run_data(read_run_report(folder))))
    assert nasty in browser.find_element("css selector", "main").text
    assert browser.find_elements("css selector", "img") == []
    assert (
        browser.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        == 0
    )
    # No text of the time axis lies over another.
    spans = "[...document.querySelectorAll('.axis span')].filter((each) => each.checkVisibility())"
    texts = browser.execute_script(
        f"return {spans}.map((e) => e.getBoundingClientRect()).map((b) => [b.left, b.right])"
    )
    assert len(texts) > 1
    assert all(right < left for (_, right), (left, _) in pairwise(texts))
