"""Why memory ran out: each rule on the least evidence that it needs, and what must not set it off."""

from dataclasses import replace

import pytest

from lowtide.oom.advice import on_gpu
from lowtide.oom.cause import find_cause
from lowtide.oom.evidence import Evidence, Request
from lowtide.tide.owner import Owner

MIB = 1 << 20
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


def evidence(asked=100, limit=1000, in_use=950, free=50, largest=40, **changes) -> Evidence:
    fields = {
        "request": Request(bytes=asked * MIB),
        "limit_bytes": limit * MIB,
        "in_use_bytes": in_use * MIB,
        "free_bytes": free * MIB,
        "largest_free_bytes": largest * MIB,
    }
    return Evidence(**(fields | changes))


def held(**kinds: int) -> tuple[Owner, ...]:
    return tuple(Owner(bytes=size * MIB, kind=kind) for kind, size in kinds.items())


def growing(per_step: float, steps: int = 12, start: float = 300) -> tuple[tuple[int, int], ...]:
    return tuple((step, int((start + per_step * step) * MIB)) for step in range(1, steps + 1))


def test_a_step_that_is_too_large():
    cause = find_cause(evidence(holders=held(activations=700, weights=150, gradients=100), batch_size=64, step=1))
    assert cause.name == "batch"
    assert "at a batch of 64" in cause.sentence
    assert "800 MiB" in cause.sentence
    assert "looks like" not in cause.sentence
    assert "try 32" in cause.advice[0]


@pytest.mark.parametrize(("largest", "words"), [(48, "a batch of 48 or less"), (0, "not even a batch of 1")])
def test_the_largest_batch_is_the_first_advice(largest, words):
    cause = find_cause(evidence(holders=held(activations=900), largest_batch_size=largest))
    assert words in cause.advice[0]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            {"planned_slowdown": 0.071, "largest_batch_size": 48},
            ('budget="1000MiB"', "about 7% more time", "1000MiB checks it"),
        ),
        ({"planned_slowdown": 0.001}, ('@lt.function(budget="1000MiB")', "about the same time")),
        # Only what was planned is offered: micro-batches may not be possible.
        ({"largest_batch_size": 48}, ("lowtide plan TARGET --budget 1000MiB", "whether a plan fits")),
        ({}, ("lowtide plan TARGET --budget 1000MiB",)),
    ],
)
def test_a_batch_can_be_kept(known, words):
    advice = find_cause(evidence(holders=held(activations=900), **known)).advice[1]
    assert advice.startswith("to keep the batch: ")
    assert all(word in advice for word in words)


def test_enough_is_free_but_in_pieces():
    cause = find_cause(evidence(in_use=700, free=300, largest=90, holders=held(activations=400, weights=300), step=7))
    assert cause.name == "fragmentation"
    assert "300 MiB were free" in cause.sentence
    assert "the largest of 90 MiB" in cause.sentence
    assert not any("cuda_malloc_async" in line for line in cause.advice)
    on_device = evidence(in_use=700, free=300, largest=90, request=Request(100 * MIB, device=GPU))
    assert "TF_GPU_ALLOCATOR=cuda_malloc_async" in find_cause(on_device).advice[0]


@pytest.mark.parametrize(("free", "largest"), [(99, 40), (300, 100), (300, 300)])
def test_fragmentation_needs_enough_bytes_and_no_block(free, largest):
    assert find_cause(evidence(in_use=1000 - free, free=free, largest=largest)).name != "fragmentation"


def test_a_first_step_that_never_fitted_is_not_fragmentation():
    facts = evidence(in_use=850, free=150, largest=90, holders=held(activations=700, weights=150), step=1)
    assert find_cause(facts).name == "batch"
    assert find_cause(replace(facts, step=9)).name == "fragmentation"
    assert find_cause(replace(facts, step=9, step_peak_bytes=1200 * MIB)).name == "batch"


def test_an_eager_step_that_was_never_complete_is_not_fragmentation():
    holders = held(activations=40, weights=10, other=60)
    facts = evidence(in_use=110, free=890, largest=90, holders=holders, batch_size=64, is_eager=True, is_recorded=True)
    for step in (1, 2):
        cause = find_cause(replace(facts, step=step, request_kind="activations"))
        assert cause.name == "batch"
        assert "at a batch of 64" in cause.sentence
        assert "90 MiB was free in one piece" in cause.sentence
    # Two complete steps had room, and what is no tensor of the step may be anything.
    assert find_cause(replace(facts, step=3, request_kind="activations")).name == "fragmentation"
    assert find_cause(replace(facts, step=2, request_kind=None)).name == "fragmentation"


def test_a_model_that_is_called_outside_of_a_step_is_not_fragmentation():
    """As a forward pass without a tape: what the rest of it needs is not known."""
    facts = evidence(request=Request(140 * MIB, op="Mul"), in_use=840, free=159, largest=91, holders=held(other=400))
    cause = find_cause(replace(facts, is_eager=True, is_recorded=True))
    assert cause.name == "unknown"
    assert "no more than 91 MiB could be had in one piece" in cause.sentence
    assert "@tf.function" in cause.advice[0]


def test_other_memory_than_the_steps_is_not_the_batch():
    holders = (*held(activations=40, other=300), *held(other=300))
    facts = evidence(in_use=640, free=360, largest=90, holders=holders, is_eager=True, is_recorded=True, step=1)
    assert find_cause(replace(facts, request_kind="activations")).name == "unknown"


def test_advice_for_an_eager_step_promises_nothing_that_was_not_computed():
    facts = evidence(holders=held(activations=900), batch_size=64, is_eager=True, is_recorded=True)
    advice = find_cause(facts).advice
    assert "@tf.function" in advice[0]
    assert '@lt.function(budget="1000MiB")' in advice[1]
    assert advice[2] == "use a smaller batch than 64"


@pytest.mark.parametrize(
    "facts",
    [
        evidence(samples=growing(20), in_use=800),
        evidence(in_use=640, holders=held(other=600)),
        evidence(in_use=640, holders=held(other=600), is_eager=True),
        Evidence(Request(), exhausted="machine"),
        Evidence(Request(), exhausted="container"),
    ],
)
def test_a_recorded_run_gets_no_advice_to_record(facts):
    assert not any("lowtide run" in line for line in find_cause(replace(facts, is_recorded=True)).advice)


def test_growth_from_step_to_step_is_a_leak_whatever_else_is_true():
    facts = evidence(in_use=800, free=200, largest=90, holders=held(activations=700, weights=100), samples=growing(20))
    cause = find_cause(facts)
    assert cause.name == "leak"
    assert "20 MiB a step" in cause.sentence
    assert "float(loss)" in cause.advice[0]


def test_a_leak_every_tenth_step_is_one_too():
    samples = tuple((step, (300 + 60 * (step // 10)) * MIB) for step in range(1, 60))
    assert find_cause(evidence(samples=samples)).name == "leak"


def test_a_leak_in_noisy_samples():
    noise = [0, 90, 20, 60, 110, 5, 70]
    samples = tuple((step, (300 + 6 * step + noise[step % 7]) * MIB) for step in range(1, 80))
    assert find_cause(evidence(samples=samples)).name == "leak"


@pytest.mark.parametrize(
    "samples",
    [
        growing(0),
        growing(0.5),
        growing(20, steps=3),
        # What the optimizer keeps is created in the first step.
        ((1, 100 * MIB), (2, 700 * MIB), (3, 700 * MIB), (4, 700 * MIB), (5, 700 * MIB)),
        # Something new is there from some step on.
        tuple((step, (300 if step < 20 else 700) * MIB) for step in range(1, 40)),
        # Up and down.
        tuple((step, (300 + 300 * (step % 2)) * MIB) for step in range(1, 40)),
        # Garbage that is collected now and then.
        tuple((step, (300 + 60 * (step % 8)) * MIB) for step in range(1, 40)),
    ],
    ids=["flat", "hardly", "too few", "first step", "one jump", "swinging", "sawtooth"],
)
def test_programs_without_a_leak(samples):
    assert find_cause(evidence(samples=samples)).name != "leak"


def test_many_tensors_that_belong_to_no_step():
    kept = tuple(Owner(bytes=20 * MIB, kind="other", shape=(5, MIB), dtype="float32") for _ in range(30))
    cause = find_cause(evidence(holders=(*kept, *held(weights=200))))
    assert cause.name == "leak"
    assert "30 tensors of 20 MiB" in cause.sentence
    # No number stands for a tensor of 20 MiB.
    assert "float(loss)" not in " ".join(cause.advice)
    assert "whole tensors in a list" in cause.advice[0]
    assert find_cause(evidence(holders=(*kept[:10], *held(weights=600)))).name != "leak"


def test_a_log_shows_a_leak_only_where_ops_run_one_by_one():
    holders = (Owner(bytes=800 * MIB, count=200), Owner(bytes=10 * MIB))
    eager = evidence(request=Request(4 * MIB, op="AddV2"), holders=holders, free=3, largest=2)
    cause = find_cause(eager)
    assert cause.name == "leak"
    assert cause.sentence.startswith("looks like")
    in_graph = replace(eager, request=Request(4 * MIB, shape=(64, 16384), node="rnn/while/body/MatMul"))
    assert find_cause(in_graph).name == "batch"


def test_one_array_that_is_asked_for():
    facts = evidence(asked=600, in_use=500, free=500, largest=500)
    assert find_cause(replace(facts, request_kind="constants")).name == "constant"
    eager = replace(facts, request=Request(600 * MIB, op="_EagerConst"))
    cause = find_cause(eager)
    assert cause.name == "constant"
    assert "600 MiB is asked for at once, 60%" in cause.sentence
    assert "tf.data" in cause.advice[0]
    unlimited = Evidence(eager.request)
    assert find_cause(unlimited).sentence.startswith("looks like")


def test_a_small_array_is_not_what_filled_the_memory():
    assert find_cause(evidence(asked=60, request=Request(60 * MIB, op="_EagerConst"))).name == "unknown"


@pytest.mark.parametrize("kind", ["constants", "input", "other"])
def test_one_array_that_is_held(kind):
    holder = Owner(bytes=600 * MIB, kind=kind, name="data:0", shape=(50_000, 3072), dtype="float32")
    cause = find_cause(evidence(holders=(holder, *held(activations=300)), batch_size=64))
    assert cause.name == "constant"
    assert "data:0" in cause.sentence


def test_a_batch_of_rows_is_not_a_constant():
    holder = Owner(bytes=600 * MIB, kind="input", shape=(4096, 3072))
    assert find_cause(evidence(holders=(holder, *held(activations=300)), batch_size=4096)).name == "batch"


def test_a_model_that_does_not_fit():
    cause = find_cause(evidence(holders=held(weights=500, optimizer=400, activations=50)))
    assert cause.name == "weights"
    assert "900 MiB" in cause.sentence
    creating = evidence(holders=held(weights=500), request_kind="optimizer", in_use=500, free=90, largest=90)
    assert find_cause(creating).name == "weights"
    log = Evidence(Request(400 * MIB, (25088, 4096), node="vgg/fc6/weights/Initializer/random_uniform/RandomUniform"))
    assert find_cause(log).sentence.startswith("looks like the model alone")


def test_gradients_of_weights_do_not_depend_on_the_batch():
    """As after a wide Dense layer, where the gradients and copies of them are as large as the weights."""
    shape = (25088, 256)
    holders = (
        Owner(bytes=330 * MIB, kind="weights", shape=shape),
        Owner(bytes=220 * MIB, kind="optimizer", shape=shape),
        Owner(bytes=280 * MIB, kind="gradients", shape=shape),
        *held(activations=50),
    )
    facts = evidence(holders=holders, batch_size=64, is_eager=True, is_recorded=True, step=1)
    cause = find_cause(facts)
    assert cause.name == "weights"
    assert cause.sentence.startswith("a smaller batch would not help")
    assert "830 MiB, 83% of what there is" in cause.sentence
    assert "@tf.function" in cause.advice[0]
    assert "a smaller batch does not help" in cause.advice[1]
    asked = replace(facts, request=Request(140 * MIB, shape), holders=holders[1:])
    assert find_cause(asked).name != "weights"
    asked = replace(asked, request=Request(320 * MIB, shape))
    assert "and 320 MiB more was asked for" in find_cause(asked).sentence
    # A smaller batch was found to fit; or the shape is that of activations too.
    assert find_cause(replace(facts, largest_batch_size=8)).name != "weights"
    assert find_cause(replace(facts, batch_size=25088)).name != "weights"


def test_a_device_that_gives_less_than_the_limit():
    cause = find_cause(evidence(asked=100, limit=1000, in_use=300, free=700, largest=600, extension_bytes=600 * MIB))
    assert cause.name == "device"
    assert "nvidia-smi" in cause.advice[0]
    assert find_cause(evidence(asked=100, extension_bytes=99 * MIB)).name != "device"


def test_one_request_that_is_larger_than_all():
    compiled = evidence(asked=5000, request=Request(5000 * MIB, node="cluster_0_1/xla_run"))
    assert find_cause(compiled).name == "batch"
    assert "one request is larger than all there is" in find_cause(compiled).sentence
    created = evidence(asked=5000, request=Request(5000 * MIB, op="RandomStandardNormal"))
    assert find_cause(created).name == "constant"


def test_a_log_supports_only_cautious_statements_about_a_step():
    cause = find_cause(evidence(request=Request(100 * MIB, (64, 1024), "float32", node="model/dense/MatMul")))
    assert cause.name == "batch"
    assert cause.sentence == (
        "looks like the step is too large: 100 MiB was asked for and no more than 40 MiB could be had in one piece, "
        "of 1000 MiB in all"
    )


def test_what_an_optimizer_asks_for_says_nothing_about_the_batch():
    for node in ("training_10/Adam/mul_23", "adamw_1/Mul", "Adagrad/update/mul"):
        assert find_cause(evidence(request=Request(100 * MIB, (25088, 4096), node=node))).name == "unknown"
    assert find_cause(evidence(request=Request(100 * MIB, (64, 4096), node="adapter/dense/MatMul"))).name == "batch"


def test_a_compiled_step_asks_for_its_workspace_at_once():
    assert find_cause(Evidence(Request(5000 * MIB), compiled=True)).sentence == (
        "looks like the step is too large: 4.88 GiB was asked for"
    )


def test_no_op_was_running():
    array = evidence(asked=500, in_use=0, free=300, largest=300, limit=300, outside_ops=True)
    assert find_cause(array).name == "constant"
    assert find_cause(array).sentence.startswith("looks like one oversized array")
    assert find_cause(replace(array, request=Request(10 * MIB), in_use_bytes=299 * MIB)).name == "unknown"


def test_too_little_evidence_gives_no_cause():
    assert find_cause(Evidence(Request())).name == "unknown"
    assert find_cause(Evidence(Request(bytes=MIB))).sentence == "out of memory: 1 MiB was asked for"
    cause = find_cause(evidence())
    assert cause.name == "unknown"
    assert cause.advice


def test_memory_of_a_gpu():
    assert on_gpu(Request(device=GPU))
    assert on_gpu(Request(allocator="GPU_0_bfc"))
    assert not on_gpu(Request(allocator="bfc_cpu_allocator_for_gpu", device="/device:CPU:0"))
    assert not on_gpu(Request(allocator="gpu_host_bfc"))
    host = find_cause(Evidence(Request(MIB, allocator="gpu_host_bfc")))
    assert host.name == "host"
    assert "TF_GPU_HOST_MEM_LIMIT_IN_MB" in host.advice[0]
