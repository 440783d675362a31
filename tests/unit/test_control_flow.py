"""Loops and branches: which nodes run, how often, and what is alive meanwhile."""

from lowtide.simulator import tuning
from lowtide.simulator.executor import execute
from tests.unit.graphs import alive, lasting, make_work, peak_of, ran, tell

BRANCH = """
x = _Arg() [1000]
p = {predicate}
s = Switch(x, p) [1000] [1000]
no = FancyOp(s) [10]
yes = FancyOp(s:1) [2000]
small = FancyOp(yes) [10]
m = Merge(no, small) [10] int32[]
z = FancyOp(m) [1]
"""


def run(text, branch=True, threads=1, seed=0, **details):
    work = make_work(text, **details)
    schedule = execute(work, threads, seed, branch)
    assert alive(schedule) == lasting(schedule)
    return work, schedule


def test_a_known_condition_takes_its_branch():
    text = BRANCH.format(predicate="Const() bool[]")
    work, schedule = run(text, values={"p": True})
    assert ran(work, schedule) == ["x", "p", "s", "yes", "small", "m", "z"]
    assert tell(work, schedule) == ["+yes", "+small", "-yes", "+z", "-small", "-z"]
    assert schedule.guesses == set()
    work, schedule = run(text, values={"p": False})
    assert ran(work, schedule) == ["x", "p", "s", "no", "m", "z"]
    assert tell(work, schedule) == ["+no", "+z", "-no", "-z"]


def test_an_unknown_condition_is_guessed_as_told_and_noted():
    text = BRANCH.format(predicate="_Arg() bool[]")
    work, schedule = run(text, branch=True)
    assert "yes" in ran(work, schedule)
    assert [work.graph.names[node] for node in schedule.guesses] == ["s"]
    work, schedule = run(text, branch=False)
    assert "yes" not in ran(work, schedule)
    assert "no" in ran(work, schedule)


def test_a_condition_is_followed_through_arithmetic():
    text = BRANCH.format(predicate="Less(a, b) bool[]") + "a = Const() int32[]\nb = Const() int32[]"
    work, schedule = run(text, values={"a": 3, "b": 2})
    assert "no" in ran(work, schedule)
    assert schedule.guesses == set()


def test_a_switch_shares_and_a_merge_hands_on_the_buffer():
    text = """
    x = _Arg() [1000]
    p = Const() bool[]
    y = FancyOp(x) [1000]
    s = Switch(y, p) [1000] [1000]
    a = Relu(s) [1000]
    b = Tanh(s:1) [1000]
    m = Merge(a, b) [1000] int32[]
    z = Relu(m) [1000]
    """
    work, schedule = run(text, values={"p": True})
    assert tell(work, schedule) == ["+y", "-y"]


def test_a_dead_node_lets_go_of_its_living_inputs():
    text = """
    x = _Arg() [1000]
    p = Const() bool[]
    y = FancyOp(x) [1000]
    s = Switch(x, p, ^y) [1000] [1000]
    a = AddV2(s, y) [1000]
    """
    work, schedule = run(text, values={"p": True})
    assert ran(work, schedule) == ["x", "p", "y", "s"] or sorted(ran(work, schedule)) == ["p", "s", "x", "y"]
    assert tell(work, schedule) == ["+y", "-y"]


def test_an_update_in_a_branch_that_is_not_taken_does_not_happen():
    text = """
    v = _Arg() resource index=0
    x = _Arg() [250] index=1
    p = Const() bool[]
    h = Switch(v, p) resource resource
    s = Switch(x, p) [250] [250]
    y = FancyOp(s:1) [250]
    a = AssignVariableOp(h:1, y)
    """
    _, schedule = run(text, values={"p": False}, variables={"v": (250,)})
    assert schedule.renewed == {}
    _, schedule = run(text, values={"p": True}, variables={"v": (250,)})
    assert len(schedule.renewed) == 1


LOOP = """
x = {source}
zero = Const() int32[]
limit = Const() int32[]
one = Const() int32[]
enter_i = Enter(zero{start}) int32[] frame_name="loop" parallel_iterations={parallel}
enter_x = Enter(x{start}) [1000] frame_name="loop" parallel_iterations={parallel}
enter_limit = Enter(limit{start}) int32[] frame_name="loop" is_constant=True parallel_iterations={parallel}
enter_one = Enter(one{start}) int32[] frame_name="loop" is_constant=True parallel_iterations={parallel}
i = Merge(enter_i, next_i) int32[] int32[]
h = Merge(enter_x, next_x) [1000] int32[]
less = Less(i, enter_limit) bool[]
go = LoopCond(less) bool[]
switch_i = Switch(i, go) int32[] int32[]
switch_x = Switch(h, go) [1000] [1000]
{early}
add = AddV2(switch_i:1, enter_one) int32[]
body = {body}
next_i = NextIteration(add) int32[]
next_x = NextIteration(body) [1000]
exit_x = Exit(switch_x) [1000]
z = FancyOp(exit_x) [1]
"""


def loop(body="FancyOp(switch_x:1) [1000]", source="_Arg() [1000]", parallel=10, start="", early="", more=""):
    return LOOP.format(body=body, source=source, parallel=parallel, start=start, early=early) + more


COUNTER = {"zero": 0, "one": 1}


def times(work, schedule, name):
    return ran(work, schedule).count(name)


def test_a_counted_loop_runs_as_often_as_it_says():
    for trips in (0, 1, 5, 40):
        work, schedule = run(loop(), values=COUNTER | {"limit": trips})
        assert times(work, schedule, "body") == trips
        assert times(work, schedule, "less") == trips + 1
        assert times(work, schedule, "exit_x") == 1
        assert times(work, schedule, "z") == 1
        assert schedule.guesses == set()


def test_a_loop_keeps_one_state_and_the_next():
    work, schedule = run(loop(), values=COUNTER | {"limit": 6})
    before = sum(schedule.sizes[buffer] for buffer in schedule.before)
    # Two states of 4000 bytes, and a handful of counters.
    assert before + 8000 <= peak_of(schedule) <= before + 8000 + 64
    assert tell(work, schedule).count("+body") == 6


def test_a_state_that_may_be_taken_over_stays_in_its_buffer():
    work, schedule = run(
        loop(body="Relu(switch_x:1) [1000]", source="FancyOp(zero) [1000]"), values=COUNTER | {"limit": 6}
    )
    told = tell(work, schedule)
    assert told.count("+x") == 1
    assert "+body" not in told
    assert told.index("-x") > told.index("+z")


def test_an_invariant_is_released_when_the_loop_is_over():
    more = """
    w = FancyOp(zero) [500]
    enter_w = Enter(w) [500] frame_name="loop" is_constant=True
    """
    text = loop(body="FancyOp(switch_x:1, enter_w) [1000]", more=more)
    work, schedule = run(text, values=COUNTER | {"limit": 4})
    told = tell(work, schedule)
    assert told.count("+w") == told.count("-w") == 1
    last_round = max(place for place, word in enumerate(told) if word == "+body")
    assert told.index("-w") > last_round
    assert times(work, schedule, "body") == 4


def test_an_invariant_is_never_taken_over():
    more = 'w = FancyOp(zero) [1000]\nenter_w = Enter(w) [1000] frame_name="loop" is_constant=True'
    work, schedule = run(loop(body="AddV2(enter_w, switch_i:1) [1000]", more=more), values=COUNTER | {"limit": 3})
    assert tell(work, schedule).count("+body") == 3


def slow_body(parallel):
    """Rounds whose counter is quick and whose work is slow: as many pile up as may run at once."""
    # The work comes before the counter, so that it waits among the tasks while the counter goes on.
    early = "made = FancyOp(switch_i:1) [1000]\nused = FancyOp(made) [1]"
    return loop(body="Identity(switch_x:1) [1000]", parallel=parallel, early=early)


def test_no_more_rounds_run_at_once_than_allowed():
    peaks = {}
    for parallel in (1, 2, 4):
        work, schedule = run(slow_body(parallel), values=COUNTER | {"limit": 20})
        assert times(work, schedule, "made") == times(work, schedule, "used") == 20
        living = highest = 0
        for word in tell(work, schedule):
            living += (word == "+made") - (word == "-made")
            highest = max(highest, living)
        peaks[parallel] = highest
    assert peaks[1] == 1
    assert peaks[1] <= peaks[2] <= 2
    assert peaks[2] <= peaks[4] <= 4


def rounds_open(work, schedule):
    """The most rounds whose counter has been raised while the slow work of earlier rounds is still to come."""
    ahead = highest = 0
    for name in ran(work, schedule):
        ahead += (name == "add") - (name == "used")
        highest = max(highest, ahead)
    return highest


def test_the_counter_runs_ahead_of_the_work_up_to_the_limit():
    found = {}
    for parallel in (1, 3, 8):
        work, schedule = run(slow_body(parallel), values=COUNTER | {"limit": 20})
        found[parallel] = rounds_open(work, schedule)
    assert found[1] == 1
    assert found[1] < found[3] < found[8] <= 8


def test_a_loop_whose_end_is_not_told_is_followed_for_a_while():
    text = loop().replace("limit = Const()", "limit = _Arg()")
    work, schedule = run(text, values=COUNTER)
    assert times(work, schedule, "body") == tuning.UNKNOWN_LOOP_ITERATIONS
    assert {work.graph.names[node] for node in schedule.guesses} == {"switch_i", "switch_x"}


def test_a_loop_in_a_branch_that_is_not_taken_does_not_run():
    text = "q = _Arg() [1000]\np = Const() bool[]\ns = Switch(q, p) [1000] [1000]\n"
    text += "pivot = Identity(s:1) [1000]\n" + loop(source="Identity(s:1) [1000]", start=", ^pivot")
    text += "m = Merge(z, other) [1] int32[]\nother = FancyOp(s) [1]\nend = FancyOp(m) [7]"
    work, schedule = run(text, values=COUNTER | {"limit": 5, "p": False})
    order = ran(work, schedule)
    assert "body" not in order
    assert "z" not in order
    assert order.count("other") == order.count("end") == 1
    work, schedule = run(text, values=COUNTER | {"limit": 5, "p": True})
    assert times(work, schedule, "body") == 5
    assert times(work, schedule, "other") == 0
    assert times(work, schedule, "end") == 1


NESTED = """
go_on = Identity(switch_i:1) int32[]
in_j = Enter(enter_zero, ^go_on) int32[] frame_name="inner"
in_limit = Enter(enter_limit, ^go_on) int32[] frame_name="inner" is_constant=True
in_one = Enter(enter_one, ^go_on) int32[] frame_name="inner" is_constant=True
in_x = Enter(switch_x:1) [1000] frame_name="inner"
enter_zero = Enter(zero) int32[] frame_name="loop" is_constant=True
j = Merge(in_j, next_j) int32[] int32[]
k = Merge(in_x, next_k) [1000] int32[]
inner_less = Less(j, in_limit) bool[]
inner_go = LoopCond(inner_less) bool[]
switch_j = Switch(j, inner_go) int32[] int32[]
switch_k = Switch(k, inner_go) [1000] [1000]
raise_j = AddV2(switch_j:1, in_one) int32[]
work = FancyOp(switch_k:1) [1000]
next_j = NextIteration(raise_j) int32[]
next_k = NextIteration(work) [1000]
out = Exit(switch_k) [1000]
"""


def test_a_loop_in_a_loop():
    text = loop(body="Identity(out) [1000]", more=NESTED)
    for threads in (1, 3):
        work, schedule = run(text, threads=threads, values=COUNTER | {"limit": 4})
        assert times(work, schedule, "work") == 16
        assert times(work, schedule, "out") == 4
        assert times(work, schedule, "exit_x") == 1
        before = sum(schedule.sizes[buffer] for buffer in schedule.before)
        assert peak_of(schedule) <= before + 8000 + 200


def test_a_loop_pushes_to_a_list_what_its_gradient_pops():
    more = """
    shape = Const() int32[1]
    list = EmptyTensorList(shape, limit) variant
    enter_list = Enter(list) variant frame_name="loop"
    kept = Merge(enter_list, next_list) variant int32[]
    switch_list = Switch(kept, go) variant variant
    push = TensorListPushBack(switch_list:1, body) variant
    next_list = NextIteration(push) variant
    exit_list = Exit(switch_list) variant
    end = TensorListLength(exit_list, ^z) int32[]
    """
    work, schedule = run(loop(more=more), values=COUNTER | {"limit": 7})
    before = sum(schedule.sizes[buffer] for buffer in schedule.before)
    assert peak_of(schedule) >= before + 7 * 4000
    told = tell(work, schedule)
    assert told.count("+body") == told.count("-body") == 7
    # All elements go with the list, and no earlier.
    assert told.index("-body") > told.index("+z")
