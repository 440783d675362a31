"""The control edges that hold an order."""

import random

import pytest

from lowtide.planning.rewrite.control_edges import STRIDE, enforce_order, has_cycle


def ordering_edges(schedule, waits_for, at_once=None):
    """The edges where one follows the other, or few run at once: there are no barriers then."""
    holding = enforce_order(schedule, waits_for, at_once or dict.fromkeys(schedule, 1), lambda node: f"{node} done")
    assert holding.barriers == []
    return holding.edges


def test_unordered_neighbours_get_a_control_edge():
    assert ordering_edges(["a", "b", "c"], {}) == [("a", "b"), ("b", "c")]


def test_a_node_that_reads_the_one_before_needs_no_edge():
    assert ordering_edges(["a", "b", "c"], {"b": ["a"]}) == [("b", "c")]


def test_a_path_through_small_nodes_needs_no_edge():
    waits_for = {"s": ["a"], "t": ["s", "x"], "b": ["t"]}
    assert ordering_edges(["a", "b"], waits_for) == []


def test_a_path_from_further_back_is_not_enough():
    assert ordering_edges(["a", "b", "c"], {"b": ["a"], "c": ["a"]}) == [("b", "c")]


def test_paths_that_meet():
    waits_for = {"b": ["s", "t"], "s": ["r"], "t": ["r"], "r": ["a"], "c": ["t"]}
    assert ordering_edges(["a", "b", "c"], waits_for) == [("b", "c")]


def test_numbers_are_nodes_too():
    assert ordering_edges([3, 1, 2], {1: (3,), 2: ()}) == [(1, 2)]


def test_short_schedules():
    assert ordering_edges([], {"b": ["a"]}) == []
    assert ordering_edges(["a"], {"a": ["b"]}) == []


@pytest.mark.parametrize("waits_for", [{"a": ["b"]}, {"a": ["s"], "s": ["t"], "t": ["b"]}])
def test_a_schedule_that_violates_the_graph_is_refused(waits_for):
    with pytest.raises(ValueError, match="'a' wait for 'b'"):
        ordering_edges(["a", "b"], waits_for)


def test_a_graph_with_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        ordering_edges(["a"], {"a": ["s"], "s": ["t"], "t": ["s"]})


def test_a_node_that_comes_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        ordering_edges(["a", "a"], {})


def test_a_long_path_of_small_nodes():
    waits_for = {f"s{index}": [f"s{index - 1}"] for index in range(1, 5000)} | {"s0": ["a"], "b": ["s4999"]}
    assert ordering_edges(["a", "b"], waits_for) == []


def test_concurrent_tasks_wait_for_the_one_that_is_further_ahead():
    two = dict.fromkeys("abcd", 2)
    assert ordering_edges(["a", "b", "c", "d"], {}, two) == [("a", "c"), ("b", "d"), ("a", "d")]
    assert ordering_edges(["a", "b", "c", "d"], {"d": ["c"]}, two) == [("a", "c"), ("b", "d")]


def test_an_exclusive_task_waits_for_all_tasks_before_it():
    assert ordering_edges(["a", "b", "c"], {}, {"a": 3, "b": 3, "c": 1}) == [("b", "c"), ("a", "c")]


def test_many_predecessors_are_joined_by_barriers():
    """Without them the last of these alone would wait for a hundred."""
    schedule = list(range(200))
    holding = enforce_order(schedule, {}, dict.fromkeys(schedule, 100), lambda node: f"{node} done")
    assert holding.barriers[:2] == [("7 done", 7), ("15 done", 15)]
    assert [before for before, after in holding.edges if after == "15 done"] == [*range(8, 16), "7 done"]
    assert [before for before, after in holding.edges if after == 199] == ["103 done"]
    assert len(holding.edges) < 3 * len(schedule)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("windows", [(1, 2, 4), (1, 20, 30), (3, 17, 50)])
def test_every_required_node_has_finished_in_any_graph(seed, windows):
    rng = random.Random(seed)
    schedule = list(range(80))
    waits_for = {node: [other for other in range(node) if rng.random() < 0.02] for node in schedule}
    at_once = {node: rng.choice(windows) for node in schedule}
    holding = enforce_order(schedule, waits_for, at_once, lambda node: node + 0.5)
    assert {behind for _, behind in holding.barriers} <= set(range(STRIDE - 1, 80, STRIDE))
    before = {node: set(waits_for[node]) for node in schedule} | {barrier: set() for barrier, _ in holding.barriers}
    for first, second in holding.edges:
        before[second].add(first)
    for node in sorted(before):
        for other in list(before[node]):
            before[node] |= before[other]
        assert before[node] >= set(range(node - at_once.get(node, 0) + 1 if node in at_once else int(node)))


def test_a_task_that_waits_for_itself():
    assert not has_cycle([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("b", "d")])
    assert has_cycle([("a", "b"), ("b", "c"), ("c", "b")])
    assert has_cycle([("a", "a")])
    assert not has_cycle([])
