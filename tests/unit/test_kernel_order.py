"""The order of oneDNN's kernels, and what it does to a loop."""

from lowtide.simulator.executor import execute, execute_hoarding
from lowtide.simulator.kernel_order import draw_kernel_orders
from lowtide.simulator.simulate import simulate
from lowtide.simulator.workload import build_workload
from tests.unit.graphs import alive, event_names, lasting, make_graph, peak_of

# A backward loop: each iteration makes the gradient of the weights, which is summed, and the gradient of the state,
# which the next iteration needs. Both wait for `made`, and each for one of the arguments.
BACKWARD = """
x = _Arg() [500]
sum = _Arg() [100000]
zero = Const() int32[]
limit = Const() int32[]
one = Const() int32[]
{arguments}
enter_x = Enter(x) [500] frame_name="loop" parallel_iterations=8
enter_sum = Enter(sum) [100000] frame_name="loop" parallel_iterations=8
enter_i = Enter(zero) int32[] frame_name="loop" parallel_iterations=8
enter_limit = Enter(limit) int32[] frame_name="loop" is_constant=True parallel_iterations=8
enter_one = Enter(one) int32[] frame_name="loop" is_constant=True parallel_iterations=8
enter_a = Enter(a0) [500] frame_name="loop" is_constant=True parallel_iterations=8
enter_b = Enter(a1) [500] frame_name="loop" is_constant=True parallel_iterations=8
h = Merge(enter_x, next_x) [500] int32[]
s = Merge(enter_sum, next_sum) [100000] int32[]
i = Merge(enter_i, next_i) int32[] int32[]
less = Less(i, enter_limit) bool[]
go = LoopCond(less) bool[]
switch_x = Switch(h, go) [500] [500]
switch_sum = Switch(s, go) [100000] [100000]
switch_i = Switch(i, go) int32[] int32[]
made = FancyOp(switch_x:1) [100000]
add = AddV2(switch_i:1, enter_one) int32[]
total = AddN(switch_sum:1, weights) [100000]
next_x = NextIteration(state) [500]
next_sum = NextIteration(total) [100000]
next_i = NextIteration(add) int32[]
exit_sum = Exit(switch_sum) [100000]
state = _MklFancyOp(made, enter_a) [500]
weights = _MklFancyOp(made, enter_b) [100000]
"""
VALUES = {"zero": 0, "limit": 20, "one": 1}


def backward(arguments=10):
    text = BACKWARD.format(arguments="\n".join(f"a{number} = _Arg() [500]" for number in range(arguments)))
    graph = make_graph(text, values=VALUES)
    # Before the pass, the gradient of the weights came first.
    before = [*(name for name in graph.names if name not in ("state", "weights")), "weights", "state"]
    graph.earlier = tuple(before.index(name) for name in graph.names)
    return build_workload(graph)


def position_of(work, name):
    return work.build_order.index(work.graph.names.index(name))


def test_the_order_of_kernels_differs_between_processes():
    drawn = draw_kernel_orders(backward(), 40)
    assert sum(times for _, times in drawn) == 40
    first = [position_of(work, "state") < position_of(work, "weights") for work, _ in drawn]
    assert set(first) == {True, False}
    assert [times for _, times in drawn] == sorted((times for _, times in drawn), reverse=True)


def test_without_replaced_nodes_there_is_one_order():
    work = backward()
    work.graph.earlier = ()
    assert draw_kernel_orders(work, 5) == [(work, 5)]


def waiting_sums(work, stream):
    living = highest = 0
    for word in event_names(work, stream):
        living += (word == "+weights") - (word == "-weights")
        highest = max(highest, living)
    return highest


def test_gradients_pile_up_where_the_state_comes_last():
    waiting = {}
    for work, _ in draw_kernel_orders(backward(), 40):
        stream = execute(work, 1)
        assert alive(stream) == lasting(stream)
        state_last = position_of(work, "state") > position_of(work, "weights")
        waiting.setdefault(state_last, set()).add(waiting_sums(work, stream))
    # One of them is the sum itself.
    assert max(waiting[False]) < max(waiting[True]) <= 9


def test_a_step_that_keeps_tensors_lets_the_loop_run_ahead_to_its_limit():
    work = backward()
    stream = execute_hoarding(work)
    assert alive(stream) == lasting(stream)
    assert waiting_sums(work, stream) == 9
    assert peak_of(stream) >= max(peak_of(execute(work, 1, seed)) for seed in range(10))


def test_the_bound_covers_the_highest_mode():
    found = simulate(backward())
    assert found.highest_bytes >= max(found.peaks) >= found.peak_bytes
    assert found.safe_bytes > found.highest_bytes
