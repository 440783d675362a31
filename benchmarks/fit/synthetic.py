"""Training steps without TensorFlow: a forward pass is stated op by op, and the backward pass follows from it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from lowtide.planning.problem import PlanningProblem

# What the gradient of an op reads besides the gradient that arrives: what it read, what it made, nothing, or both.
INPUT, OUTPUT, NOTHING, BOTH = "input", "output", "nothing", "both"


@dataclass
class _Op:
    inputs: tuple[int, ...]
    size: int
    us: float
    needs: str
    backward: float
    workspace: int
    in_place: bool
    can_remat: bool


@dataclass
class Net:
    """A forward pass; `problem()` is its training step."""

    ops: list[_Op] = field(default_factory=list)

    def op(
        self,
        *inputs: int,
        size: int,
        us: float,
        needs: str = INPUT,
        backward: float = 2.0,
        workspace: int = 0,
        in_place: bool = False,
        can_remat: bool = True,
    ) -> int:
        self.ops.append(_Op(inputs, size, us, needs, backward, workspace, in_place, can_remat))
        return len(self.ops) - 1

    def problem(self) -> PlanningProblem:
        step = PlanningProblem()
        for index, op in enumerate(self.ops):
            takes = tuple((index, each) for each in op.inputs[:1] if op.in_place and self.ops[each].size == op.size)
            _task(step, op.inputs, [op.size], op.us, op.workspace, takes, op.can_remat)
        gradients: dict[int, int] = {}
        for index in reversed(range(len(self.ops))):
            self._gradient(step, index, gradients)
        step.total_us = sum(step.cost_us)
        return step

    def _gradient(self, step: PlanningProblem, index: int, gradients: dict[int, int]) -> None:
        op = self.ops[index]
        reads = [] if index not in gradients else [gradients[index]]
        if op.needs in (INPUT, BOTH):
            reads += op.inputs
        if op.needs in (OUTPUT, BOTH):
            reads.append(index)
        targets = list(dict.fromkeys(op.inputs))
        made = _task(
            step, reads, [self.ops[each].size for each in targets], op.us * op.backward, op.workspace, (), False
        )
        for target, gradient in zip(targets, made, strict=True):
            if target in gradients:
                both = (gradients[target], gradient)
                total = len(step.sizes)
                takes = ((total, both[0]), (total, both[1]))
                size = self.ops[target].size
                (gradients[target],) = _task(step, both, [size], size / 50_000, 0, takes, True)
            else:
                gradients[target] = gradient


def _task(
    step: PlanningProblem,
    reads: list[int] | tuple[int, ...],
    sizes: list[int],
    us: float,
    workspace: int,
    takes: tuple[tuple[int, int], ...],
    can_remat: bool,
) -> list[int]:
    made = list(range(len(step.sizes), len(step.sizes) + len(sizes)))
    step.reads.append(tuple(dict.fromkeys(reads)))
    step.makes.append(tuple(made))
    step.reuses.append(takes)
    step.cost_us.append(us)
    step.workspace.append(workspace)
    step.can_remat.append(can_remat)
    step.sizes += sizes
    step.lasting += [False] * len(sizes)
    return made


def chain(depth: int, seed: int | None = None) -> Net:
    """Layers one after another: equal ones, or with a seed, of varied sizes and costs."""
    draw = random.Random(seed)
    net = Net()
    last: tuple[int, ...] = ()
    for _ in range(depth):
        size, us = (100, 10.0) if seed is None else (draw.randint(20, 200), draw.uniform(2, 30))
        last = (net.op(*last, size=size, us=us),)
    return net


def residual(blocks: int, seed: int | None = None) -> Net:
    """Two products and a sum with what came in, again and again."""
    draw = random.Random(seed)
    net = Net()
    x = net.op(size=100, us=10.0)
    for _ in range(blocks):
        scale = 1.0 if seed is None else draw.uniform(0.3, 2.0)
        y = net.op(x, size=int(100 * scale), us=10.0 * scale)
        y = net.op(y, size=100, us=12.0 * scale)
        x = net.op(x, y, size=100, us=1.0, needs=NOTHING, backward=1.0)
    return net


def conv_bn_relu(depth: int, seed: int | None = None, stage: int = 4) -> Net:
    """Convolutions are expensive; what normalises and cuts them is cheap and as large."""
    draw = random.Random(seed)
    net = Net()
    x: tuple[int, ...] = ()
    size, us = 1600, 100.0
    for layer in range(depth):
        if layer and layer % stage == 0:
            size //= 2
        vary = 1.0 if seed is None else draw.uniform(0.6, 1.6)
        y = net.op(*x, size=size, us=us * vary, workspace=size // 3)
        y = net.op(y, size=size, us=4.0, needs=INPUT, backward=2.0)
        x = (net.op(y, size=size, us=2.0, needs=OUTPUT, backward=1.0, in_place=True),)
    return net


def u_shape(levels: int, seed: int | None = None) -> Net:
    """Down and up again, with long skips."""
    draw = random.Random(seed)
    net = Net()
    skips = []
    x: tuple[int, ...] = ()
    for level in range(levels):
        size = 1024 >> level
        vary = 1.0 if seed is None else draw.uniform(0.5, 2.0)
        a = net.op(*x, size=size, us=40.0 * vary)
        b = net.op(a, size=size, us=3.0, needs=OUTPUT, backward=1.0)
        skips.append(b)
        x = (net.op(b, size=size // 2, us=5.0, needs=BOTH),)
    for level in reversed(range(levels)):
        size = 1024 >> level
        up = net.op(*x, size=size, us=10.0, needs=NOTHING)
        both = net.op(up, skips[level], size=2 * size, us=4.0, needs=NOTHING, backward=1.0)
        y = net.op(both, size=size, us=60.0)
        x = (net.op(y, size=size, us=3.0, needs=OUTPUT, backward=1.0),)
    return net


def random_net(count: int, seed: int) -> Net:
    """A random graph of ops that read the recent ones, with varied sizes, costs and needs."""
    draw = random.Random(seed)
    net = Net()
    read: set[int] = set()
    for index in range(count):
        recent = list(range(max(0, index - 5), index))
        inputs = draw.sample(recent, min(len(recent), draw.choice((1, 1, 1, 2, 2, 3))))
        if index == count - 1:
            inputs = sorted(set(inputs) | (set(range(index)) - read))
        read.update(inputs)
        us = draw.choice((1.0, 2.0, 5.0, 20.0, 60.0)) * draw.uniform(0.7, 1.3)
        needs = draw.choice((INPUT, INPUT, OUTPUT, NOTHING, BOTH))
        net.op(
            *inputs, size=draw.choice((50, 100, 100, 200, 400)), us=us, needs=needs, workspace=draw.choice((0, 0, 50))
        )
    return net


def transformer(layers: int, tokens: int = 512, width: int = 256, heads: int = 8) -> Net:
    """Blocks of about thirty tensors: products, attention, and much that is cheap."""
    net = Net()
    plain, wide, square = tokens * width * 4, tokens * width * 16, tokens * tokens * heads * 4
    product, cheap = tokens * width * width / 2.5e4, plain / 1e4

    def norm(x: int) -> int:
        centred = net.op(x, size=plain, us=cheap, needs=NOTHING)
        squared = net.op(centred, size=plain, us=cheap, needs=INPUT)
        scaled = net.op(centred, squared, size=plain, us=cheap, needs=BOTH)
        return net.op(scaled, size=plain, us=cheap, needs=INPUT)

    def dense(x: int, size: int, times: float, **how: float) -> int:
        y = net.op(x, size=size, us=product * times)
        return net.op(y, size=size, us=cheap * size / plain, needs=NOTHING, in_place=True)

    x = net.op(size=plain, us=cheap)
    for _ in range(layers):
        y = norm(x)
        query, key, value = (
            net.op(dense(y, plain, 1.0), size=plain, us=cheap, needs=NOTHING, backward=1.0) for _ in range(3)
        )
        scores = net.op(query, key, size=square, us=product * tokens / width)
        scores = net.op(scores, size=square, us=cheap * square / plain, needs=NOTHING, in_place=True)
        scores = net.op(scores, size=square, us=4 * cheap * square / plain, needs=OUTPUT)
        mask = net.op(size=square // 4, us=2 * cheap * square / plain, needs=NOTHING, backward=0.0)
        dropped = net.op(scores, mask, size=square, us=cheap * square / plain, needs=INPUT)
        mixed = net.op(dropped, value, size=plain, us=product * tokens / width)
        mixed = net.op(mixed, size=plain, us=cheap, needs=NOTHING, backward=1.0)
        x = net.op(x, dense(mixed, plain, 1.0), size=plain, us=cheap, needs=NOTHING, backward=0.5)
        y = dense(norm(x), wide, 4.0)
        cubed = net.op(y, size=wide, us=8 * cheap, needs=INPUT)
        y = net.op(y, cubed, size=wide, us=4 * cheap, needs=INPUT)
        x = net.op(x, dense(y, plain, 4.0), size=plain, us=cheap, needs=NOTHING, backward=0.5)
    return net


FAMILIES: dict[str, Callable[[int, int | None], Net]] = {
    "chain": chain,
    "residual": residual,
    "conv_bn_relu": conv_bn_relu,
    "u_shape": u_shape,
}
