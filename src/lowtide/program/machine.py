"""The machine that kernels run on: threads and cache sizes.

Some kernels size their temporary buffers by the number of threads or by the last-level cache. `use_machine` sets these
for a prediction for another machine.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# The defaults of Eigen where the machine does not report its caches: L1, L2, L3.
_ASSUMED_CACHE_BYTES = (32 * 1024, 256 * 1024, 2 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of a machine that affect the memory of kernels."""

    intra_op_threads: int
    inter_op_threads: int
    l1_cache_bytes: int
    l2_cache_bytes: int
    l3_cache_bytes: int

    @classmethod
    def here(cls) -> Machine:
        """Return this machine, with TensorFlow's default of one thread per available processor."""
        processors = processor_count()
        caches = _cache_bytes()
        return cls(processors, processors, *caches)


def processor_count() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cache_bytes() -> tuple[int, int, int]:
    """Return cache sizes as Eigen finds them: on AMD from the processor, which reports the L3 of the whole socket."""
    return _amd_cache_bytes() or _system_cache_bytes()


def _amd_cache_bytes() -> tuple[int, int, int] | None:
    with suppress(OSError, ValueError):
        if not any(vendor in Path("/proc/cpuinfo").read_text() for vendor in ("AuthenticAMD", "HygonGenuine")):
            return None
        level1 = _ask_processor(0x80000005)
        level23 = _ask_processor(0x80000006)
        if level1 and level23:
            sizes = ((level1[2] >> 24) * 1024, (level23[2] >> 16) * 1024, (level23[3] >> 18) * 512 * 1024)
            first, second, third = (size or assumed for size, assumed in zip(sizes, _ASSUMED_CACHE_BYTES, strict=True))
            return first, second, third
    return None


# Python has no other access to the instruction CPUID. As a function (leaf, answer) in the System V calling convention:
# push rbx; mov eax, edi; xor ecx, ecx; mov r8, rsi; cpuid; mov [r8], eax; mov [r8+4], ebx; mov [r8+8], ecx;
# mov [r8+12], edx; pop rbx; ret
_CPUID_CODE = bytes.fromhex("53 89f8 31c9 4989f0 0fa2 418900 41895804 41894808 4189500c 5b c3")


def _ask_processor(leaf: int) -> tuple[int, int, int, int] | None:
    """Return the registers eax, ebx, ecx and edx after CPUID, or None where pages cannot be made executable."""
    if platform.machine() not in ("x86_64", "AMD64") or not hasattr(mmap, "PROT_EXEC"):
        return None
    with suppress(OSError, PermissionError):
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(_CPUID_CODE)
        view = ctypes.c_char.from_buffer(page)
        function = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))(ctypes.addressof(view))
        answer = (ctypes.c_uint32 * 4)()
        function(leaf, answer)
        del function, view
        page.close()
        return answer[0], answer[1], answer[2], answer[3]
    return None


def _system_cache_bytes() -> tuple[int, int, int]:
    sizes = dict(zip((1, 2, 3), _ASSUMED_CACHE_BYTES, strict=True))
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        # A container may hide single files; the default then stays.
        with suppress(OSError, ValueError):
            if (folder / "type").read_text().strip() != "Instruction":
                level = int((folder / "level").read_text())
                sizes[level] = _parse_size((folder / "size").read_text().strip())
    return sizes[1], sizes[2], sizes[3]


def _parse_size(text: str) -> int:
    """Parse a size as sysfs writes it: `32K`, `8M` or a plain number."""
    factor = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:], 1)
    return int(text[:-1] if factor > 1 else text) * factor


_current: list[Machine] = []


def current_machine() -> Machine:
    """Return the machine that facts are stated for: this one, unless `use_machine` set another."""
    if not _current:
        _current.append(Machine.here())
    return _current[-1]


def use_machine(machine: Machine) -> None:
    """State facts for another machine from now on."""
    _current[:] = [machine]
