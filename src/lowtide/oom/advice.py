"""What to do when memory ran out, for each cause."""

from __future__ import annotations

from lowtide.oom.evidence import Evidence, Request, group_alike

# The allocators of pinned memory, and the word for each in the environment variable that limits it.
PINNED_ALLOCATORS = {"cuda_host_bfc": "CUDA", "gpu_host_bfc": "GPU"}
_PINNED_LIMIT = "TF_GPU_HOST_MEM_LIMIT_IN_MB"

_PREDICT_DATASET = (
    "lowtide predict train.py:dataset shows what each stage of a tf.data pipeline holds: shuffle, cache, prefetch"
)

# The least that the allocator gives out, for scalars too.
_SCALAR_BYTES = 256


def advise(cause: str, evidence: Evidence) -> tuple[str, ...]:
    """Return the advice for a cause by its name, the most useful first."""
    lines = _ADVICE[cause](evidence)
    word = PINNED_ALLOCATORS.get(evidence.request.allocator or "")
    if word is not None:
        variable = _PINNED_LIMIT.replace("GPU", word)
        lines.insert(0, f"raise the limit of pinned memory, which is {variable}, or prefetch less")
    return tuple(lines)


def on_gpu(request: Request) -> bool:
    """Whether the memory of a GPU ran out."""
    # The name of the CPU's allocator ends with _for_gpu: bfc_cpu_allocator_for_gpu.
    device, allocator = (request.device or "").upper(), (request.allocator or "").upper()
    is_pinned = request.allocator in PINNED_ALLOCATORS
    return not is_pinned and ("GPU:" in device or allocator.startswith("GPU_"))


def _smaller_batch(evidence: Evidence) -> str:
    largest, batch = evidence.largest_batch_size, evidence.batch_size
    if largest == 0:
        return "not even a batch of 1 fits: use a smaller model or input, or a larger device"
    if largest is not None:
        return f"use a batch of {largest:,} or less: that is the largest that fits"
    if batch is not None and batch > 1:
        # How much an eager step needs was not computed, so half of the batch may be too much.
        return f"use a smaller batch than {batch:,}" + (f": try {batch // 2:,}" if not evidence.is_eager else "")
    return "use a smaller batch; lowtide predict TARGET --budget BYTES finds the largest that fits"


def _same_batch(evidence: Evidence) -> str:
    """Return how to keep the batch: with a plan, in micro-batches, or by asking the planner."""
    limit, slowdown = evidence.limit_bytes, evidence.planned_slowdown
    budget = _budget(limit)
    if slowdown is not None:
        time = "the same time" if slowdown < 0.005 else f"{slowdown:.0%} more time"
        return (
            f'to keep the batch: lt.fit_in(model, budget="{budget}"), or @lt.function(budget="{budget}") on a step of '
            "your own, runs the step in another order and computes tensors again; the planner estimates that it fits, "
            f"in about {time}, and lowtide plan TARGET --budget {budget} checks it"
        )
    return f"to keep the batch: lowtide plan TARGET --budget {budget} shows whether a plan fits, and what it costs"


def _budget(limit: int | None) -> str:
    """Return a limit as it is written in a program, rounded down, so that the budget is never above the limit."""
    return "BYTES" if limit is None else f"{limit >> 20}MiB" if limit >= 1 << 20 else str(limit)


def _for_eager_step() -> str:
    return (
        "wrap the step in @tf.function, or with fit leave out run_eagerly=True: a graph frees each tensor after its "
        "last use and reuses buffers; lowtide predict says what it would take, without running it"
    )


def _for_batch(evidence: Evidence) -> list[str]:
    if evidence.is_eager:
        return [
            _for_eager_step(),
            (
                f'to keep the batch: @lt.function(budget="{_budget(evidence.limit_bytes)}") in place of @tf.function '
                "searches for a plan that keeps the step within the limit, and says so if there is none"
            ),
            _smaller_batch(evidence),
            "shorter sequences or smaller images lower it too; mixed precision saves some",
        ]
    return [
        _smaller_batch(evidence),
        _same_batch(evidence),
        "shorter sequences or smaller images lower it too; mixed precision saves some",
    ]


def _for_fragmentation(evidence: Evidence) -> list[str]:
    if not on_gpu(evidence.request):
        return [
            "allocate what is large and lasting first, and keep shapes the same from step to step",
            "pad batches to one shape: drop_remainder=True, or bucketed sequence lengths",
            _smaller_batch(evidence),
        ]
    return [
        "set TF_GPU_ALLOCATOR=cuda_malloc_async before TensorFlow is imported: it does not fragment in this way",
        "keep shapes the same from step to step: drop_remainder=True, or bucketed sequence lengths",
        "without tf.config.experimental.set_memory_growth the allocator takes one region, which fragments less",
        _smaller_batch(evidence),
    ]


def _for_leak(evidence: Evidence) -> list[str]:
    groups = group_alike(holder for holder in evidence.holders if holder.kind == "other")
    kept = next((group for group in groups if group.count > 1), None)
    if kept is not None and kept.bytes // kept.count > _SCALAR_BYTES:
        first = (
            "do not keep whole tensors in a list or a dictionary: keep the numbers you need of them, "
            "or write them to a file"
        )
    else:
        first = "keep numbers, not tensors, from one step to the next: losses.append(float(loss))"
    lines = [
        first,
        "do not build models, optimizers or tf.functions inside the loop, and do not concatenate onto a tensor in it",
    ]
    return lines + ["run lowtide run on the script: it shows what grows from step to step"] * (not evidence.is_recorded)


def _for_constant(evidence: Evidence) -> list[str]:
    if evidence.request.allocator == "numpy":
        return [
            "leave the data in files: lt.feed.arrays, images, records or table read one batch at a time",
            "keep the type of the files and convert in Dataset.map: float32 takes four times the bytes of uint8",
            _PREDICT_DATASET,
        ]
    return [
        "stream the data: lt.feed.arrays(x, y, budget=...) is a tf.data.Dataset that copies one batch at a time",
        "do not pass the whole array to tf.constant or from_tensor_slices: both copy it",
        "do not let a tf.function close over an array: it becomes a constant of the graph",
    ]


def _for_weights(evidence: Evidence) -> list[str]:
    return [
        *([_for_eager_step()] if evidence.is_eager else []),
        "a smaller batch does not help: use a smaller model, or one that is spread over devices",
        "an optimizer that keeps less: SGD without momentum keeps nothing, Adam two numbers for each weight",
        "store weights as bfloat16: keras.config.set_dtype_policy('bfloat16')",
    ]


def _for_device(evidence: Evidence) -> list[str]:
    lines = [
        "find the process that holds it with nvidia-smi; an open notebook keeps its memory until its kernel ends",
        "when processes share a device, give each a limit: tf.config.LogicalDeviceConfiguration(memory_limit=MIB)",
    ]
    if evidence.exhausted == "device":
        lines.append(
            "if nothing else holds it, leave room for cuDNN and cuBLAS, which allocate outside of TensorFlow: "
            "tf.config.experimental.set_memory_growth(gpu, True), or a lower memory_limit"
        )
    return lines


def _for_host(evidence: Evidence) -> list[str]:
    lines = [
        "feed the data from files: lt.feed.arrays, images, records or table hold no more than their budget",
        _PREDICT_DATASET,
    ]
    if evidence.filling is not None:
        lines.insert(
            0,
            "shuffle among fewer elements, or before they are decoded; lt.feed shuffles by index, without a buffer",
        )
    if evidence.request.node is not None or evidence.request.op is not None:
        lines.insert(0, _smaller_batch(evidence))
    if not evidence.is_recorded:
        limit = _budget(evidence.limit_bytes)
        lines.append(
            f"run it with lowtide run --limit {limit} train.py: the report shows which tensors hold the memory"
        )
    return lines


def _for_container(evidence: Evidence) -> list[str]:
    return [
        "raise the limit: --memory of docker, resources.limits.memory of a pod, --mem of sbatch",
        *_for_host(evidence),
    ]


def _for_unknown(evidence: Evidence) -> list[str]:
    if evidence.is_recorded:
        return [*([_for_eager_step()] if evidence.is_eager else []), _smaller_batch(evidence)]
    return [
        "run the script again with lowtide run train.py: it records names and kinds, which a log does not have",
        _smaller_batch(evidence),
    ]


_ADVICE = {
    "batch": _for_batch,
    "fragmentation": _for_fragmentation,
    "leak": _for_leak,
    "constant": _for_constant,
    "weights": _for_weights,
    "device": _for_device,
    "host": _for_host,
    "container": _for_container,
    "unknown": _for_unknown,
}
