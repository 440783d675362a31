"""The allocators of TensorFlow's tensors on the CPU, and the memory that they may need beyond that of the tensors."""

from __future__ import annotations

from dataclasses import dataclass

# The C library gives blocks of this size and more back to the system at once, and takes them from it in whole pages.
RETURNED_BYTES = 32 << 20
# Where oneDNN is on, tensors of this size and more come from TensorFlow's own allocator.
_ONEDNN_LEAST_BYTES = 256 << 10
# If sizes vary, many tensors are below that although the average is above it, up to this multiple of it.
_VARYING_TIMES = 4


@dataclass(frozen=True)
class Allocator:
    """Where the memory of tensors comes from."""

    name: str
    own_least_bytes: int | None
    """The least size of the tensors that TensorFlow's BFC allocator holds; None if it holds none."""

    def lost_share(self, size: int, threads: int = 1, *, is_varying: bool = False) -> float:
        """The share of the memory of tensors of `size` bytes that may be lost beside them, at most.

        `threads` is the number of threads that allocate them; sizes that vary leave holes that fit less often.
        """
        if self.own_least_bytes is not None and size >= self.own_least_bytes * (_VARYING_TIMES if is_varying else 1):
            return (_BFC_VARYING_TIMES if is_varying else 1) * _BFC_LOST_SHARE
        return _LIBRARY_LOST_SHARE * threads if size < RETURNED_BYTES else 0.0


# The C library aligns a block by taking a larger one and giving back its ends (glibc before 2.38). Once something small
# is stored in an end, the block leaves a hole when it is freed into which no aligned block of the same size fits: at
# worst there is a hole for each block. A buffer of 600 MiB of images was recorded with 580 MiB of holes.
_LIBRARY_LOST_SHARE = 1.0
# The holes belong to the thread that allocated the block: each thread may have those of all tensors in flight. A map to
# tensors of 16 MiB with 12 calls on 2 threads took 2.8 times the size of its tensors.
# The BFC allocator joins free neighbours and reuses a hole for any smaller tensor. The largest loss of the pipelines of
# benchmarks/feed was 0.17; one chunk may take up to twice its tensor.
_BFC_LOST_SHARE = 0.25
_BFC_VARYING_TIMES = 2

C_LIBRARY = Allocator("the C library's allocator", None)
ONEDNN = Allocator("TensorFlow's allocator for oneDNN", _ONEDNN_LEAST_BYTES)
BFC = Allocator("TensorFlow's BFC allocator", 0)
