"""Who of a course is surely done when one of it begins."""

import random

import pytest

from lowtide.planning.rewrite.ancestors import SPAN, Past


def places_done(past, place):
    count = min(place, SPAN - 1)
    return {place - count + index for index, done in enumerate(past.done(place)) if done}


def test_what_a_path_leads_to_is_done():
    past = Past("abcd", {"c": ["a"], "s": ["c"], "d": ["s"]})
    for place in range(4):
        past.settle(place, 4)
    assert [past.latest(node) for node in "abcd"] == [-1, -1, 0, 2]
    assert places_done(past, 1) == set()
    assert places_done(past, 2) == {0}
    assert places_done(past, 3) == {0, 2}


def test_so_is_all_that_who_is_waited_for_had_to_wait_for():
    past = Past("abcd", {"d": ["c"]})
    for place, at_once in enumerate((1, 2, 2, 4)):
        past.settle(place, at_once)
    # The third may run beside the second only, so the first is done with it.
    assert places_done(past, 3) == {0, 2}


def test_a_past_reaches_back_so_far_and_no_further():
    course = range(3 * SPAN)
    past = Past(course, {SPAN: [0], SPAN + 1: [0, 1], 2 * SPAN: [5], 2 * SPAN + 3: [2 * SPAN]})
    for place in course:
        past.settle(place, SPAN)
    assert places_done(past, SPAN) == set()
    assert past.latest(SPAN) == 0
    assert places_done(past, SPAN + 1) == set()
    assert places_done(past, 2 * SPAN) == set()
    assert places_done(past, 2 * SPAN + 3) == {*range(SPAN + 4, SPAN + 1), 2 * SPAN}


@pytest.mark.parametrize("seed", range(10))
def test_as_a_search_along_all_paths_finds_it(seed):
    chance = random.Random(seed)
    course = chance.sample(range(100), 60)
    waits_for = {node: [other for other in range(node) if chance.random() < 0.03] for node in range(100)}
    course.sort()
    past = Past(course, waits_for)
    before = {}
    for node in range(100):
        before[node] = set(waits_for[node]).union(*(before[other] for other in waits_for[node]))
    for place, node in enumerate(course):
        past.settle(place, len(course))
        assert {course[other] for other in places_done(past, place)} == before[node] & set(course)


def test_what_runs_in_a_circle_is_refused():
    with pytest.raises(ValueError, match="circle"):
        Past(["a"], {"a": ["s"], "s": ["t"], "t": ["s"]}).latest("a")
