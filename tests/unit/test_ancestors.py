"""The earlier tasks that are guaranteed to have finished when a task starts."""

import random

import pytest

from lowtide.planning.rewrite.ancestors import SPAN, Ancestors


def places_done(ancestors, place):
    count = min(place, SPAN - 1)
    return {place - count + index for index, done in enumerate(ancestors.finished_before(place)) if done}


def test_the_task_at_the_end_of_a_path_has_finished():
    ancestors = Ancestors("abcd", {"c": ["a"], "s": ["c"], "d": ["s"]})
    for place in range(4):
        ancestors.record(place, 4)
    assert [ancestors.latest(node) for node in "abcd"] == [-1, -1, 0, 2]
    assert places_done(ancestors, 1) == set()
    assert places_done(ancestors, 2) == {0}
    assert places_done(ancestors, 3) == {0, 2}


def test_ancestors_of_an_ancestor_are_ancestors():
    ancestors = Ancestors("abcd", {"d": ["c"]})
    for place, at_once in enumerate((1, 2, 2, 4)):
        ancestors.record(place, at_once)
    # The third may run beside the second only, so the first is done with it.
    assert places_done(ancestors, 3) == {0, 2}


def test_ancestors_reach_back_a_limited_distance():
    schedule = range(3 * SPAN)
    ancestors = Ancestors(schedule, {SPAN: [0], SPAN + 1: [0, 1], 2 * SPAN: [5], 2 * SPAN + 3: [2 * SPAN]})
    for place in schedule:
        ancestors.record(place, SPAN)
    assert places_done(ancestors, SPAN) == set()
    assert ancestors.latest(SPAN) == 0
    assert places_done(ancestors, SPAN + 1) == set()
    assert places_done(ancestors, 2 * SPAN) == set()
    assert places_done(ancestors, 2 * SPAN + 3) == {*range(SPAN + 4, SPAN + 1), 2 * SPAN}


@pytest.mark.parametrize("seed", range(10))
def test_finished_nodes_agree_with_a_search_along_all_paths(seed):
    rng = random.Random(seed)
    schedule = rng.sample(range(100), 60)
    waits_for = {node: [other for other in range(node) if rng.random() < 0.03] for node in range(100)}
    schedule.sort()
    ancestors = Ancestors(schedule, waits_for)
    before = {}
    for node in range(100):
        before[node] = set(waits_for[node]).union(*(before[other] for other in waits_for[node]))
    for place, node in enumerate(schedule):
        ancestors.record(place, len(schedule))
        assert {schedule[other] for other in places_done(ancestors, place)} == before[node] & set(schedule)


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        Ancestors(["a"], {"a": ["s"], "s": ["t"], "t": ["s"]}).latest("a")
