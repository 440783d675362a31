"""A plan as data: its one line, its file, and what is said where there is none."""

import json
import zipfile
from dataclasses import replace

import pytest

from lowtide.errors import LowtideError
from lowtide.planning.allowance import ALLOWANCES, check_allow
from lowtide.planning.plan import ORDER, RECOMPUTE, Action, FrontierPoint, Held, NoPlanError, Plan, format_slowdown
from lowtide.planning.storage import is_plan
from lowtide.tide.explain import breakdown_at
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes
from tests.plans import ACTIONS, FRONTIER, make_changing_plan, make_idle_plan, make_plan
from tests.unit.archives import edit_header


def test_a_plan_in_one_line(plan):
    line = "16 KiB -> 9 KiB, +14% time: 2 tensors recomputed, 1 operation reordered; results unchanged"
    assert plan.summary() == line
    assert repr(plan) == f"<Plan of train.py:build: {line}>"
    assert make_idle_plan().summary() == "9 KiB fits 10 KiB as it is"
    assert make_changing_plan().summary() == "16 KiB -> 9 KiB, +14% time: 4 micro-batches, mixed_bfloat16"


def test_singular_and_plural_nouns_differ():
    again = Action(RECOMPUTE, "a", "Relu", None, 1, 1.0, "")
    waits = Action(ORDER, "b", "Relu", None, 0, 0.0, "")
    assert "1 tensor recomputed;" in make_plan(actions=(again,)).summary()
    assert ": 1,200 operations reordered; results unchanged" in make_plan(actions=(waits,) * 1200).summary()


def test_the_summary_of_a_plan(plan):
    assert (plan.peak_bytes, plan.batch_size, plan.recomputed, plan.count(ORDER)) == (9216, 5, 2, 1)
    assert not plan.changes_nothing
    assert not plan.changes_results
    assert make_idle_plan().changes_nothing
    assert make_plan(pieces=2).changes_results
    assert make_plan(precision="mixed_float16").changes_results


@pytest.mark.parametrize(
    ("slowdown", "text"),
    [(0.142, "+14%"), (0.0, "+0%"), (-0.004, "+0%"), (0.004, "+0%"), (-0.03, "-3%"), (1.5, "+150%")],
)
def test_time_on_top_in_words(slowdown, text):
    assert format_slowdown(slowdown) == text


def test_a_plan_without_its_step_says_how_to_get_it(plan):
    with pytest.raises(LowtideError, match=r"lt\.load_plan\(path, step, \*specs\)"):
        plan.apply()
    assert replace(plan, bind=lambda: "the step").apply() == "the step"


def test_where_no_plan_fits_the_error_says_how_low_it_goes():
    error = NoPlanError("no plan reaches the budget", 1 << 30, 1503238553, FRONTIER, ("microbatch", "bfloat16"))
    assert str(error) == (
        "no plan reaches the budget (given: a budget of 1 GiB); the smallest plan that was found takes 1.4 GiB; "
        "allow microbatch or bfloat16 to try lower"
    )
    assert error.frontier == FRONTIER
    assert error.to_dict() == {
        "schema_version": 1,
        "budget_bytes": 1 << 30,
        "fits": False,
        "summary": str(error),
        "smallest_bytes": 1503238553,
        "held_bytes": None,
        "frontier": [
            {
                "peak_bytes": point.peak_bytes,
                "slowdown": point.slowdown,
                "recomputed": point.recomputed,
                "is_estimate": False,
            }
            for point in FRONTIER
        ],
        "allowable": ["microbatch", "bfloat16"],
    }
    assert "use a smaller batch" in str(NoPlanError("no plan reaches the budget", 1 << 30, 1 << 31))


def test_a_budget_below_what_is_held_is_answered_with_a_lower_bound_and_with_what_can_help():
    before = make_plan().before
    held = Held.of(before)
    kinds = breakdown_at(before, 0)
    assert held.variables_bytes == kinds["weights"] + kinds["optimizer"] > 0
    assert kinds["input"] > 0
    assert held.total_bytes == sum(kinds.values()) - kinds["slack"]

    # TensorFlow may keep zeros for a sum of gradients between steps: a smaller batch makes them smaller.
    row = next(row for row in range(len(before.buffers.name)) if before.buffers.kind_of(row) == "input")
    kind = before.buffers.kind.copy()
    kind[row] = KINDS.index("gradients")
    sums = replace(before, buffers=replace(before.buffers, kind=kind))
    assert Held.of(sums).total_bytes == held.total_bytes - int(before.buffers.requested[row])

    errors = [NoPlanError("below", budget, None, before=before) for budget in (1, held.variables_bytes)]
    for error in errors:
        assert (
            f"weights and optimizer state alone take {format_bytes(held.variables_bytes)}: use a smaller model"
            in str(error)
        )
        assert "smallest" not in str(error)
        assert "batch" not in str(error.cure)
        assert (error.to_dict()["smallest_bytes"], error.to_dict()["held_bytes"]) == (None, held.total_bytes)
    # The same answer for every budget that is refused for this reason.
    assert errors[0].cure == errors[1].cure
    batch = NoPlanError("below", held.variables_bytes + 1, None, before=before)
    assert f"the batch alone take {format_bytes(held.total_bytes)}: use a smaller batch" in str(batch)

    searched = NoPlanError("no plan", held.total_bytes + 1, 1 << 20, before=before, untried_pieces=4)
    assert "takes 1 MiB (4 micro-batches and more were not tried" in str(searched)
    assert f"the batch alone {format_bytes(held.total_bytes)}" in str(searched)


def test_only_what_is_known_can_be_allowed():
    assert check_allow(["bfloat16", "microbatch", "bfloat16"]) == ("bfloat16", "microbatch")
    assert check_allow("microbatch") == ("microbatch",)
    assert check_allow(()) == ()
    with pytest.raises(LowtideError, match=f"int8.*{', '.join(ALLOWANCES)}"):
        check_allow(("int8",))


def test_json_is_versioned_and_complete(plan):
    data = json.loads(plan.to_json(top=2))
    assert (data["schema_version"], data["target"], data["batch_size"]) == (1, "train.py:build", 5)
    assert (data["budget_bytes"], data["fits"], data["before_bytes"], data["peak_bytes"]) == (10240, True, 16384, 9216)
    assert (data["slowdown"], data["pieces"], data["precision"]) == (0.142, 1, None)
    assert data["summary"] == plan.summary()
    assert data["actions"][2] == {
        "kind": "recompute",
        "subject": "dense/Relu",
        "op": "Relu",
        "layer": "dense",
        "saves_bytes": 8000,
        "costs_us": 1250.0,
        "reason": "held until the backward pass",
    }
    assert data["frontier"][0] == {
        "peak_bytes": 12288,
        "slowdown": 0.0,
        "recomputed": 0,
        "is_estimate": False,
    }
    assert (data["before"]["peak_bytes"], data["after"]["peak_bytes"], len(data["after"]["top"])) == (14080, 8704, 2)


def test_in_a_notebook_a_plan_draws_itself(plan):
    page = replace(plan, target="<b>&")._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert plan.summary().replace(">", "&gt;") in page
    assert page.count("<polygon") == 2
    assert "<title>budget</title>" in page
    assert "7 KiB</td>" in page
    assert make_idle_plan()._repr_html_().count("<polygon") == 1
    assert "<title>budget</title>" not in make_plan(budget_bytes=1 << 40)._repr_html_()


# -- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [make_plan, make_changing_plan, make_idle_plan])
def test_a_saved_plan_is_the_same_when_loaded(made, tmp_path):
    plan = replace(made(), bind=lambda: None)
    plan.save(tmp_path / "step.plan")
    again = Plan.load(tmp_path / "step.plan")
    assert again.to_dict() == plan.to_dict()
    assert (again.rewrite, again.actions, again.frontier) == (plan.rewrite, plan.actions, plan.frontier)
    assert (again.notes, again.fingerprint, again.bind) == (plan.notes, plan.fingerprint, None)
    assert again.before.curve.bytes_in_use.tolist() == plan.before.curve.bytes_in_use.tolist()
    assert again.after.buffers.name == plan.after.buffers.name


def test_a_file_cut_off_anywhere_is_one_clean_error(plan_file):
    content = plan_file.read_bytes()
    for length in range(0, len(content), 331):
        plan_file.write_bytes(content[:length])
        with pytest.raises(LowtideError, match="not a plan") as error:
            Plan.load(plan_file)
        assert "lowtide plan --save" in str(error.value)


def test_a_damaged_byte_never_gives_a_traceback(plan_file):
    content = plan_file.read_bytes()
    refused, tried = 0, range(0, len(content), 41)
    for position in tried:
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        plan_file.write_bytes(damaged)
        try:
            Plan.load(plan_file).summary()
        except LowtideError:
            refused += 1
    # Some bytes of a zip say nothing about the content, such as dates; most do.
    assert refused > len(tried) // 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 99}, "a plan of schema version 99, where this lowtide reads 1.*or plan again"),
        ({"format": "lowtide tide"}, "not a plan: .*'lowtide tide'"),
        ({"actions": [{"surprise": 1}]}, "not a plan: it is damaged"),
        ({"rewrite": {"surprise": []}}, "not a plan: it is damaged"),
        ({"budget_bytes": "much"}, "not a plan: it is damaged"),
        ({"frontier": None}, "not a plan: it is damaged"),
        ({"without": "after.tide"}, "not a plan: it is damaged.*after.tide"),
    ],
)
def test_a_file_of_another_kind_says_so(plan_file, changes, message):
    edit_header(plan_file, "plan.json", **changes)
    with pytest.raises(LowtideError, match=message):
        Plan.load(plan_file)


def test_plans_and_tides_are_not_taken_for_each_other(plan_file, tide_file, tmp_path):
    assert is_plan(plan_file)
    assert not is_plan(tide_file)
    with pytest.raises(LowtideError, match="not a tide: it is a plan"):
        Tide.load(plan_file)
    with pytest.raises(LowtideError, match="not a plan: it is a tide"):
        Plan.load(tide_file)
    other = tmp_path / "renamed"
    other.write_bytes(plan_file.read_bytes())
    assert is_plan(other)
    assert is_plan(tmp_path / "nowhere.plan")
    assert not is_plan(tmp_path / "nowhere")


def test_missing_and_foreign_files_are_errors(plan, tmp_path):
    with pytest.raises(LowtideError, match="cannot read the plan: No such file"):
        Plan.load(tmp_path / "nowhere.plan")
    with pytest.raises(LowtideError, match="cannot read the plan"):
        Plan.load(tmp_path)
    with pytest.raises(LowtideError, match="cannot write the plan"):
        plan.save(tmp_path / "nowhere" / "step.plan")
    other = tmp_path / "other.plan"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(LowtideError, match=r"not a plan.*plan\.json"):
        Plan.load(other)


def test_the_numbers_of_the_small_plan_belong_together(plan):
    """What the views' tests rest on."""
    assert [action.kind for action in ACTIONS] == [ORDER, RECOMPUTE, RECOMPUTE]
    assert plan.peak_bytes <= plan.budget_bytes < plan.before.safe_bytes
    assert min(FRONTIER, key=lambda point: point.peak_bytes) == FrontierPoint(7168, 0.31, 4)
