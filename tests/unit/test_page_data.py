"""The data that pages draw tides and plans from."""

import json

import pytest

from lowtide.planning.plan import ORDER, Action
from lowtide.view.page_data import tide as tide_data_module
from lowtide.view.page_data.plan import plan_data
from lowtide.view.page_data.tide import tide_data
from lowtide.view.reports.plan import PlanReport
from lowtide.view.reports.tide import TideReport
from tests.plans import make_idle_plan, make_plan


def test_a_curve_names_how_many_buffers_are_alive_and_which_kinds(tide):
    data = tide_data(TideReport(tide))
    curve = data["curve"]
    assert curve["bytes"] == [3584, 7680, 8192, 7680, 8704, 4608, 3584]
    assert curve["alive"] == [3, 4, 5, 4, 5, 4, 3]
    assert [sum(column) for column in zip(*curve["strata"], strict=True)] == curve["bytes"]
    assert curve["nodes"][curve["node"][data["peak_event"]]] == "gradient_tape/MatMul"
    assert data["method_name"] == "simulated"
    assert data["recording"] is None


def test_a_record_names_its_allocator_and_steps(recorded_tide):
    recording = tide_data(TideReport(recorded_tide))["recording"]
    steps = [(11, 8192), (12, 8704), (13, 8448)]
    assert recording == {"allocator": "cpu", "step": 12, "steps": steps}


def test_a_tensor_that_is_asked_for_is_listed_however_small(tide, monkeypatch):
    monkeypatch.setattr(tide_data_module, "_BUFFERS", 2)
    assert tide_data(TideReport(tide))["buffers"]["name"] == ["dense/Relu:0", "adam/dense_kernel_velocity:0"]
    assert tide_data(TideReport(tide), tensor="x:0")["buffers"]["name"][2:] == ["x:0"]


def test_a_plan_has_its_answers_actions_and_totals(plan):
    data = plan_data(PlanReport(plan, file="a.plan"))
    assert data["summary"] == plan.summary()
    assert [curve["name"] for curve in data["curves"]["curves"]] == ["before", "after"]
    assert [answer["about"] for answer in data["answers"]] == ["Before", "With this plan", "Time", "Results"]
    assert [answer["fits"] for answer in data["answers"]] == [None, True, None, None]
    assert [action["node"] for action in data["actions"]] == ["dense/Relu", "norm/mul", "gradient_tape/MatMul"]
    assert data["layers"][0] == {"layer": "dense", "actions": 2, "saves_bytes": 8000, "costs_us": 1250.0}
    assert data["total"] == {"actions": 3, "saves_bytes": 8100, "costs_us": 1253.5}
    assert data["usage"][-1]["code"] == 'lt.load_plan("a.plan", step, *specs).apply()'
    assert [point["name"] for point in data["frontier"]["points"] if point["chosen"]] == ["this plan"]


def test_actions_beyond_what_is_listed_are_added_up():
    actions = tuple(Action(ORDER, f"node{i}", "Relu", None, 10, 1.0, "") for i in range(5003))
    data = plan_data(PlanReport(make_plan(actions=actions)))
    assert len(data["actions"]) == 5000
    assert data["total"] == {"actions": 5003, "saves_bytes": 50_030, "costs_us": 5003.0}


def test_an_idle_plan_has_one_curve_and_nothing_to_do():
    data = plan_data(PlanReport(make_idle_plan()))
    assert [curve["name"] for curve in data["curves"]["curves"]] == ["as it is"]
    assert (data["actions"], data["usage"], data["frontier"]) == ([], [], None)


@pytest.mark.parametrize("name", ["tide", "recorded_tide"])
def test_it_is_plain_data(name, request, plan):
    for data in (tide_data(TideReport(request.getfixturevalue(name))), plan_data(PlanReport(plan))):
        json.loads(json.dumps(data, allow_nan=False))
