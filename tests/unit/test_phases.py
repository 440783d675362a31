"""The phase of each node, exactly, on graphs of a few nodes."""

import re

import pytest

from tests.unit.graph_bytes import RESOURCE, attribute, function
from tests.unit.protos import message, node, number

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"

INT64 = 9

LINE = re.compile(r"(\S+) = (\w+)(?::(\w+))?(?:\[(\S+)\])?\(([^)]*)\)")


def nodes(text: str) -> list[bytes]:
    """Nodes written as `name = Op(input, ^input)`, `name = Op[function](input)` for a call, or `name = Op:int64()`."""
    written = []
    for name, op, dtype, called, inputs in LINE.findall(text):
        extra = attribute("f", message(10, message(1, called))) if called else b""
        if dtype == "int64":
            extra = attribute({"Const": "dtype", "Cast": "DstT"}.get(op, "T"), number(6, INT64))
        if op == "Placeholder" and name.endswith("handle"):
            extra = attribute("dtype", number(6, RESOURCE))
        written.append(node(name, op, *filter(None, inputs.split(", ")), attributes=extra))
    return written


@pytest.fixture
def phases_of(atlas_of):
    def find(text: str, **functions: str) -> dict[str, set[str]]:
        """The names of the nodes by phase; a node of a function is `function::name`."""
        library = [function(name, [], nodes(body), {}) for name, body in functions.items()]
        atlas = atlas_of(*nodes(text), message(2, *library))
        found: dict[str, set[str]] = {FORWARD: set(), BACKWARD: set(), OPTIMIZER: set()}
        for row, name in enumerate(atlas.names(range(len(atlas)))):
            function_name = atlas.parts[atlas.part_of(row)]
            found[atlas.phase_of(row)].add(f"{function_name}::{name}" if function_name else name)
        return found

    return find


STEP = """
x = Placeholder()
w/handle = VarHandleOp()
w/read = ReadVariableOp(w/handle)
product = MatMul(x, w/read)
sigmoid = Sigmoid(product)
swish = Mul(product, sigmoid)
mean/axes = Const()
loss = Mean(swish, mean/axes)
ones = Const()
gradient_tape/tile = Tile(ones, gradient_tape/size)
gradient_tape/size = Shape(swish)
again = Sigmoid(product, ^gradient_tape/tile)
slope = Add(again, product)
custom = Mul(slope, gradient_tape/tile)
gradient_tape/w = MatMul(x, custom)
adam/m/handle = VarHandleOp()
adam/m/read = ReadVariableOp(adam/m/handle)
adam/delta = Sub(gradient_tape/w, adam/m/read)
adam/m/update = AssignAddVariableOp(adam/m/handle, adam/delta)
adam/m/new = ReadVariableOp(adam/m/handle, ^adam/m/update)
lr/handle = VarHandleOp()
lr/read = ReadVariableOp(lr/handle)
adam/scaled = Mul(lr/read, adam/m/new)
adam/w/update = AssignSubVariableOp(w/handle, adam/scaled)
steps/handle = VarHandleOp()
steps/read = ReadVariableOp(steps/handle)
adam/cast = Cast(steps/read)
adam/again = AssignSubVariableOp(w/handle, adam/both)
adam/both = Mul(adam/cast, gradient_tape/w)
one = Const()
steps/update = AssignAddVariableOp(steps/handle, one, ^steps/read)
"""
FORWARD_OF_STEP = {"x", "w/handle", "w/read", "product", "sigmoid", "swish", "mean/axes", "loss"}
BACKWARD_OF_STEP = {
    "ones", "gradient_tape/tile", "gradient_tape/size", "again", "slope", "custom", "gradient_tape/w",
}  # fmt: skip


def test_the_loss_is_forward_its_seed_backward_and_a_custom_gradient_too(phases_of):
    found = phases_of(STEP + "done = NoOp(^adam/w/update, ^adam/m/update)\nout = Identity(loss, ^done)")
    assert found[FORWARD] == FORWARD_OF_STEP | {"out"}
    assert found[BACKWARD] == BACKWARD_OF_STEP
    assert {"lr/handle", "lr/read", "steps/handle", "steps/read", "steps/update", "one", "done"} <= found[OPTIMIZER]


def test_a_loss_that_is_not_returned_is_forward(phases_of):
    assert phases_of(STEP)[FORWARD] == FORWARD_OF_STEP


def test_a_loss_whose_shape_and_value_only_gradients_read_is_forward(phases_of):
    found = phases_of(
        """
        x = Placeholder()
        w/handle = VarHandleOp()
        w/read = ReadVariableOp(w/handle)
        product = MatMul(x, w/read)
        loss = Exp(product)
        seed = OnesLike(loss)
        gradient_tape/mul = Mul(seed, loss)
        gradient_tape/w = MatMul(x, gradient_tape/mul)
        rate = Const()
        step = Mul(rate, gradient_tape/w)
        update = AssignSubVariableOp(w/handle, step)
        """
    )
    assert found[FORWARD] == {"x", "w/handle", "w/read", "product", "loss"}
    assert found[BACKWARD] == {"seed", "gradient_tape/mul", "gradient_tape/w"}
    assert found[OPTIMIZER] == {"rate", "step", "update"}


def test_a_step_whose_unread_loss_was_pruned_keeps_its_forward_pass(phases_of):
    """Grappler removes a loss that nothing reads, and folds the first gradients to constants."""
    found = phases_of(
        """
        x = Placeholder()
        w/handle = VarHandleOp()
        w/read = ReadVariableOp(w/handle)
        logits = MatMul(x, w/read)
        entropy = SparseSoftmaxCrossEntropyWithLogits(logits, x)
        gradient_tape/count = Size(x)
        gradient_tape/seed = Const()
        gradient_tape/scaled = Div(gradient_tape/seed, gradient_tape/count)
        gradient_tape/mul = Mul(gradient_tape/scaled, entropy:1)
        gradient_tape/w = MatMul(x, gradient_tape/mul)
        update = ResourceApplyGradientDescent(w/handle, gradient_tape/scaled, gradient_tape/w)
        """
    )
    assert found[FORWARD] == {"x", "w/handle", "w/read", "logits", "entropy"}
    assert found[OPTIMIZER] == {"update"}


def test_moving_averages_and_metrics_are_forward(phases_of):
    found = phases_of(
        STEP
        + """
        average/handle = VarHandleOp()
        average/read = ReadVariableOp(average/handle)
        average/new = Sub(product, average/read)
        average/update = AssignSubVariableOp(average/handle, average/new)
        done = NoOp(^adam/w/update, ^average/update)
        """
    )
    added = {"average/handle", "average/read", "average/new", "average/update"}
    assert found[FORWARD] == FORWARD_OF_STEP | added


def test_weight_decay_and_averages_of_weights_belong_to_the_optimizer(phases_of):
    found = phases_of(
        STEP.replace("adam/w/update = AssignSubVariableOp(w/handle, adam/scaled)", "")
        + """
        decay/read = ReadVariableOp(w/handle)
        decay/rate = Const()
        decay/product = Mul(decay/read, decay/rate)
        decay/update = AssignSubVariableOp(w/handle, decay/product, ^w/read)
        adam/w/update = AssignSubVariableOp(w/handle, adam/scaled, ^decay/update)
        ema/handle = VarHandleOp()
        ema/old = ReadVariableOp(ema/handle)
        ema/weights = ReadVariableOp(w/handle, ^adam/w/update)
        ema/new = Sub(ema/weights, ema/old)
        ema/update = AssignAddVariableOp(ema/handle, ema/new)
        """
    )
    assert found[FORWARD] == FORWARD_OF_STEP


def test_the_second_loss_of_a_gan_reads_updated_weights_and_is_forward(phases_of):
    found = phases_of(
        STEP
        + """
        second/read = ReadVariableOp(w/handle, ^adam/w/update)
        second/product = MatMul(x, second/read)
        second/loss = Mean(second/product)
        gradient_tape/second/tile = Tile(ones)
        gradient_tape/second/w = MatMul(x, gradient_tape/second/tile)
        second/update = AssignSubVariableOp(w/handle, gradient_tape/second/w)
        total/handle = VarHandleOp()
        total/update = AssignAddVariableOp(total/handle, second/loss)
        """
    )
    assert found[FORWARD] == FORWARD_OF_STEP | {
        "second/read", "second/product", "second/loss", "total/handle", "total/update",
    }  # fmt: skip


def test_a_graph_of_tensorflow_1(phases_of):
    """Slots are state of the optimizer with their initializers, also if a saver reads them."""
    found = phases_of(
        """
        x = Placeholder()
        w = VarHandleOp()
        w/zeros = Const()
        w/Assign = AssignVariableOp(w, w/zeros)
        w/Read = ReadVariableOp(w)
        loss = MatMul(x, w/Read)
        gradients/Fill = Fill(gradients/Shape, gradients/one)
        gradients/Shape = Const()
        gradients/one = Const()
        gradients/MatMul_grad/MatMul = MatMul(x, gradients/Fill)
        w/Adam = VarHandleOp()
        w/Adam/zeros = Const()
        w/Adam/Assign = AssignVariableOp(w/Adam, w/Adam/zeros)
        w/Adam/Read = ReadVariableOp(w/Adam)
        beta = Const()
        Adam/update_w/ResourceApplyAdam = ResourceApplyAdam(w, w/Adam, beta, gradients/MatMul_grad/MatMul)
        global_step = VarHandleOp()
        Adam/value = Const(^Adam/update_w/ResourceApplyAdam)
        Adam = AssignAddVariableOp(global_step, Adam/value)
        save/SaveV2 = SaveV2(w/Read, w/Adam/Read)
        """
    )
    assert found == {
        FORWARD: {"x", "w", "w/zeros", "w/Assign", "w/Read", "loss", "save/SaveV2"},
        BACKWARD: {"gradients/Fill", "gradients/Shape", "gradients/one", "gradients/MatMul_grad/MatMul"},
        OPTIMIZER: {
            "w/Adam", "w/Adam/zeros", "w/Adam/Assign", "w/Adam/Read", "beta", "Adam/update_w/ResourceApplyAdam",
            "Adam/value", "Adam", "global_step",
        },
    }  # fmt: skip


def test_loops_with_cycles_and_lists_for_their_gradient(phases_of):
    found = phases_of(
        """
        enter = Enter(x)
        x = Placeholder()
        merge = Merge(enter, next)
        body = Tanh(merge)
        next = NextIteration(body)
        loss = Exit(merge)
        gradient_tape/list = EmptyTensorList()
        loop = While(loss, gradient_tape/list)
        loop/out = Identity(loop)
        gradient_tape/loop = While(loop:1)
        w/handle = VarHandleOp()
        update = AssignSubVariableOp(w/handle, gradient_tape/loop)
        """
    )
    assert {"enter", "x", "merge", "body", "next", "loss", "loop", "loop/out"} <= found[FORWARD]
    assert found[BACKWARD] == {"gradient_tape/list", "gradient_tape/loop"}
    assert {"update"} <= found[OPTIMIZER]


def test_gradients_that_are_returned_and_sums_of_gradients_are_backward(phases_of):
    found = phases_of(
        """
        x = Placeholder()
        loss = Mean(x)
        gradient_tape/a = Tile(x)
        gradient_tape/b = Tile(x)
        sum = AddN(gradient_tape/a, gradient_tape/b)
        norm = L2Loss(sum)
        out = Identity(norm)
        w/handle = VarHandleOp()
        clipped = Minimum(sum, limit)
        limit = Const()
        update = AssignSubVariableOp(w/handle, clipped)
        """
    )
    assert found[BACKWARD] == {"gradient_tape/a", "gradient_tape/b", "sum", "norm", "out"}
    assert found[OPTIMIZER] == {"clipped", "limit", "update", "w/handle"}


def test_a_count_of_steps_that_nothing_reads_is_of_the_optimizer(phases_of):
    """Unlike a count of examples, and an integer that the forward pass reads."""
    counters = """
        count/handle = VarHandleOp()
        count/read = ReadVariableOp(count/handle)
        count/one = Const:int64()
        count/cast = Cast:int64(count/one)
        count/sum = AddV2:int64(count/read, count/cast)
        count/update = AssignVariableOp(count/handle, count/sum, ^count/read)
        """
    seen = """
        seen/handle = VarHandleOp()
        seen/rows = Shape:int64(x)
        seen/update = AssignAddVariableOp(seen/handle, seen/rows)
        seed/handle = VarHandleOp()
        seed/read = ReadVariableOp(seed/handle)
        seed/one = Const:int64()
        seed/next = AddV2:int64(seed/read, seed/one)
        seed/update = AssignVariableOp(seed/handle, seed/next)
        noise = StatelessRandomNormalV2(seed/read)
        noisy = Add(noise, loss)
        out = Identity(noisy)
        rows/handle = VarHandleOp()
        rows/two = Const()
        rows/update = AssignAddVariableOp(rows/handle, rows/two)
        """
    optimizer = {"count/handle", "count/read", "count/one", "count/cast", "count/sum", "count/update"}
    found = phases_of(STEP + counters + seen)
    assert optimizer <= found[OPTIMIZER]
    added = {name for name in found[FORWARD] if name.startswith(("seen", "seed", "rows"))}
    assert len(added) == 3 + 5 + 3
    # Without an optimizer it counts something else.
    assert optimizer <= phases_of("x = Placeholder()\ngradient_tape/a = Tile(x)\n" + counters)[FORWARD]


def test_averages_of_variables_that_are_no_weights_belong_to_the_optimizer(phases_of):
    """The average of a moving average is not ordered by the optimizer."""
    found = phases_of(
        STEP
        + """
        average/handle = VarHandleOp()
        average/read = ReadVariableOp(average/handle)
        average/new = Sub(product, average/read)
        average/update = AssignSubVariableOp(average/handle, average/new)
        ema/handle = VarHandleOp()
        ema/old = ReadVariableOp(ema/handle)
        ema/average = ReadVariableOp(average/handle, ^average/update)
        ema/new = Sub(ema/average, ema/old)
        ema/update = AssignVariableOp(ema/handle, ema/new)
        """
    )
    assert found[FORWARD] == FORWARD_OF_STEP | {"average/handle", "average/read", "average/new", "average/update"}


def test_a_call_that_writes_averages_back_belongs_to_the_optimizer(phases_of):
    found = phases_of(
        STEP
        + """
        ema/handle = VarHandleOp()
        ema/weights = ReadVariableOp(w/handle, ^adam/w/update)
        ema/update = AssignVariableOp(ema/handle, ema/weights)
        period = Const()
        is_time = Equal(steps/read, period)
        overwrite = If[overwrite](is_time, w/handle, ema/handle, ^ema/update)
        """,
        overwrite="e = AssignVariableOp()",
    )
    assert found[FORWARD] == FORWARD_OF_STEP
    assert {"period", "is_time", "overwrite", "overwrite::e"} <= found[OPTIMIZER]


def test_a_weight_that_is_normalized_before_it_is_used_is_forward(phases_of):
    found = phases_of(
        """
        x = Placeholder()
        w/handle = VarHandleOp()
        w/old = ReadVariableOp(w/handle)
        w/norm = L2Loss(w/old)
        w/unit = Div(w/old, w/norm)
        w/normalize = AssignVariableOp(w/handle, w/unit, ^w/old)
        w/read = ReadVariableOp(w/handle, ^w/normalize)
        loss = MatMul(x, w/read)
        gradient_tape/w = MatMul(x, ones)
        ones = Const()
        update = AssignSubVariableOp(w/handle, gradient_tape/w, ^w/normalize, ^w/read)
        """
    )
    assert found[OPTIMIZER] == {"update"}
    assert {"w/old", "w/norm", "w/unit", "w/normalize", "w/read", "loss"} <= found[FORWARD]


def test_constants_and_sizes_that_were_merged_with_those_of_gradients_are_no_gradients(phases_of):
    """TensorFlow's optimizers let the forward pass read the equal constant that was created for the backward pass."""
    found = phases_of(
        """
        x = Placeholder()
        w/handle = VarHandleOp()
        w/read = ReadVariableOp(w/handle)
        gradient_tape/axes = Const:int64()
        gradient_tape/shape = Shape:int64(x)
        gradient_tape/size = Prod:int64(gradient_tape/shape, gradient_tape/axes)
        count = Cast(gradient_tape/size)
        flat = Reshape(x, gradient_tape/shape)
        product = MatMul(flat, w/read)
        loss = Sum(product, gradient_tape/axes)
        scaled = DivNoNan(loss, count)
        total/handle = VarHandleOp()
        total/update = AssignAddVariableOp(total/handle, scaled)
        average/handle = VarHandleOp()
        average/update = AssignSubVariableOp(average/handle, product)
        gradient_tape/seed = Const()
        gradient_tape/scaled = DivNoNan(gradient_tape/seed, count)
        gradient_tape/multiples = Const:int64()
        gradient_tape/tile = Tile(gradient_tape/scaled, gradient_tape/multiples)
        gradient_tape/w = MatMul(flat, gradient_tape/tile)
        gradient_tape/unread = Const()
        rate = Const()
        step = Mul(rate, gradient_tape/w)
        update = AssignSubVariableOp(w/handle, step)
        gradient_tape/b = Const()
        b/handle = VarHandleOp()
        b/read = ReadVariableOp(b/handle)
        lr/handle = VarHandleOp()
        lr/read = ReadVariableOp(lr/handle)
        momentum/handle = VarHandleOp()
        momentum/step = Mul(lr/read, gradient_tape/w)
        momentum/update = AssignAddVariableOp(momentum/handle, momentum/step)
        b/step = Mul(lr/read, gradient_tape/b)
        b/update = AssignSubVariableOp(b/handle, b/step)
        out = Add(scaled, b/read)
        """
    )
    assert found[BACKWARD] == {
        "gradient_tape/seed", "gradient_tape/scaled", "gradient_tape/multiples", "gradient_tape/tile",
        "gradient_tape/w", "gradient_tape/unread",
    }  # fmt: skip
    # The gradient of b was folded to a constant.
    assert found[OPTIMIZER] == {
        "rate", "step", "update", "lr/handle", "lr/read", "b/step", "b/update", "gradient_tape/b",
        "momentum/handle", "momentum/step", "momentum/update",
    }  # fmt: skip


def test_results_that_only_wait_for_updates_belong_to_the_optimizer(phases_of):
    found = phases_of(STEP + "waits = _Retval(^adam/w/update)\nreturned = _Retval(loss, ^adam/w/update)")
    assert "waits" in found[OPTIMIZER]
    assert "returned" in found[FORWARD]


PENALTY = """
x = Placeholder()
w/handle = VarHandleOp()
w/read = ReadVariableOp(w/handle)
product = MatMul(x, w/read)
score = Tanh(product)
ones = Const()
gradient_tape/score = TanhGrad(score, ones)
gradient_tape/x = MatMul(gradient_tape/score, w/read)
norm = Square(gradient_tape/x)
distance = Sub(norm, one)
one = Const()
penalty = Mean(distance)
mean = Mean(score)
loss = AddN(mean, penalty)
gradient_tape/seed = Const()
gradient_tape/penalty = Mul(gradient_tape/seed, distance)
gradient_tape/norm = Mul(gradient_tape/penalty, gradient_tape/x)
gradient_tape/gradient_tape/x = MatMul(gradient_tape/norm, w/read)
gradient_tape/w = MatMul(x, gradient_tape/gradient_tape/x)
update = AssignSubVariableOp(w/handle, gradient_tape/w)
"""


@pytest.mark.parametrize("read", ["", "out = Identity(loss)"])
def test_a_loss_with_a_penalty_on_gradients_is_forward(phases_of, read):
    """Its gradients are gradients of gradients. What the gradients of the input need is forward too."""
    found = phases_of(PENALTY + read)
    losses = {"norm", "distance", "one", "penalty", "mean", "loss"} | ({"out"} if read else set())
    assert found[FORWARD] == {"x", "w/handle", "w/read", "product", "score"} | losses
    assert found[OPTIMIZER] == {"update"}


def test_what_the_gradients_in_a_loss_need_is_forward(phases_of):
    """Nothing but the gradient of the input reads the score."""
    alone = PENALTY.replace("mean = Mean(score)\n", "").replace("AddN(mean, penalty)", "Identity(penalty)")
    found = phases_of(alone)
    assert found[FORWARD] == {
        "x", "w/handle", "w/read", "product", "score", "norm", "distance", "one", "penalty", "loss",
    }  # fmt: skip


def test_the_forward_pass_of_a_second_loss_that_was_pruned_stays(phases_of):
    found = phases_of(
        STEP
        + """
        second/read = ReadVariableOp(w/handle, ^adam/w/update)
        second/logits = MatMul(x, second/read)
        second/entropy = SparseSoftmaxCrossEntropyWithLogits(second/logits, x)
        gradient_tape/second/seed = Const()
        gradient_tape/second/mul = Mul(gradient_tape/second/seed, second/entropy:1)
        gradient_tape/second/w = MatMul(x, gradient_tape/second/mul)
        second/update = AssignSubVariableOp(w/handle, gradient_tape/second/w)
        out = Identity(loss)
        """
    )
    assert found[FORWARD] == FORWARD_OF_STEP | {"second/read", "second/logits", "second/entropy", "out"}


def test_what_decides_about_an_update_belongs_to_the_optimizer(phases_of):
    """TensorFlow turns a condition into switches, which have the names of their inputs."""
    found = phases_of(
        """
        x = Placeholder()
        w/handle = VarHandleOp()
        w/read = ReadVariableOp(w/handle)
        loss = MatMul(x, w/read)
        gradient_tape/w = MatMul(x, loss)
        finite = IsFinite(gradient_tape/w)
        all = All(finite)
        gradient_tape/w/_1 = Switch(gradient_tape/w, all)
        w/handle/_2 = Switch(w/handle, all)
        update = AssignSubVariableOp(w/handle/_2:1, gradient_tape/w/_1:1)
        """
    )
    assert found == {
        FORWARD: {"x", "w/handle", "w/read", "loss"},
        BACKWARD: {"gradient_tape/w", "gradient_tape/w/_1"},
        OPTIMIZER: {"finite", "all", "w/handle/_2", "update"},
    }


def test_a_second_loss_after_an_inner_step_is_forward(phases_of):
    """A step of meta-learning: the weights of the second loss are computed from gradients of the first."""
    found = phases_of(
        """
        x = Placeholder()
        w/handle = VarHandleOp()
        w/read = ReadVariableOp(w/handle)
        first = MatMul(x, w/read)
        ones = Const()
        gradient_tape/first = MatMul(x, ones)
        inner = Mul(rate, gradient_tape/first)
        rate = Const()
        fast = Sub(w/read, inner)
        second = MatMul(x, fast)
        loss = Mean(second)
        out = Identity(loss)
        gradient_tape/second = Mul(second, ones)
        gradient_tape/w = MatMul(x, gradient_tape/second)
        norm = L2Loss(gradient_tape/w)
        norm/out = Identity(norm)
        update = AssignSubVariableOp(w/handle, gradient_tape/w)
        """
    )
    forward = {"x", "w/handle", "w/read", "first", "inner", "rate", "fast", "second", "loss", "out"}
    assert found[FORWARD] == forward
    assert {"norm", "norm/out"} <= found[BACKWARD]


def test_functions_have_the_phase_of_their_callers(phases_of):
    found = phases_of(
        """
        x = Placeholder()
        call = StatefulPartitionedCall[forward](x)
        loss = Mean(call)
        ones = Const()
        back = PartitionedCall[__backward_forward_1](ones, call:1)
        w/handle = VarHandleOp()
        apply = If[apply_if_finite](w/handle, back)
        """,
        forward="a = Relu()",
        __backward_forward_1="b = Mul()\nc = PartitionedCall[helper](b)",
        helper="d = Neg()",
        apply_if_finite="e = AssignSubVariableOp()",
    )
    assert found == {
        FORWARD: {"x", "call", "loss", "forward::a"},
        BACKWARD: {"ones", "back", "__backward_forward_1::b", "__backward_forward_1::c", "helper::d"},
        OPTIMIZER: {"w/handle", "apply", "apply_if_finite::e"},
    }


def test_without_gradients_everything_is_forward(phases_of):
    found = phases_of(
        """
        x = Placeholder()
        gradients_of_colour/blend = Mul(x, x)
        transpose = Conv2DBackpropInput(x, x, x)
        w/handle = VarHandleOp()
        w/Assign = AssignVariableOp(w/handle, transpose)
        """
    )
    assert not found[BACKWARD] | found[OPTIMIZER]


def test_a_gradient_is_recognised_by_its_op_where_its_scope_has_another_name(phases_of):
    found = phases_of(
        """
        x = Placeholder()
        loss = Relu(x)
        my_grads/ReluGrad = ReluGrad(ones, loss)
        ones = Const()
        w/handle = VarHandleOp()
        update = AssignSubVariableOp(w/handle, my_grads/ReluGrad)
        """
    )
    assert found == {
        FORWARD: {"x", "loss"},
        BACKWARD: {"ones", "my_grads/ReluGrad"},
        OPTIMIZER: {"w/handle", "update"},
    }
