"""Logs as TensorFlow of several versions writes them when memory runs out, with numbers of our own."""

from __future__ import annotations

KIB, MIB = 1 << 10, 1 << 20

# Size and whether it is in use, in the order of addresses.
BLOCKS = [
    (256 * KIB, True),
    (12 * MIB, True),
    (12 * MIB, True),
    (30 * MIB, False),
    (12 * MIB, True),
    (100 * MIB, True),
    (20 * MIB, False),
    (12 * MIB, True),
]
BASE = 0x7F0A40000000
TOTAL = sum(size for size, _ in BLOCKS)
HELD = sum(size for size, used in BLOCKS if used)
LIMIT = TOTAL
SHAPE = (64, 56, 56, 64)
ASKED = 64 * 56 * 56 * 64 * 4
DEVICE = "/job:localhost/replica:0/task:0/device:GPU:0"
ALLOCATOR = "GPU_0_bfc"

OOM = f"OOM when allocating tensor with shape[64,56,56,64] and type float on {DEVICE} by allocator {ALLOCATOR}"


def human(count: int) -> str:
    """Amounts as TensorFlow writes them."""
    if count < KIB:
        return f"{count}B"
    unit, size = "KMGT", float(count)
    for letter in unit:
        size /= 1024
        if size < 1024:
            return f"{size:.1f}KiB" if letter == "K" else f"{size:.2f}{letter}iB"
    return f"{size:.2f}TiB"


def addresses(blocks=BLOCKS, base=BASE) -> list[int]:
    found = [base]
    for size, _ in blocks[:-1]:
        found.append(found[-1] + size)
    return found


def bins(old: bool = False) -> list[str]:
    tail = "0 0B allocated for chunks. 0B client-requested for chunks." if old else "0. 0B allocated for chunks."
    return [f"Bin ({256 << power}): \tTotal Chunks: 0, Chunks in use: {tail} 0B in use in bin." for power in range(21)]


def summary(blocks=BLOCKS) -> list[str]:
    used = [size for size, in_use in blocks if in_use]
    lines = ["     Summary of in-use Chunks by size: "]
    for size in sorted(set(used)):
        count = used.count(size)
        lines.append(f"{count} Chunks of size {size} totalling {human(size * count)}")
    return [*lines, f"Sum Total of in-use chunks: {human(sum(used))}"]


def stats(limit=LIMIT, held=HELD, *, exact: bool, newest: bool = False) -> list[str]:
    amount = str if exact else human
    lines = ["Stats: "]
    for name, value in (("Limit:", limit), ("InUse:", held), ("MaxInUse:", held + 5 * MIB)):
        lines.append(f"{name:<18}{amount(value):>20}")
    lines += [f"{'NumAllocs:':<18}{4711:>20}", f"{'MaxAllocSize:':<18}{amount(100 * MIB):>20}"]
    if newest:
        lines += [f"{name:<18}{'0B':>20}" for name in ("Reserved:", "PeakReserved:", "LargestFreeBlock:")]
    return [*lines, ""]


def dump(version: str, blocks=BLOCKS, limit=LIMIT, asked=ASKED, base=BASE) -> list[str]:
    """The allocator's dump, without prefixes."""
    old = version in ("0.12", "1.4")
    where = addresses(blocks, base)
    held = sum(size for size, used in blocks if used)
    lines = [f"BFCAllocator dump for {ALLOCATOR}"] if version in ("2.4", "2.21") else []
    lines += bins(old=version == "0.12")
    lines.append(f"Bin for {human(asked)} was 32.00MiB, Chunk State: ")
    lines.append("  Size: 30.00MiB | Requested Size: 4B | in_use: 0, prev:   Size: 12.00MiB | Requested Size: 12.00MiB")
    if old:
        # All that is in use comes first, then all that is free.
        lines += [f"Chunk at 0x{at:x} of size {size}" for at, (size, used) in zip(where, blocks, strict=True) if used]
        lines += [
            f"Free at 0x{at:x} of size {size}" for at, (size, used) in zip(where, blocks, strict=True) if not used
        ]
    else:
        lines.append(f"Next region of size {sum(size for size, _ in blocks)}")
        for row, (at, (size, used)) in enumerate(zip(where, blocks, strict=True)):
            state = "InUse" if used else "Free "
            follower = row + 1 if row + 1 < len(blocks) else 18446744073709551615
            if version == "1.14":
                lines.append(f"{state} at 0x{at:x} next {follower} of size {size}")
            else:
                lines.append(f"{state} at {at:x} of size {size} next {follower}")
    lines += summary(blocks)
    reserved = sum(size for size, _ in blocks)
    if version in ("1.14", "2.4"):
        lines.append(
            f"total_region_allocated_bytes_: {reserved} memory_limit_: {limit} available bytes: {limit - reserved} "
            "curr_region_allocation_bytes_: 34359738368"
        )
    if version == "2.21":
        lines.append(
            f"Total size in pool: {human(reserved)} memory_limit_: {human(limit)} available size: "
            f"{human(limit - reserved)} curr_region_allocation_bytes_: 64.00MiB"
        )
    return lines + stats(limit, held, exact=version != "2.21", newest=version == "2.21")


def failure(version: str, asked=ASKED, op="model/conv/Conv2D") -> list[str]:
    amount, rounded = human(asked), -(-asked // 256) * 256
    sentence = f"Allocator ({ALLOCATOR}) ran out of memory trying to allocate {amount}"
    if version == "0.12":
        return [f"Ran out of memory trying to allocate {amount}.  See logs for memory state."]
    if version == "1.4":
        return [f"{sentence}.  Current allocation summary follows."]
    if version == "1.14":
        return [f"{sentence} (rounded to {rounded}).  Current allocation summary follows."]
    hint = (
        "If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will "
    )
    return [
        f"{sentence} (rounded to {rounded})requested by op {op}",
        f"{hint}improve the situation. ",
        "Current allocation summary follows.",
        "Current allocation summary follows.",
    ]


PREFIXES = {
    "0.12": "I tensorflow/core/common_runtime/bfc_allocator.cc:643] ",
    "1.4": "2017-12-01 10:11:12.131415: I tensorflow/core/common_runtime/bfc_allocator.cc:679] ",
    "1.14": "2019-08-01 10:11:12.131415: I c:\\work\\tensorflow\\core\\common_runtime\\bfc_allocator.cc:800] ",
    "2.4": "2021-03-01 10:11:12.131415: I tensorflow/core/common_runtime/bfc_allocator.cc:1039] ",
    "2.21": "I0000 00:00:1794000000.131415   18026 bfc_allocator.cc:1056] ",
}
# These lines are parts of a message that began on a line before, so they have no prefix.
_INNER = ("Limit:", "InUse:", "MaxInUse:", "NumAllocs:", "MaxAllocSize:", "Reserved:", "PeakReserved:", "Largest")
_INNER += ("If the cause", "Current allocation summary follows.\n")


def prefixed(version: str, lines: list[str]) -> list[str]:
    prefix = PREFIXES[version]
    return [line if not line or line.startswith(_INNER) else prefix + line for line in lines]


def allocator_says(version: str, *, asked=ASKED, op="model/conv/Conv2D", **changes) -> list[str]:
    """What the allocator writes for one request that it cannot serve."""
    messages = [failure(version, asked, op), [*dump(version, asked=asked, **changes), "*****__**********_____***xxx"]]
    if version == "0.12":
        messages.reverse()
    return prefixed(version, [line for part in messages for line in part])


def python_says(oom: str = OOM, node: str = "model/conv/Conv2D") -> list[str]:
    """The kernel's line, and Python's traceback with the message twice."""
    error = f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {oom}"
    hint = (
        "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom"
    )
    return [
        f"2021-03-01 10:11:12: W op_kernel.cc:1651] OP_REQUIRES failed at conv_ops.cc:500 : Resource exhausted: {oom}",
        "Traceback (most recent call last):",
        '  File "train.py", line 12, in <module>',
        f"{error}",
        f"\t [[{{{{node {node}}}}}]]",
        hint,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        '  File "train.py", line 40, in <module>',
        f"{error}",
        f"\t [[node {node} (defined at /home/me/train.py:17) ]]",
        hint,
    ]


def whole_log(version: str, **changes) -> list[str]:
    return ["Epoch 1/3", *allocator_says(version, **changes), *python_says()]


def as_bytes(lines: list[str], end: str = "\n") -> list[bytes]:
    return [(line + end).encode() for line in lines]
