"""The start page: what can be opened, in which order, how it is searched, and how it is reached."""

import pytest

from tests.browser.programs import TRAIN_STEP, profiled_run
from tests.browser.viewer import DOWN, ENTER, UP, serving
from tests.conftest import make_tide
from tests.plans import make_plan

pytestmark = pytest.mark.browser

# With the step, 2,520 graphs.
ALONE = 839


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The address of a server for a run with thousands of graphs, another graph, a tide and a plan."""
    folder = tmp_path_factory.mktemp("logs")
    for name in ("a_run/train", "b_run"):
        (folder / name).mkdir(parents=True)
    (folder / "a_run" / "train" / "events.out.tfevents.1.host").write_bytes(profiled_run(ALONE))
    (folder / "b_run" / "graph.pb").write_bytes(TRAIN_STEP)
    make_tide().save(folder / "b_run" / "step.tide")
    make_plan().save(folder / "step.plan")
    (folder / "b_run" / "broken.pb").write_bytes(b"\xff" * 64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        with serving(folder) as (address, site):
            site.until("files", lambda answer: all(file["kind"] != "reading" for file in answer["files"]))
            yield address


def names(viewer) -> list[str]:
    return viewer.texts(".start .entry .name")


def test_runs_and_their_graphs_are_listed_with_the_main_graph_first(look, runs):
    viewer = look(runs)
    assert "2,521 graphs, 1 tide, 1 plan in 2 runs" in viewer.wait_for_text(".start [role=status]", "graphs")
    assert viewer.texts(".start h2") == ["a_run/train", "b_run"]
    assert names(viewer) == ["train_step", "graph.pb", "train.py:build · batch 5", "train.py:build · batch 5"]
    assert viewer.texts(".entry.main .chip") == ["main graph"]
    assert viewer.texts(".entry .size")[:2] == ["30 nodes", "300 nodes"]
    assert viewer.texts(".start summary") == ["839 small functions · 839 × VarIsInitializedOp"]
    assert "broken.pb: no graph is in this file" in viewer.text(".groups")
    # A page of thousands of entries has few elements until they are asked for.
    assert viewer.run("return document.querySelectorAll('*').length") < 300


def test_versions_of_a_graph_are_together_and_lead_to_their_difference(look, runs):
    viewer = look(runs)
    viewer.wait(lambda: names(viewer))
    assert viewer.texts(".entry.main .versions a") == [
        "before optimization · 12", "after optimization · 30", "partition CPU:0 · 30", "difference",
    ]  # fmt: skip
    viewer.press("after optimization · 30")
    viewer.wait_for_keys("block_1")
    assert viewer.hash == "#graph/0.2518"
    assert viewer.text(".where .name") == "a_run/train · train_step"
    viewer.choose(".where select", "before optimization")
    viewer.wait_for_keys("call")
    viewer.browser.back()
    viewer.browser.back()
    viewer.wait(lambda: names(viewer))
    viewer.press("difference")
    viewer.wait_for_text(".legend", "added")
    assert viewer.hash == "#diff/0.2517/0.2518"


def test_small_functions_are_folded_and_listed_in_pages(look, runs):
    viewer = look(runs)
    viewer.wait(lambda: names(viewer))
    viewer.click(".start summary")
    viewer.wait(lambda: len(viewer.find_all(".small .entry")) == 100)
    viewer.press("Show 100 more of 739")
    assert len(viewer.find_all(".small .entry")) == 200
    assert viewer.run(
        "return document.activeElement.closest('.entry') === document.querySelectorAll('.small .entry')[100]"
    )


def test_the_list_is_searched_and_walked_with_the_keyboard(look, runs):
    viewer = look(runs)
    viewer.wait(lambda: names(viewer))
    viewer.keyboard("/")
    viewer.keyboard("function 700 ")
    viewer.wait(lambda: names(viewer) == ["VarIsInitializedOp"])
    assert "3 graphs" in viewer.text(".start [role=status]")
    viewer.find(".find").clear()
    viewer.find(".find").send_keys("train")
    viewer.wait(lambda: len(names(viewer)) > 1)
    viewer.keyboard(DOWN)
    viewer.keyboard(DOWN)
    viewer.keyboard(UP)
    assert viewer.run("return document.activeElement.className") == "open"
    viewer.keyboard(ENTER)
    viewer.wait_for_keys("call")
    assert viewer.hash == "#graph/0.2517"
    viewer.browser.back()
    viewer.keyboard("/")
    viewer.keyboard("no such thing")
    viewer.wait_for_text(".start [role=status]", "Nothing matches")


@pytest.mark.parametrize("view", ["#graph/2.0", "#tide/3", "#plan/4", "#diff/0.2517/0.2518"])
def test_the_start_page_is_reached_from_every_view(look, runs, view):
    viewer = look(runs, view)
    viewer.wait(lambda: viewer.find("main .stage, main .chart").is_displayed())
    viewer.wait(lambda: viewer.find(".where .name"))
    viewer.press("Start", "header")
    viewer.wait(lambda: "train_step" in names(viewer))
    assert viewer.hash == "#files"
    viewer.browser.back()
    viewer.wait(lambda: viewer.find("main .stage, main .chart").is_displayed())


def test_the_only_graph_is_opened_at_once_and_the_list_is_still_there(view, tmp_path):
    (tmp_path / "graph.pb").write_bytes(TRAIN_STEP)
    viewer = view(tmp_path / "graph.pb")
    viewer.wait_for_keys("dense", "tower")
    assert viewer.hash == "#graph/0.0"
    viewer.press("Start", "header")
    viewer.wait(lambda: names(viewer) == ["graph.pb"])


def test_graphs_to_compare_with_are_searched_too(look, runs):
    viewer = look(runs, "#graph/0.2517")
    viewer.wait_for_keys("call")
    viewer.press("Compare")
    viewer.wait(lambda: viewer.find(".menu .pair").is_displayed())
    listed = viewer.texts(".menu .pair .name")
    assert listed[:2] == [
        "a_run/train · train_step · after optimization", "a_run/train · train_step · partition CPU:0",
    ]  # fmt: skip
    assert len(listed) == 50
    viewer.click(".menu input")
    viewer.keyboard("graph.pb")
    viewer.wait(lambda: viewer.texts(".menu .pair .name") == ["b_run · graph.pb"])


@pytest.mark.parametrize("width", [360, 1280])
def test_the_start_page_fits_the_window(look, runs, window, width):
    window(width, height=800, dark=width < 500)
    viewer = look(runs)
    viewer.wait(lambda: names(viewer))
    assert viewer.overflow <= 0
