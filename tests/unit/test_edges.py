"""The control edges that hold an order."""

import pytest

from lowtide.planning.edges import ordering_edges


def test_neighbours_that_nothing_ties_are_tied():
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


def test_short_courses():
    assert ordering_edges([], {"b": ["a"]}) == []
    assert ordering_edges(["a"], {"a": ["b"]}) == []


@pytest.mark.parametrize("waits_for", [{"a": ["b"]}, {"a": ["s"], "s": ["t"], "t": ["b"]}])
def test_a_course_against_the_graph_is_refused(waits_for):
    with pytest.raises(ValueError, match="'a' wait for 'b'"):
        ordering_edges(["a", "b"], waits_for)


def test_a_graph_that_runs_in_circles_is_refused():
    with pytest.raises(ValueError, match="circle"):
        ordering_edges(["a"], {"a": ["s"], "s": ["t"], "t": ["s"]})


def test_a_node_that_comes_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        ordering_edges(["a", "a"], {})


def test_a_long_path_of_small_nodes():
    waits_for = {f"s{index}": [f"s{index - 1}"] for index in range(1, 5000)} | {"s0": ["a"], "b": ["s4999"]}
    assert ordering_edges(["a", "b"], waits_for) == []
