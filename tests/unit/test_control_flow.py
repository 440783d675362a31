"""Loops and branches: which nodes run, how often, and what is alive meanwhile."""

from lowtide.simulator import tuning
from lowtide.simulator.executor import execute
from tests.unit.graphs import alive, event_names, finished_nodes, lasting, make_work, peak_of

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
    stream = execute(work, threads, seed, branch)
    assert alive(stream) == lasting(stream)
    return work, stream


def test_a_known_condition_takes_its_branch():
    text = BRANCH.format(predicate="Const() bool[]")
    work, stream = run(text, values={"p": True})
    assert finished_nodes(work, stream) == ["x", "p", "s", "yes", "small", "m", "z"]
    assert event_names(work, stream) == ["+yes", "+small", "-yes", "+z", "-small", "-z"]
    assert stream.guesses == set()
    work, stream = run(text, values={"p": False})
    assert finished_nodes(work, stream) == ["x", "p", "s", "no", "m", "z"]
    assert event_names(work, stream) == ["+no", "+z", "-no", "-z"]


def test_an_unknown_condition_is_guessed_as_requested_and_recorded():
    text = BRANCH.format(predicate="_Arg() bool[]")
    work, stream = run(text, branch=True)
    assert "yes" in finished_nodes(work, stream)
    assert [work.graph.names[node] for node in stream.guesses] == ["s"]
    work, stream = run(text, branch=False)
    assert "yes" not in finished_nodes(work, stream)
    assert "no" in finished_nodes(work, stream)


def test_a_condition_is_evaluated_through_arithmetic():
    text = BRANCH.format(predicate="Less(a, b) bool[]") + "a = Const() int32[]\nb = Const() int32[]"
    work, stream = run(text, values={"a": 3, "b": 2})
    assert "no" in finished_nodes(work, stream)
    assert stream.guesses == set()


def test_a_switch_shares_and_a_merge_passes_on_the_buffer():
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
    work, stream = run(text, values={"p": True})
    assert event_names(work, stream) == ["+y", "-y"]


def test_a_dead_node_releases_its_inputs():
    text = """
    x = _Arg() [1000]
    p = Const() bool[]
    y = FancyOp(x) [1000]
    s = Switch(x, p, ^y) [1000] [1000]
    a = AddV2(s, y) [1000]
    """
    work, stream = run(text, values={"p": True})
    assert sorted(finished_nodes(work, stream)) == ["p", "s", "x", "y"]
    assert event_names(work, stream) == ["+y", "-y"]


def test_an_update_in_a_branch_that_is_not_taken_does_not_run():
    text = """
    v = _Arg() resource index=0
    x = _Arg() [250] index=1
    p = Const() bool[]
    h = Switch(v, p) resource resource
    s = Switch(x, p) [250] [250]
    y = FancyOp(s:1) [250]
    a = AssignVariableOp(h:1, y)
    """
    _, stream = run(text, values={"p": False}, variables={"v": (250,)})
    assert stream.renewed == {}
    _, stream = run(text, values={"p": True}, variables={"v": (250,)})
    assert len(stream.renewed) == 1


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


def times(work, stream, name):
    return finished_nodes(work, stream).count(name)


def test_a_counted_loop_runs_the_counted_iterations():
    for trips in (0, 1, 5, 40):
        work, stream = run(loop(), values=COUNTER | {"limit": trips})
        assert times(work, stream, "body") == trips
        assert times(work, stream, "less") == trips + 1
        assert times(work, stream, "exit_x") == 1
        assert times(work, stream, "z") == 1
        assert stream.guesses == set()


def test_a_loop_keeps_one_state_and_the_next():
    work, stream = run(loop(), values=COUNTER | {"limit": 6})
    before = sum(stream.sizes[buffer] for buffer in stream.before)
    # Two states of 4000 bytes, and a handful of counters.
    assert before + 8000 <= peak_of(stream) <= before + 8000 + 64
    assert event_names(work, stream).count("+body") == 6


def test_a_state_that_can_be_reused_stays_in_its_buffer():
    work, stream = run(
        loop(body="Relu(switch_x:1) [1000]", source="FancyOp(zero) [1000]"), values=COUNTER | {"limit": 6}
    )
    names = event_names(work, stream)
    assert names.count("+x") == 1
    assert "+body" not in names
    assert names.index("-x") > names.index("+z")


def test_an_invariant_is_released_when_the_loop_is_over():
    more = """
    w = FancyOp(zero) [500]
    enter_w = Enter(w) [500] frame_name="loop" is_constant=True
    """
    text = loop(body="FancyOp(switch_x:1, enter_w) [1000]", more=more)
    work, stream = run(text, values=COUNTER | {"limit": 4})
    names = event_names(work, stream)
    assert names.count("+w") == names.count("-w") == 1
    last_iteration = max(place for place, word in enumerate(names) if word == "+body")
    assert names.index("-w") > last_iteration
    assert times(work, stream, "body") == 4


def test_an_invariant_is_never_reused():
    more = 'w = FancyOp(zero) [1000]\nenter_w = Enter(w) [1000] frame_name="loop" is_constant=True'
    work, stream = run(loop(body="AddV2(enter_w, switch_i:1) [1000]", more=more), values=COUNTER | {"limit": 3})
    assert event_names(work, stream).count("+body") == 3


def slow_body(parallel):
    """Iterations with a fast counter and slow work: as many accumulate as may run in parallel."""
    # The work comes before the counter, so that it waits among the tasks while the counter goes on.
    # It takes long enough to be expensive: cheap kernels run in turn with the counter.
    early = "made = FancyOp(switch_i:1) [100000]\nused = FancyOp(made) [1]"
    return loop(body="Identity(switch_x:1) [1000]", parallel=parallel, early=early)


def test_no_more_iterations_run_in_parallel_than_allowed():
    peaks = {}
    for parallel in (1, 2, 4):
        work, stream = run(slow_body(parallel), values=COUNTER | {"limit": 20})
        assert times(work, stream, "made") == times(work, stream, "used") == 20
        living = highest = 0
        for word in event_names(work, stream):
            living += (word == "+made") - (word == "-made")
            highest = max(highest, living)
        peaks[parallel] = highest
    assert peaks[1] == 1
    assert peaks[1] <= peaks[2] <= 2
    assert peaks[2] <= peaks[4] <= 4


def rounds_open(work, stream):
    """The most iterations whose counter has run while the slow work of earlier iterations is pending."""
    ahead = highest = 0
    for name in finished_nodes(work, stream):
        ahead += (name == "add") - (name == "used")
        highest = max(highest, ahead)
    return highest


def test_the_counter_runs_ahead_of_the_work_up_to_the_limit():
    found = {}
    for parallel in (1, 3, 8):
        work, stream = run(slow_body(parallel), values=COUNTER | {"limit": 20})
        found[parallel] = rounds_open(work, stream)
    assert found[1] == 1
    assert found[1] < found[3] < found[8] <= 8


def test_a_loop_of_unknown_length_runs_for_a_fixed_number_of_iterations():
    text = loop().replace("limit = Const()", "limit = _Arg()")
    work, stream = run(text, values=COUNTER)
    assert times(work, stream, "body") == tuning.UNKNOWN_LOOP_ITERATIONS
    assert {work.graph.names[node] for node in stream.guesses} == {"switch_i", "switch_x"}


def test_a_loop_in_a_branch_that_is_not_taken_does_not_run():
    text = "q = _Arg() [1000]\np = Const() bool[]\ns = Switch(q, p) [1000] [1000]\n"
    text += "pivot = Identity(s:1) [1000]\n" + loop(source="Identity(s:1) [1000]", start=", ^pivot")
    text += "m = Merge(z, other) [1] int32[]\nother = FancyOp(s) [1]\nend = FancyOp(m) [7]"
    work, stream = run(text, values=COUNTER | {"limit": 5, "p": False})
    order = finished_nodes(work, stream)
    assert "body" not in order
    assert "z" not in order
    assert order.count("other") == order.count("end") == 1
    work, stream = run(text, values=COUNTER | {"limit": 5, "p": True})
    assert times(work, stream, "body") == 5
    assert times(work, stream, "other") == 0
    assert times(work, stream, "end") == 1


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
        work, stream = run(text, threads=threads, values=COUNTER | {"limit": 4})
        assert times(work, stream, "work") == 16
        assert times(work, stream, "out") == 4
        assert times(work, stream, "exit_x") == 1
        before = sum(stream.sizes[buffer] for buffer in stream.before)
        assert peak_of(stream) <= before + 8000 + 200


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
    work, stream = run(loop(more=more), values=COUNTER | {"limit": 7})
    before = sum(stream.sizes[buffer] for buffer in stream.before)
    assert peak_of(stream) >= before + 7 * 4000
    names = event_names(work, stream)
    assert names.count("+body") == names.count("-body") == 7
    # All elements go with the list, and no earlier.
    assert names.index("-body") > names.index("+z")
