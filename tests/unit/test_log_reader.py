"""Logs of many versions of TensorFlow give the same evidence."""

import json
import re
import tracemalloc
from itertools import chain, zip_longest
from random import Random

import pytest

from lowtide.oom.evidence import Request, guess_batch_size
from lowtide.oom.log_patterns import read_amount
from lowtide.oom.log_reader import read_log_evidence
from lowtide.oom.shortage import explain_evidence
from lowtide.units import format_bytes
from tests.unit.logs import (
    ALLOCATOR,
    ASKED,
    BLOCKS,
    DEVICE,
    HELD,
    LIMIT,
    MIB,
    OOM,
    SHAPE,
    addresses,
    allocator_says,
    as_bytes,
    failure,
    human,
    prefixed,
    python_says,
    whole_log,
)

VERSIONS = ["0.12", "1.4", "1.14", "2.4", "2.21"]

DECORATIONS = {
    "plain": lambda line: line,
    "docker": lambda line: f"2024-05-01T10:11:12.131415161Z {line}",
    "mpirun": lambda line: f"[1,0]<stderr>:{line}",
    "colours": lambda line: f"\x1b[1;31m{line}\x1b[0m",
    "logger": lambda line: f"[2024-05-01 10:11:12,131] INFO - trainer: {line}",
    "quoted": lambda line: f"> {line}",
    "crlf": lambda line: f"{line}\r",
    "kubelet": lambda line: f"2024-05-01T10:11:12.131415161Z stderr F {line}",
    "json": lambda line: json.dumps({"log": f"{line}\n", "stream": "stderr"}),
    "progress bar": lambda line: f" 10/100 [==>....] - loss: 0.51\r 11/100 [==>....] - loss: 0.50{line}",
}


def read(lines: list[str]):
    return list(read_log_evidence(as_bytes(lines)))


def only(lines: list[str]):
    found = read(lines)
    assert len(found) == 1, found
    return found[0]


def blocks_of(heap) -> list[tuple[int, int, bool]]:
    return list(zip(heap.address.tolist(), heap.size.tolist(), heap.in_use.tolist(), strict=True))


EXPECTED_BLOCKS = [(at, size, used) for at, (size, used) in zip(addresses(), BLOCKS, strict=True)]


@pytest.mark.parametrize("decoration", DECORATIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_under_every_collector(version, decoration):
    lines = [DECORATIONS[decoration](line) for line in whole_log(version)]
    evidence = only(lines)
    assert evidence.request == Request(
        bytes=ASKED,
        shape=SHAPE,
        dtype="float32",
        node="model/conv/Conv2D",
        device=DEVICE,
        allocator=ALLOCATOR,
        source="train.py:17",
    )
    assert evidence.line == 2
    heap = evidence.heap
    assert heap.complete
    assert blocks_of(heap) == EXPECTED_BLOCKS
    assert (heap.bytes_in_use, heap.free_bytes, heap.largest_free_bytes) == (HELD, 50 * MIB, 30 * MIB)
    # Of amounts such as 198.25MiB the last digit is known.
    assert heap.limit_bytes == pytest.approx(LIMIT, abs=6000)
    assert heap.peak_bytes == pytest.approx(HELD + 5 * MIB, abs=6000)
    assert explain_evidence(evidence, "train.log").cause.name == "fragmentation"


@pytest.mark.parametrize("version", VERSIONS)
def test_without_any_prefix(version):
    lines = [line.partition("] ")[2] if "] " in line else line for line in allocator_says(version)]
    assert blocks_of(only([*lines, OOM]).heap) == EXPECTED_BLOCKS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_that_was_cut_off_at_either_end(version):
    lines = whole_log(version)
    for cut in range(1, len(lines)):
        for part in (lines[:cut], lines[cut:]):
            for evidence in read(part):
                heap = evidence.heap
                if heap is not None and heap.complete:
                    assert blocks_of(heap) == EXPECTED_BLOCKS
                if heap is not None and heap.largest_free_bytes is not None:
                    assert heap.largest_free_bytes == 30 * MIB
                shortage = explain_evidence(evidence, "train.log")
                assert shortage.cause.name in ("fragmentation", "batch", "unknown")
                assert sum(holder.bytes for holder in shortage.holders) <= HELD


def test_a_dump_whose_beginning_is_missing_says_who_held_memory():
    lines = allocator_says("2.21")
    cut = next(row for row, line in enumerate(lines) if "InUse at" in line) + 3
    evidence = only(lines[cut:])
    assert not evidence.heap.complete
    assert evidence.heap.largest_free_bytes is None
    assert [(holder.bytes, holder.count) for holder in evidence.holders][:2] == [(100 * MIB, 1), (48 * MIB, 4)]
    assert "cut off" in evidence.notes[-1]


def test_lines_that_got_lost_inside_the_dump_are_noticed():
    lines = [line for line in whole_log("2.21") if f"{BLOCKS[4][0]} next 5" not in line]
    assert len(lines) == len(whole_log("2.21")) - 1
    assert not only(lines).heap.complete


@pytest.mark.parametrize("version", VERSIONS)
def test_each_of_several(version):
    small = [(MIB, True), (2 * MIB, False)]
    other = OOM.replace("64,56", "64,65")
    lines = [
        *whole_log(version),
        "Epoch 2/3",
        *allocator_says(version, blocks=small, limit=3 * MIB, asked=64 * 65 * 56 * 64 * 4, op="b/Conv2D", base=1 << 30),
        *python_says(other, "b/Conv2D"),
    ]
    first, second = read(lines)
    assert (first.request.shape, first.request.node) == (SHAPE, "model/conv/Conv2D")
    assert (second.request.shape, second.request.node) == ((64, 65, 56, 64), "b/Conv2D")
    assert len(first.heap) == len(BLOCKS)
    assert blocks_of(second.heap) == [(1 << 30, MIB, True), ((1 << 30) + MIB, 2 * MIB, False)]
    assert guess_batch_size([first.request, second.request]) == 64


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_request_that_fails_twice_is_two(version):
    found = read([*whole_log(version), "trying again", *whole_log(version)])
    assert [evidence.request.shape for evidence in found] == [SHAPE, SHAPE]
    assert all(evidence.heap.complete for evidence in found)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_error_that_precedes_the_dump_is_the_same_failure(version):
    """A notebook shows Python's error; the allocator's messages are in the log of its server, and are pasted below."""
    evidence = only([*python_says(), *allocator_says(version)])
    assert (evidence.line, evidence.request.shape, evidence.request.node) == (1, SHAPE, "model/conv/Conv2D")
    assert blocks_of(evidence.heap) == EXPECTED_BLOCKS
    # Another request is another failure.
    assert len(read([*python_says(), *allocator_says(version, asked=2 * ASKED)])) == 2


def test_a_copy_that_failed_before_the_dump_is_the_same_failure():
    copy = f"InternalError: Failed copying input tensor from CPU:0 to {DEVICE} in order to run _EagerConst: "
    lines = [f"{copy}Dst tensor is not initialized.", *refusals(9 * MIB), *allocator_says("2.4", op="_EagerConst")]
    evidence = only(lines)
    assert (evidence.request.op, evidence.request.bytes) == ("_EagerConst", ASKED)
    assert "9,437,184" in evidence.notes[0]
    assert len(read([lines[0], *allocator_says("2.4", op="a/MatMul")])) == 2


def test_two_threads_that_fail_together():
    bigger = 64 * 65 * 56 * 64 * 4
    other = OOM.replace("64,56", "64,65")
    lines = [
        *allocator_says("2.4"),
        *allocator_says("2.4", asked=bigger),
        f"W tensorflow/core/framework/op_kernel.cc:1651] OP_REQUIRES failed: Resource exhausted: {OOM}",
        f"W tensorflow/core/framework/op_kernel.cc:1651] OP_REQUIRES failed: Resource exhausted: {other}",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: 2 root error(s) found.",
        f"  (0) Resource exhausted: {OOM}",
        "\t [[{{node a}}]]",
        f"  (1) Resource exhausted: {other}",
        "\t [[{{node b}}]]",
    ]
    first, second = read(lines)
    assert (first.request.bytes, first.request.shape) == (ASKED, SHAPE)
    assert (second.request.bytes, second.request.shape) == (bigger, (64, 65, 56, 64))


def test_two_processes_into_one_log_do_not_break_it():
    one, other = whole_log("2.4"), whole_log("2.21", base=1 << 40)
    lines = [line for pair in zip_longest(one, other) for line in pair if line is not None]
    assert read(lines)


WRITERS = {
    "mpirun": "[1,{0}]<stderr>:",
    "prterun": "[prterun-host-99@1,{0}]<stderr>: ",
    "ray": "(TrainWorker pid={0}, ip=10.0.0.1) ",
    "compose": "trainer-{0}  | ",
    "kubectl": "[pod/train-{0}/main] ",
    "ranks": "[rank{0}]: ",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_processes_that_a_log_names_are_told_apart(writer):
    logs = [whole_log("2.4", base=(rank + 1) << 40) for rank in range(3)]
    prefixes = [WRITERS[writer].format(rank) for rank in range(3)]
    lines = [prefix + line for row in zip(*logs, strict=True) for prefix, line in zip(prefixes, row, strict=True)]
    found = read([*lines, "Killed"])
    assert [evidence.heap.address[0] >> 40 for evidence in found] == [1, 2, 3]
    for evidence in found:
        assert evidence.heap.complete
        assert evidence.request.source == "train.py:17"
        assert explain_evidence(evidence, "train.log").cause.name == "fragmentation"


def test_only_the_error_of_a_program_that_hides_the_dump():
    evidence = only([*prefixed("2.4", failure("2.4")[:1]), *python_says()])
    assert evidence.heap is None
    assert (evidence.request.bytes, evidence.request.shape) == (ASKED, SHAPE)
    shortage = explain_evidence(evidence, "train.log")
    assert shortage.cause.name == "batch"
    assert "looks like" in shortage.cause.sentence


NO_FAILURE = "The caller indicates that this is not a failure, but this may mean that there could be performance gains"
HARMLESS = [
    f"bfc_allocator.cc:217] Ran out of memory trying to allocate 1.09GiB. {NO_FAILURE}",
    f"Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.62GiB with freed_by_count=0. {NO_FAILURE}",
    "W cpu_allocator_impl.cc:83] Allocation of 57802752 exceeds 10% of free system memory.",
    "INFO: 137 images of killed processes in memory: 1370 exit codes",
    "except MemoryError as error: raise",
    "    except MemoryError:",
    '"State": {"OOMKilled": false, "ExitCode": 0}',
    "worker 137 exited with code 0; sent SIGKILL to it; loss: 1e-9",
    "Traceback: ValueError: bad shape [[node x (defined at a.py:3)]]",
    "node_manager.cc:9] 0 Workers (tasks / actors) killed due to memory pressure (OOM), 3 Workers crashed",
    "E cuda_dnn.cc:336] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",
    "ENV EXIT=137",
    "usage: run.py [--signal 9]; child ended by signal 15 after 9 s; signal=9.5",
    "E cuda_fft.cc:225] failed to make cuFFT batched plan:5",
    "tcmalloc: large alloc 2400002048 bytes == 0x99a00000 @ 0x7fb5f9f8c1e7",
    "The exit codes of the workers are {SIGSEGV(-11)}",
    "The node was low on resource: ephemeral-storage.",
    "OSError: [Errno 28] No space left on device",
    "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_INVALID_DEVICE",
    "E failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    "grpc: RESOURCE_EXHAUSTED: Received message larger than max (5242880 vs. 4194304)",
    "tests/test_memory.py::test_MemoryError_is_raised PASSED",
    "W Garbage collection: deallocate free memory regions (i.e., allocations) so that we can re-allocate a larger one",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_is_no_shortage(line):
    assert read(["start", line, "end"] * 3) == []


OUTSIDE = {
    "E driver.cc:828] failed to allocate 2.96G (3173555200 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY": "device",
    "F gpu_device.cc:9] failed: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory": "device",
    "E cuda_dnn.cc:319] Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED": "device",
    "E cuda_blas.cc:218] failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED": "device",
    "terminate called after throwing an instance of 'std::bad_alloc'": "process",
    "MemoryError": "process",
    "MemoryError: ": "process",
    "OSError: [Errno 12] Cannot allocate memory": "process",
    "E failed to allocate 1G (9 bytes) from device: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY": "device",
    "E rocm_driver.cc:9] failed to allocate 15.98G (17163091968 bytes) from device: hipErrorOutOfMemory": "device",
    "InternalError: cudaGetDevice() failed. Status: out of memory": "device",
    "F .\\random_op_gpu.h:227] Non-OK-status: GpuLaunchKernel(x) status: Internal: out of memory": "device",
    "node1: NCCL WARN Cuda failure 'out of memory'": "device",
    "W cuda_driver.cc:9] failed to alloc 8589934592 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory": "process",
    "pyarrow.lib.ArrowMemoryError: malloc of size 67108864 failed": "process",
    "[1,0]<stderr>:MemoryError": "process",
    "ImportError: DLL load failed: The paging file is too small for this operation to complete.": "process",
    "make: *** [Makefile:3: train] Error 137": "killed",
    "    Exit Code:    137": "killed",
    "subprocess.CalledProcessError: Command 'train.py' died with <Signals.SIGKILL: 9>.": "killed",
    "AlgorithmError: ExecuteUserScriptError: ExitCode -9": "killed",
    "zsh: killed     python train.py": "killed",
    "train.service: Main process exited, code=killed, status=9/KILL": "killed",
    "srun: error: node01: task 0: Out Of Memory": "container",
    "17.batch      batch    account          8 OUT_OF_ME+    0:125": "container",
    "=>> PBS: job killed: vmem 9000000kb exceeded limit 8388608kb": "container",
    "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.": "container",
    "Container killed by YARN for exceeding memory limits. 5.5 GB of 5.5 GB physical memory used.": "container",
    "The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137(SIGKILL).": "container",
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.": "machine",
    "Your session crashed after using all available RAM.": "machine",
    "RayOutOfMemoryError: More than 95% of the memory on node gpu-box is used (11.8 / 12.3 GB).": "machine",
    "earlyoom: low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%": "machine",
    "(raylet) 12 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed": "machine",
    "E failed to allocate 154.06GiB (165425291480 bytes) from device: HIP_ERROR_OutOfMemory": "device",
    "E could not allocate ROCM stream for device 0: HIP_ERROR_OutOfMemory": "device",
    "pandas.errors.ParserError: Error tokenizing data. C error: out of memory": "process",
    "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes": "process",
    "191 train OUT_OF_MEM+ 0:125": "container",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=1130.0.": "container",
    "Container killed on request. Exit code is 137": "killed",
    "Exited (137) 2 hours ago": "killed",
    "E cuda_blas.cc:197] failed to create cublas handle: the resource allocation failed": "device",
    "OutOfMemoryError: Container killed due to memory usage": "container",
    "Process running mem=530M(103.5%) Error R14 (Memory quota exceeded)": "container",
    "distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting": "container",
    "Job has gone over memory limit of 2048 megabytes. Peak usage: 2100 megabytes.": "container",
    "Your notebook tried to allocate more memory than is available. It has restarted.": "machine",
    "Warning SystemOOM kubelet System OOM encountered, victim process: python, pid: 4711": "machine",
    "java.lang.OutOfMemoryError: Java heap space": "process",
    '   "ename": "MemoryError",': "process",
    "Error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)": "device",
    "TRT: Requested amount of GPU memory (1073741824 bytes) could not be allocated.": "device",
    "ERROR: executor failed: exit code: 137": "killed",
    "Command exited with non-zero status 137": "killed",
    "subprocess ended, returncode: -9": "killed",
    '{"exitCode":137,"reason":"Error"}': "killed",
    "[CRITICAL] WORKER (pid:12) was sent SIGKILL! Perhaps out of memory?": "killed",
    "mpirun noticed that process rank 1 exited on signal 9 (Killed).": "killed",
    "srun: error: nid001277: tasks 1-3: Out Of Memory": "container",
    "srun: error: node[03-04]: tasks 0,2: Out Of Memory": "container",
    "E cuda_fft.cc:225] failed to make cuFFT batched plan:2": "device",
    "cupy.cuda.cufft.CuFFTError: CUFFT_ALLOC_FAILED": "device",
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated: 9)": "device",
    "UnknownError: ncclCommInitRank failed: unhandled cuda error 'out of memory'": "device",
    "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes.": "process",
    "OSError: [WinError 8] Not enough memory resources are available to process this command": "process",
    "LLVM ERROR: out of memory": "process",
    "memory allocation of 34359738368 bytes failed": "process",
    "{local_task_job.py:154} INFO - Task exited with return code Negsignal.SIGKILL": "killed",
    'CRITICAL - Process terminated by signal. #TaskRunner-killed: signal=-9: signal_name="SIGKILL"': "killed",
    "Process 'ForkPoolWorker-410' pid:600 exited with 'signal 9 (SIGKILL)'": "killed",
    "WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 0.": "killed",
    "DAMN ! worker 2 (pid: 178) died, killed by signal 9 :( trying respawn ...": "killed",
    "Container terminated on signal 9.": "killed",
    "Command terminated by signal 9": "killed",
    "Error: Runtime exited with error: signal: killed": "killed",
    "Exception: process 0 terminated with signal SIGKILL": "killed",
    "Killed": "killed",
    "./train.sh: line 3:  4711 Killed                  python train.py": "killed",
    "Process finished with exit code 137": "killed",
    "container exited with code 137": "killed",
    "    Reason:       OOMKilled": "container",
    "The node was low on resource: memory. Container train was using 15Gi": "machine",
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=17.batch. Some processes were killed": "container",
    "slurmstepd: error: Job 17 exceeded memory limit (17000 > 16000), being killed": "container",
    "kernel: Memory cgroup out of memory: Killed process 9 (python) total-vm:9kB, anon-rss:2097152kB": "container",
    "kernel: Out of memory: Killed process 9 (python3) total-vm:90kB, anon-rss:2097152kB": "machine",
}


@pytest.mark.parametrize(("line", "exhausted"), OUTSIDE.items())
def test_memory_that_ran_out_outside_of_the_allocator(line, exhausted):
    evidence = only(["Epoch 1/3", line, "end"])
    assert evidence.exhausted == exhausted
    cause = explain_evidence(evidence, "train.log").cause
    assert cause.name == {"device": "device", "container": "container"}.get(exhausted, "host")
    assert cause.advice
    assert not re.search(r"container.*host|host.*container", cause.sentence)
    if "anon-rss" in line:
        assert evidence.in_use_bytes == 2 << 30
        assert "2 GiB" in cause.sentence


@pytest.mark.parametrize(
    ("lines", "limit", "held"),
    [
        (
            [
                "kernel: python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
                "kernel: memory: usage 8388608kB, limit 8388608kB, failcnt 123",
                "kernel: Memory cgroup out of memory: Killed process 99 (python3) total-vm:9kB, anon-rss:8288608kB",
            ],
            8 << 30,
            8 << 30,
        ),
        (
            ["Container killed by YARN for exceeding memory limits. 7.5 GB of 5 GB virtual memory used."],
            5 << 30,
            15 << 29,
        ),
        (["=>> PBS: job killed: vmem 9437184kb exceeded limit 8388608kb"], 8 << 30, 9 << 30),
        (["Memory limit of 2048 MiB exceeded with 3072 MiB used. Consider increasing it"], 2 << 30, 3 << 30),
        (["Memory limit of 512M exceeded with 1024M used."], 512 << 20, 1 << 30),
    ],
)
def test_the_limit_of_a_container_that_a_log_states(lines, limit, held):
    shortage = explain_evidence(only(lines), "train.log")
    assert (shortage.cause.name, shortage.limit_bytes, shortage.in_use_bytes) == ("container", limit, held)
    assert format_bytes(limit) in shortage.cause.sentence
    assert any(f"--limit {limit >> 20}MiB" in line for line in shortage.cause.advice)
    # Nothing is known of an allocator.
    assert shortage.free_bytes is None


POD = """
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Restart Count:  3
"""


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ("Limits:\n      cpu:     4\n      memory:  16Gi\n    Requests:\n      memory:  8Gi", 16 << 30),
        ("Limits: memory: 16Gi", 16 << 30),
        ("Limits:\n      memory:  16G", 16 * 10**9),
        ("Limits:\n      memory:  512000k", 512_000_000),
        ("Limits:\n      memory:  2147483648", 2 << 30),
        ("Requests:\n      memory:  8Gi", None),
        ("Mounts:\n  sidecar:\n    Container ID:  docker://8a\n    Limits:\n      memory:  1Gi", None),
    ],
)
def test_the_limit_that_kubectl_describes(limits, limit):
    evidence = only([*POD.splitlines(), *f"    {limits}".splitlines()])
    assert (evidence.exhausted, evidence.limit_bytes) == ("container", limit)


DEVICE_ENDS = "E cuda_dnn.cc:319] Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED"
SHUFFLE = "I shuffle_dataset_op.cc:177] Filling up shuffle buffer (this may take a while): {0} of 1000000"


@pytest.mark.parametrize("end", ["Killed", "MemoryError", "Last State: OOMKilled", "Out of memory: Killed process 9"])
def test_a_process_that_ends_while_a_shuffle_buffer_is_filled(end):
    lines = [SHUFFLE.format(61234), SHUFFLE.format(81234), end]
    cause = explain_evidence(only(lines), "train.log").cause
    assert cause.sentence.endswith("a shuffle buffer was being filled: it had 81,234 of 1,000,000 elements")
    assert "lt.feed" in cause.advice[1 if cause.name == "container" else 0]
    for other in (["I shuffle_dataset_op.cc:230] Shuffle buffer filled.", end], [DEVICE_ENDS]):
        assert "shuffle" not in explain_evidence(only([*lines[:2], *other]), "train.log").cause.sentence


@pytest.mark.parametrize(
    "state",
    [
        ['"OOMKilled": false,', '"ExitCode": 137,'],
        ["slurmstepd: error: *** STEP 17.0 ON n1 CANCELLED AT 2024-01-01T10:11:12 DUE TO TIME LIMIT ***", "Killed"],
        ["slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2024-01-01T10:11:12 ***", "srun: error: n1: task 0: Killed"],
        ["Container train failed liveness probe, will be restarted", "Exit Code: 137"],
        ["Reason: DeadlineExceeded", "Exit Code: 137"],
        ["systemd[1]: State 'stop-sigterm' timed out. Killing.", "systemd[1]: code=killed, status=9/KILL"],
    ],
)
def test_a_process_that_was_killed_for_another_reason(state):
    assert read(state) == []
    assert read(state[::-1]) == []
    assert only([state[0], *["Epoch 1/3"] * 30, "Killed"]).exhausted == "killed"
    assert only([*state, "slurmstepd: error: Exceeded job memory limit"]).exhausted == "container"


def refusals(*amounts: int) -> list[str]:
    said = "I cuda_driver.cc:733] failed to allocate {0} ({1} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"
    return [said.format(human(amount), amount) for amount in amounts]


def test_requests_that_the_driver_refused_one_after_the_other():
    evidence = only(["Epoch 1/3", *refusals(2000 * MIB, 1800 * MIB, 1620 * MIB), "end"])
    assert (evidence.line, evidence.request.bytes) == (2, 2000 * MIB)
    assert "refused 3 requests, the smallest of 1.58 GiB" in evidence.notes[0]


def test_training_that_went_on_after_a_refusal_did_not_run_out():
    lines = [*refusals(2000 * MIB, 1800 * MIB), "Epoch 1/2", "100/100 [=====] - 9s 80ms/step - loss: 0.31"]
    assert read(lines) == []
    assert only([*lines, *refusals(100 * MIB)]).exhausted == "device"
    # The refusal is reported with the failure that followed.
    assert "2,097,152,000" in only([*lines, *whole_log("2.4")]).notes[0]


@pytest.mark.parametrize(
    "line",
    [
        "E cuda_dnn.cc:328] Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",
        "E cuda_dnn.cc:429] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
        "E cuda_blas.cc:238] failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED",
        "E cuda_blas.cc:197] failed to create cublas handle: the library was not initialized",
    ],
)
def test_a_library_that_was_not_initialized_because_the_device_was_full(line):
    full = ["Found device 0 with properties:", "totalMemory: 8.00GiB freeMemory: 312.50MiB"]
    assert explain_evidence(only([*full, line]), "train.log").cause.name == "device"
    assert only([*refusals(32 * MIB), line]).request.bytes == 32 * MIB
    created = "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 7225 MB memory"
    assert read([created, line]) == []


def test_algorithms_that_found_no_workspace_are_one_failure():
    tried = [
        f"  Profiling failure on CUDNN engine {engine}: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
        f"{size} bytes."
        for engine, size in ((1, 20 * MIB), (2, 16 * MIB), (0, 30 * MIB))
    ]
    said = (
        "W op_kernel.cc:1745] OP_REQUIRES failed at conv_ops.cc:989 : NOT_FOUND: No algorithm worked!  Error messages:"
    )
    lines = [said, *tried, "NotFoundError: No algorithm worked!", *tried, "\t [[{{node conv/convolution}}]]"]
    evidence = only(lines)
    assert (evidence.request.bytes, evidence.request.node) == (16 * MIB, "conv/convolution")
    assert explain_evidence(evidence, "train.log").cause.name == "batch"


def test_a_buffer_that_does_not_fit_on_a_tpu():
    line = (
        "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 512.00M. That was not possible. "
        "There are 336.00M free.; (1x0x0_HBM0)"
    )
    evidence = only([line, line])
    assert (evidence.request.bytes, evidence.free_bytes, evidence.largest_free_bytes) == (512 * MIB, 336 * MIB, None)


@pytest.mark.parametrize(
    ("free", "reservable", "cause"), [("6.78G", "3.33G", "fragmentation"), ("2.00G", "2.00G", "batch")]
)
def test_a_program_that_does_not_fit_on_a_tpu(free, reservable, cause):
    line = (
        "RESOURCE_EXHAUSTED: Error loading program 'jit_step': Attempting to reserve 6.50G at the bottom of memory. "
        f"That was not possible. There are {free} free, 0B reserved, and {reservable} reservable."
    )
    shortage = explain_evidence(only([line, line]), "train.log")
    assert (shortage.cause.name, shortage.request.bytes) == (cause, 13 << 29)


def test_messages_of_one_end_are_one_failure_with_the_best_reason():
    pod = ["Killed", "Last State: Terminated", "  Reason: OOMKilled", "  Exit Code: 137"]
    assert only(pod).exhausted == "container"
    # What the shell says after TensorFlow's own error is the same failure.
    assert only([*whole_log("2.4"), "Killed"]).exhausted is None


@pytest.mark.parametrize(
    ("line", "exhausted"),
    [
        ("MemoryError", "process"),
        ("kernel: Out of memory: Killed process 9 (python3)", "machine"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=17.batch.", "container"),
    ],
)
def test_another_end_after_a_failure_of_the_allocator_is_a_failure_of_its_own(line, exhausted):
    first, second = read([*whole_log("2.4"), line])
    assert (first.exhausted, second.exhausted) == (None, exhausted)


def test_a_process_that_is_killed_long_after_another_one_failed():
    first, second = read([*whole_log("2.4"), *["Epoch 1/3"] * 30, "Killed"])
    assert (first.exhausted, second.exhausted) == (None, "killed")


def test_what_python_could_not_allocate_names_the_line():
    frames = ['  File "/home/me/train.py", line 10, in <module>', '  File "/usr/lib/python3.11/a.py", line 3, in b']
    assert only(["Traceback (most recent call last):", *frames, "MemoryError"]).request.source == "train.py:10"
    array = (
        "MemoryError: Unable to allocate 5.59 GiB for an array with shape (50000, 100, 100, 3) and data type float32"
    )
    assert only([*frames, array]).request.source == "train.py:10"
    assert only([*frames, *["Epoch 1/3"] * 200, "MemoryError"]).request.source is None


def test_memory_of_the_host_is_not_a_step_on_a_device():
    oom = "OOM when allocating tensor with shape[32768,32768] and type float on /device:CPU:0 by allocator cpu"
    cause = explain_evidence(only([oom, "[[{{node model/dense/MatMul}}]]"]), "train.log").cause
    assert cause.name == "host"
    assert "4 GiB more" in cause.sentence
    assert "smaller batch" in cause.advice[0]


def test_pinned_memory_of_the_host_is_not_a_step():
    lines = prefixed("1.4", failure("1.4"))
    lines = [line.replace("GPU_0_bfc", "cuda_host_bfc") for line in lines]
    cause = explain_evidence(only([*lines, "[[Node: grad/_41 = _Recv[client=false]()]]"]), "train.log").cause
    assert cause.name == "host"
    assert "pinned memory" in cause.sentence
    assert "TF_CUDA_HOST_MEM_LIMIT_IN_MB" in cause.advice[0]


def test_the_data_of_a_pipeline_that_found_no_room():
    line = (
        "InternalError: Failed copying input tensor in order to run TensorSliceDataset: Dst tensor is not initialized."
    )
    cause = explain_evidence(only([line]), "train.log").cause
    assert cause.name == "constant"
    assert "data of a pipeline" in cause.sentence


def test_a_copied_array_of_unknown_size():
    line = "InternalError: Failed copying input tensor in order to run _EagerConst: Dst tensor is not initialized."
    cause = explain_evidence(only([line]), "train.log").cause
    assert cause.name == "constant"
    assert "NumPy array" in cause.sentence


@pytest.mark.parametrize("key", ["message", "msg", "textPayload"])
def test_a_traceback_in_one_json_object(key):
    text = 'Traceback (most recent call last):\n  File "/app/train.py", line 10, in <module>\nMemoryError\n'
    evidence = only([json.dumps({"severity": "ERROR", key: text})])
    assert (evidence.exhausted, evidence.request.source) == ("process", "train.py:10")
    assert only([json.dumps({"reason": "OOMKilled", key: "the container ended"})]).exhausted == "container"
    assert only([json.dumps({key: "Killed\n"})]).exhausted == "killed"
    assert only(['{"log": "Killed", cut off', "Killed"]).exhausted == "killed"


def test_the_advice_to_record_is_a_command_that_works():
    cause = explain_evidence(only(["Killed"]), "train.log").cause
    # What follows the script belongs to the script.
    assert any("lowtide run --limit BYTES train.py" in line for line in cause.advice)


def test_a_device_that_was_full_when_the_program_began():
    found = "name: Tesla K80 totalMemory: 11.17GiB freeMemory: 497.25MiB"
    cause = explain_evidence(only([found, *whole_log("2.4")]), "train.log").cause
    assert cause.name == "device"
    assert "497.2 MiB of its 11.2 GiB" in cause.sentence
    own = "name: Tesla K80 totalMemory: 11.17GiB freeMemory: 11.05GiB"
    assert explain_evidence(only([own, *whole_log("2.4")]), "train.log").cause.name != "device"
    oldest = ["Total memory: 7.92GiB", "Free memory: 497.25MiB"]
    assert "497.2 MiB of its 7.92 GiB" in explain_evidence(only([*oldest, *whole_log("2.4")]), "a.log").cause.sentence


def test_another_full_device_is_not_the_one_that_ran_out():
    def start(first: str, second: str) -> list[str]:
        return [
            "Found device 0 with properties:", f"totalMemory: 11.17GiB freeMemory: {first}",
            "Found device 1 with properties:", f"totalMemory: 11.17GiB freeMemory: {second}",
        ]  # fmt: skip

    def cause(*lines: str) -> str:
        return explain_evidence(only([*lines, *whole_log("2.4")]), "train.log").cause.name

    assert cause(*start("11.05GiB", "497.25MiB")) != "device"
    assert cause(*start("497.25MiB", "11.05GiB")) == "device"


@pytest.mark.parametrize(("megabytes", "is_held"), [(213, True), (9637, False)])
def test_a_device_of_version_2_that_had_little_room(megabytes, is_held):
    created = (
        f"I gpu_device.cc:9] Created device /job:localhost/replica:0/task:0/device:GPU:0 with {megabytes} MB memory:"
    )
    cause = explain_evidence(only([created, *whole_log("2.4")]), "train.log").cause
    assert (cause.name == "device") == is_held
    assert ("only 213 MiB" in cause.sentence) == is_held


def test_fragmentation_is_seen_in_a_list_that_is_cut():
    lines = [
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 585.94MiB requested by op training/conv/Conv2D",
        "Stats: Limit: 10925244416",
        "InUse: 8015400960",
    ]
    cause = explain_evidence(only(lines), "train.log").cause
    assert cause.name == "fragmentation"
    assert "2.71 GiB were free" in cause.sentence


def test_a_refusal_of_the_driver_is_told_with_the_shortage():
    refused = "I cuda_driver.cc:733] failed to allocate 8.41G (9029127168 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"
    evidence = only([refused, *whole_log("2.4")])
    assert "9,029,127,168" in evidence.notes[0]


def test_eager_errors_name_the_op():
    line = f"{{{{function_node __wrapped__Mul_device_{DEVICE}}}}} {OOM} [Op:Mul] name: "
    evidence = only([f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {line}"])
    assert (evidence.request.op, evidence.request.node) == ("Mul", None)
    in_graph = f"ResourceExhaustedError: {OOM} [Op:__inference_one_step_on_data_3053]"
    assert only([in_graph]).request.op is None
    assert evidence.request.bytes == ASKED


def test_a_graph_error_names_the_node_and_the_users_own_line():
    lines = [
        "ResourceExhaustedError: Graph execution error:",
        "",
        "Detected at node model/block/Conv2D defined at (most recent call last):",
        '  File "/home/me/project/train.py", line 31, in <module>',
        "",
        '  File "/usr/lib/python3.11/site-packages/keras/src/trainers/trainer.py", line 320, in fit',
        "",
        f"{OOM}",
        "\t [[{{node model/block/Conv2D}}]]",
    ]
    request = only(lines).request
    assert (request.node, request.source) == ("model/block/Conv2D", "train.py:31")


def test_the_error_of_version_1_names_node_and_attributes():
    lines = [
        f"ResourceExhaustedError (see above for traceback): {OOM}",
        '\t [[Node: net/fc6/MatMul = MatMul[T=DT_FLOAT, _device="/device:GPU:0"](a, b)]]',
    ]
    assert only(lines).request.node == "net/fc6/MatMul"


def test_the_traceback_of_version_1_names_device_and_line():
    oom = "OOM when allocating tensor with shape[96,30,30,3]"
    node = (
        '\t [[Node: conv1/Conv2D = Conv2D[T=DT_FLOAT, _device="/job:localhost/replica:0/task:0/device:GPU:1"](a, b)]]'
    )
    lines = [
        f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {oom}",
        node,
        "",
        "Caused by op 'conv1/Conv2D', defined at:",
        '  File "alex.py", line 288, in <module>',
        '  File "alex.py", line 65, in inference',
        '  File "/usr/local/lib/python3.5/dist-packages/tensorflow/python/ops/gen_nn_ops.py", line 631, in conv2d',
        "",
        f"ResourceExhaustedError (see above for traceback): {oom}",
        node,
    ]
    request = only(lines).request
    assert (request.node, request.source) == ("conv1/Conv2D", "alex.py:65")
    assert request.device == "/job:localhost/replica:0/task:0/device:GPU:1"


def test_the_oldest_error_tells_no_type():
    request = only(["W op_kernel.cc:975] Resource exhausted: OOM when allocating tensor with shape[128,64]"]).request
    assert (request.shape, request.dtype, request.bytes) == ((128, 64), None, None)


def test_a_list_of_allocations_names_the_holders():
    lines = [
        OOM,
        "\t [[{{node net/conv/Conv2D}}]]",
        "",
        f"Current usage from device: {DEVICE}, allocator: {ALLOCATOR}",
        "  250.00MiB from net/conv_5/Conv2D",
        "  300.00MiB from net/conv_2/Conv2D",
        "  Remaining 52 nodes with 98.50MiB",
        "",
        "  1.00MiB from nowhere",
    ]
    holders = only(lines).holders
    assert [(holder.name, holder.bytes, holder.count) for holder in holders] == [
        ("net/conv_2/Conv2D", 300 * MIB, 1),
        ("net/conv_5/Conv2D", 250 * MIB, 1),
        (None, int(98.5 * MIB), 52),
    ]


def test_a_compiled_step_lists_its_buffers():
    lines = [
        *allocator_says("2.21", asked=6 * MIB + 100),
        f"RESOURCE_EXHAUSTED: Out of memory while trying to allocate {6 * MIB + 100} bytes.",
        "BufferAssignment OOM Debugging.",
        "Peak buffers:",
        "\tBuffer 1:",
        "\t\tSize: 6.00MiB",
        '\t\tOperator: op_type="Conv2D" op_name="model/conv/Conv2D" source_file="/home/me/train.py" source_line=9',
        "\t\tXLA Label: convolution",
        "\t\tShape: f32[64,128,192]",
        "\t\t==========================",
        "\tBuffer 2:",
        "\t\tSize: 384.0KiB",
        "\t\tEntry Parameter Subshape: bf16[1024,192]",
    ]
    evidence = only(lines)
    assert evidence.request.bytes == 6 * MIB + 100 + 156  # rounded up by the allocator
    largest, smallest = evidence.holders
    assert (largest.name, largest.op, largest.dtype, largest.shape, largest.source) == (
        "model/conv/Conv2D",
        "convolution",
        "float32",
        (64, 128, 192),
        "train.py:9",
    )
    assert (smallest.bytes, smallest.dtype, smallest.shape) == (384 << 10, "bfloat16", (1024, 192))


def test_cuda_malloc_async_has_statistics_and_a_histogram():
    prefix = "2024-01-01 10:00:00.1: E gpu_cudamallocasync_allocator.cc:309] "
    lines = [
        f"{prefix}gpu_async_0 cuMemAllocAsync failed to allocate 4000000 bytes: CUDA error: out of memory",
        " Reported by CUDA: Free memory/Total memory: 1000000/8000000",
        f"{prefix}Stats: Limit:                      7000000",
        "InUse:                      6500000",
        "MaxInUse:                   6800000",
        f"{prefix}Histogram of current allocation: (allocation_size_in_bytes, nb_allocation_of_that_sizes), ...;",
        f"{prefix}256, 4",
        f"{prefix}3000000, 2",
    ]
    evidence = only(lines)
    assert (evidence.request.bytes, evidence.request.allocator) == (4000000, "gpu_async_0")
    assert (evidence.heap.limit_bytes, evidence.heap.bytes_in_use, evidence.heap.peak_bytes) == (
        7000000,
        6500000,
        6800000,
    )
    assert evidence.heap.free_bytes == 500000
    assert [(holder.bytes, holder.count) for holder in evidence.holders] == [(6000000, 2), (1024, 4)]
    assert "1,000,000 of 8,000,000" in evidence.notes[0]


def test_a_copy_that_found_no_room():
    copy = f"InternalError: Failed copying input tensor from CPU:0 to {DEVICE} in order to run _EagerConst: "
    evidence = only([*allocator_says("1.4"), f"{copy}Dst tensor is not initialized."])
    assert (evidence.request.op, evidence.heap.complete) == ("_EagerConst", True)
    assert only([f"{copy}Dst tensor is not initialized."]).request.op == "_EagerConst"


@pytest.mark.parametrize(
    ("value", "cause", "words"),
    [("float shape: [32768,2048]", "constant", "256 MiB at once"), ("int32 shape: []", "device", "not even 4 B")],
)
def test_a_constant_of_version_1_that_found_no_room(value, cause, words):
    lines = [
        "tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized.",
        f'\t [[Node: zeros_12 = Const[value=Tensor<type: {value} values: 0>, _device="/job:x/task:0/gpu:0"]()]]',
    ]
    evidence = only(lines)
    assert (evidence.request.node, evidence.request.op) == ("zeros_12", "Const")
    found = explain_evidence(evidence, "train.log").cause
    assert found.name == cause
    assert words in found.sentence


def test_a_constant_of_another_node_says_nothing_of_the_request():
    lines = [
        f"ResourceExhaustedError: {OOM}",
        '\t [[Node: fc6/MatMul = MatMul[T=DT_FLOAT, _device="/device:GPU:0"](a, b)]]',
        "\t [[Node: zeros_12 = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [2048] values: 0>]()]]",
    ]
    request = only(lines).request
    assert (request.node, request.op, request.bytes) == ("fc6/MatMul", None, ASKED)


def test_kernels_that_do_not_say_how_much():
    lines = [*allocator_says("2.4"), "W op_kernel.cc:1733] RESOURCE_EXHAUSTED: failed to allocate memory"]
    assert only([*lines, "Message: failed to allocate memory"]).heap.complete


def test_a_tpu():
    line = "Compilation failure: Ran out of memory in memory space hbm. Used 12.50G of 8.00G hbm. Exceeded hbm capacity"
    shortage = explain_evidence(only([line, line]), "train.log")
    assert (shortage.request.bytes, shortage.limit_bytes) == (25 << 29, 8 << 30)
    assert shortage.cause.name == "batch"


def test_an_array_of_numpy():
    line = (
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 2.98 GiB for an array with shape "
        "(800, 1000000) and data type float32"
    )
    shortage = explain_evidence(only([line]), "train.log")
    assert shortage.request == Request(3_200_000_000, (800, 1000000), "float32", allocator="numpy")
    assert shortage.cause.name == "constant"


@pytest.mark.parametrize(
    ("amount", "shape", "dtype", "asked", "cause"),
    [
        # NumPy writes three digits, and a point even after the third.
        ("117. GiB", "(104812, 5070, 59)", "int32", 104812 * 5070 * 59 * 4, "constant"),
        ("4.00 MiB", "(512, 512, 2)", "float64", 4 * MIB, "host"),
        ("234. MiB", "(60000, 1024)", "float32", 60000 * 4096, "host"),
        (None, "(4096, 1048576)", "float64", 32 << 30, "constant"),
        ("1.25 GiB", "(3355443,)", "<U100", 1280 * MIB, "constant"),
    ],
)
def test_amounts_of_numpy(amount, shape, dtype, asked, cause):
    what = "" if amount is None else f"{amount} for an "
    line = f"_ArrayMemoryError: Unable to allocate {what}array with shape {shape} and data type {dtype}"
    shortage = explain_evidence(only([f"numpy.core._exceptions.{line}"]), "train.log")
    assert shortage.request.bytes == asked
    assert shortage.cause.name == cause
    assert any("lt.feed" in line for line in shortage.cause.advice)
    assert not any("tf.constant" in line for line in shortage.cause.advice)


def test_an_amount_of_pytorch():
    line = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity)"
    )
    assert only([line]).request.bytes == 20 * MIB


def test_one_shape_alone_is_no_batch_size():
    assert guess_batch_size([Request(shape=(64, 3))]) is None
    assert guess_batch_size([Request(shape=(64, 3)), Request(shape=(64, 3))]) is None
    assert guess_batch_size([Request(shape=(64, 3)), Request(shape=(32, 5))]) is None
    assert guess_batch_size([Request(shape=(64, 3)), Request(shape=(64,)), Request(shape=(64, 5))]) == 64


def test_the_hint_of_version_2_is_corrected():
    hint = (
        "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom "
    )
    later = f"{hint}to RunOptions for current allocation info. This isn't available when running in Eager mode."
    assert "version 1 only" in only([OOM, later, OOM, later]).notes[0]
    assert only([OOM, f"{hint}to RunOptions for current allocation info."]).notes == ()


def test_damaged_logs_never_break_the_reader():
    random = Random(7)
    logs = [as_bytes(whole_log(version)) for version in VERSIONS]
    for _ in range(400):
        lines = [line for line in chain(*random.sample(logs, 2)) if random.random() > 0.1]
        for _ in range(20):
            row = random.randrange(len(lines))
            cut = random.randrange(len(lines[row]) + 1)
            damage = random.randrange(4)
            if damage == 0:
                lines[row] = lines[row][:cut] + random.randbytes(3) + lines[row][cut:]
            elif damage == 1:
                lines[row] = lines[row][:cut]
            elif damage == 2:
                lines[row : row + 1] = [lines[row][:cut], lines[row][cut:]]
            else:
                lines.insert(random.randrange(len(lines)), lines[row])
        for evidence in read_log_evidence(lines):
            shortage = explain_evidence(evidence, "train.log")
            assert shortage.cause.sentence
            assert shortage.to_json()


def test_numbers_that_are_too_long_are_no_numbers():
    long = "9" * 5000
    lines = [
        f"InUse at {'f' * 5000} of size {long}",
        f"{long} Chunks of size {long} totalling 1B",
        f"OOM when allocating tensor with shape[{long}]",
        f"OOM when allocating tensor with shape[{','.join(['7'] * 400)}]",
        f"Out of memory while trying to allocate {long} bytes",
        f"Allocator (x) ran out of memory trying to allocate {long}GiB",
    ]
    assert read(lines) == []


def test_a_line_of_a_megabyte_is_read_through():
    # A pattern that goes back and forth over it would not come to an end.
    filler = "9" * 250_000 + "x" * 250_000 + " " * 250_000 + "[[node" * 40_000
    assert only([f"{filler}allocation{filler}{OOM}"]).request.shape == SHAPE


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0B", 0),
        ("0.0KiB", 0),
        ("0", 0),
        ("0.4B", 0),
        ("300.00MiB", 300 * MIB),
        ("10925244416", 10925244416),
        ("12.50G", 25 << 29),
        ("2.98 GiB", int(2.98 * 1024 * MIB)),
    ],
)
def test_amounts(text, amount):
    assert read_amount(text.encode()) == amount


def test_memory_stays_bounded_however_long_the_log_is():
    def lines():
        for number in range(8_000):
            yield b"step %d loss 0.1\n" % number
            yield b"OOM when allocating tensor with shape[%d,3] and type float\n" % number

    once = as_bytes(whole_log("2.4"))
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_log_evidence(chain(once, lines(), once)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 8_002
    assert peak < 1 << 20
