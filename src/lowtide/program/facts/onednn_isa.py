"""The vector instructions that oneDNN may use, which determine its implementation and so its scratchpads."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import IntEnum
from pathlib import Path


class VectorIsa(IntEnum):
    """The instruction sets at which oneDNN's choice of implementation changes."""

    AVX2 = 1
    AVX512 = 2
    AVX512_BF16 = 3
    AMX = 4

    @property
    def float32_lanes(self) -> int:
        """The number of float32 values in one vector."""
        return 8 if self is VectorIsa.AVX2 else 16

    @classmethod
    def here(cls) -> VectorIsa:
        """Return the instruction set of this machine, or the limit in oneDNN's environment variable."""
        limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or ""
        return min(_of_processor(), _of_limit(limit.upper()))


def _of_processor() -> VectorIsa:
    flags: set[str] = set()
    # Only Linux has this file; on other systems AVX2 is assumed.
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = set(next(line for line in lines if line.startswith("flags")).split())
    if not {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        return VectorIsa.AVX2
    if {"amx_tile", "amx_bf16"} <= flags:
        return VectorIsa.AMX
    return VectorIsa.AVX512_BF16 if "avx512_bf16" in flags else VectorIsa.AVX512


def _of_limit(limit: str) -> VectorIsa:
    if limit in ("", "ALL", "DEFAULT") or "AMX" in limit or limit.startswith("AVX10"):
        return VectorIsa.AMX
    if limit in ("AVX512_CORE_BF16", "AVX512_CORE_FP16"):
        return VectorIsa.AVX512_BF16
    return VectorIsa.AVX512 if limit.startswith("AVX512") else VectorIsa.AVX2


_current: list[VectorIsa] = []


def current_isa() -> VectorIsa:
    """Return the instruction set that facts are stated for: this machine's, unless `use_isa` set another."""
    if not _current:
        _current.append(VectorIsa.here())
    return _current[-1]


def use_isa(isa: VectorIsa) -> None:
    """State facts for another processor from now on."""
    _current[:] = [isa]
