"""What a script prints is shown as it comes; the allocator's dump is not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.run.dump_filter import DumpFilter
from lowtide.run.output_log import OutputLog

# As TensorFlow 2.21 prints it, shortened; S says that a line is shown, D that it belongs to the dump.
TODAY = """\
S filled
S W0000 00:00:1794832583.291534   14999 bfc_allocator.cc:502] Allocator (bfc) ran out of memory trying to allocate \
256.00MiB (rounded to 268435456)requested by op Fill
D If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve\
 the situation.\x20
D Current allocation summary follows.
D Current allocation summary follows.
D I0000 00:00:1794832583.291672   14999 bfc_allocator.cc:1049] BFCAllocator dump for bfc_cpu_allocator_for_gpu
D I0000 00:00:1794832583.291676   14999 bfc_allocator.cc:1056] Bin (256): \tTotal Chunks: 1, Chunks in use: 1. 256B \
allocated for chunks. 256B in use in bin. 12B client-requested in use in bin.
D I0000 00:00:1794832583.291753   14999 bfc_allocator.cc:1072] Bin for 256.00MiB was 256.00MiB, Chunk State:\x20
D I0000 00:00:1794832583.291754   14999 bfc_allocator.cc:1078]   Size: 20.00MiB | Requested Size: 0B | in_use: 0
D I0000 00:00:1794832583.291757   14999 bfc_allocator.cc:1085] Next region of size 33554432
D I0000 00:00:1794832583.291763   14999 bfc_allocator.cc:1105] InUse at 7f0d05fff040 of size 4194304 next 10
D I0000 00:00:1794832583.291770   14999 bfc_allocator.cc:1105] Free  at 7f0d06bff040 of size 20971520 next 184467440
S I0000 00:00:1794832583.291799   15002 port.cc:153] oneDNN custom operations are on.
D I0000 00:00:1794832583.291799   14999 bfc_allocator.cc:1110]      Summary of in-use Chunks by size:\x20
D I0000 00:00:1794832583.291805   14999 bfc_allocator.cc:1113] 10 Chunks of size 4194304 totalling 40.00MiB
D I0000 00:00:1794832583.291808   14999 bfc_allocator.cc:1117] Sum Total of in-use chunks: 40.00MiB
D I0000 00:00:1794832583.291810   14999 bfc_allocator.cc:1119] Total size in pool: 62.00MiB memory_limit_: 100.00MiB
D I0000 00:00:1794832583.291816   14999 bfc_allocator.cc:1128] Stats:\x20
D Limit:                       100.00MiB
D NumAllocs:                          21
D LargestFreeBlock:                   0B
D\x20
D W0000 00:00:1794832583.291824   14999 bfc_allocator.cc:513] ********************____xxx_****___
S W0000 00:00:1794832583.292120   14999 op_kernel.cc:1858] OP_REQUIRES failed at constant_op.cc:176
S Limit: 3
S\x20
S I0000 00:00:1794832583.291824   14999 bfc_allocator.cc:176] Extending allocation by 2.00MiB bytes for CPU.
S W0000 00:00:1794832583.291824   14999 bfc_allocator.cc:383] Garbage collection: deallocate free memory regions
D I0000 00:00:1794832583.291824   14999 profiler_session.cc:117] Profiler session initializing.
D I0000 00:00:1794832583.291824   14999 save_profile.cc:150] Collecting XSpace to repository: a/b
S Current allocation summary follows.
S Traceback (most recent call last):
"""
YESTERDAY = """\
S 2025-11-06 08:55:24.921743: W external/local_xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran \
out of memory trying to allocate 1.00GiB (rounded to 1073741824)requested by op Conv2D
D If the cause is memory fragmentation maybe the environment variable will improve the situation.\x20
D Current allocation summary follows.
D 2025-11-06 08:55:24.921743: I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1049] BFCAllocator dump for GPU
D 2025-11-06 08:55:24.921743: I tensorflow/core/common_runtime/bfc_allocator.cc:679] 4 Chunks of size 12845056 totalling
D 2025-11-06 08:55:24.921743: I tensorflow/tsl/framework/bfc_allocator.cc:1101] InUse at 7f5 of size 1280 next 1
D 2025-11-06 08:55:24.921744: I external/local_xla/xla/tsl/framework/bfc_allocator.cc:1128] Stats:\x20
D Limit:                     16934240256
D InUse:                     16934240000
D\x20
D 2025-11-06 08:55:24.921743: W external/local_xla/xla/tsl/framework/bfc_allocator.cc:512] *****xxx___
S 2025-11-06 08:55:24.921743: W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed
"""
# Under TF_CPP_MIN_LOG_LEVEL=2, which silences warnings.
SILENCED = """\
D WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
D W0000 00:00:1794832583.291534   14999 bfc_allocator.cc:502] Allocator (bfc) ran out of memory trying to allocate \
256.00MiB (rounded to 268435456)requested by op Fill
D If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve\
 the situation.\x20
D Current allocation summary follows.
D W0000 00:00:1794832583.291824   14999 bfc_allocator.cc:513] <allocator contains no memory>
S Current allocation summary follows.
S Epoch 1
D W0000 00:00:1794832583.292120   14999 local_rendezvous.cc:407] Local rendezvous is aborting: OUT_OF_RANGE: the end
D \t [[{{node IteratorGetNext}}]]
D W0000 00:00:1795099292.785694   10272 op_kernel.cc:1834] OP_REQUIRES failed at constant_op.cc:83 : \
INVALID_ARGUMENT: Cannot parse tensor from proto: goo.gle/debugproto\x20\x20
D dtype: DT_FLOAT
D tensor_shape {
D   dim {
D     size: 300000
D   }
D }
D float_val: 0
D\x20
S }
S W0000 of the user
S \t [[{{node IteratorGetNext}}]]
S WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
S E0000 00:00:1794832583.291824   14999 cuda_executor.cc:1] no CUDA
D 2025-11-06 08:55:24.921743: W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed
S 2025-11-06 08:55:24.921743: E tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed
S WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
"""


def parts(text: str) -> tuple[bytes, bytes]:
    """All lines of a marked text, and those of them that are shown."""
    lines = text.splitlines(keepends=True)
    return "".join(line[2:] for line in lines).encode(), "".join(line[2:] for line in lines if line[0] == "S").encode()


def sift(pieces, dump_filter: DumpFilter | None = None) -> bytes:
    dump_filter = dump_filter or DumpFilter()
    return b"".join([dump_filter.filter(piece) for piece in pieces] + [dump_filter.release()])


@pytest.mark.parametrize("text", [TODAY, YESTERDAY], ids=["2.21", "before"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100, 1000, 1 << 20])
def test_the_dump_is_held_back_however_it_is_cut(text, size):
    written, shown = parts(text)
    assert sift(written[start : start + size] for start in range(0, len(written), size)) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100, 1000, 1 << 20])
def test_silenced_messages_are_not_shown_however_they_are_cut(size):
    written, shown = parts(SILENCED)
    dump_filter = DumpFilter()
    dump_filter.silenced = b"W"
    assert sift((written[start : start + size] for start in range(0, len(written), size)), dump_filter) == shown


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40)))
def test_other_bytes_pass_unchanged(pieces):
    assert sift(pieces) == b"".join(pieces)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([b"I0000 ", b"I0000 00:00:17.", b"5 7 port.cc:1] hello", b"2025-", b"11", b"\r", b"\n", b"W"])
    )
)
def test_text_that_resembles_a_record_passes_unchanged(pieces):
    assert sift(pieces) == b"".join(pieces)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([b"I0000 ", b"00:00:17", b".5 7", b" 2025-", b"1", b"\n"]), st.booleans())))
def test_pauses_change_nothing(pieces):
    dump_filter, shown = DumpFilter(), b""
    for piece, pause in pieces:
        shown += dump_filter.filter(piece)
        if pause:
            shown += dump_filter.release()
            assert not dump_filter.is_waiting
    assert shown + dump_filter.release() == b"".join(piece for piece, _ in pieces)


@pytest.mark.parametrize("text", [b"Password: ", b"\r 50%|#####     | 5/10 [00:01<00:01]", b"\b\b\b.", b"...", b"I am"])
def test_unfinished_lines_are_shown_at_once(text):
    assert DumpFilter().filter(text) == text


def test_what_may_be_a_record_waits_until_it_is_released():
    dump_filter = DumpFilter()
    assert dump_filter.filter(b"epoch 2025") == b"epoch "
    assert dump_filter.is_waiting
    assert dump_filter.release() == b"2025"
    assert not dump_filter.is_waiting
    assert dump_filter.filter(b" is over\n") == b" is over\n"


def test_a_progress_bar_on_the_same_line_stays():
    written, _ = parts(YESTERDAY)
    dump = written.splitlines(keepends=True)[3]
    assert sift([b"\r 5/10" + dump + b"\r 6/10"]) == b"\r 5/10\r 6/10"


def test_a_line_of_the_dump_that_started_on_the_screen_ends_there():
    written, _ = parts(YESTERDAY)
    dump = written.splitlines(keepends=True)[3]
    dump_filter = DumpFilter()
    assert dump_filter.filter(dump[:30]) + dump_filter.release() == dump[:30]
    assert dump_filter.filter(dump[30:50]) == b""
    assert dump_filter.filter(dump[50:]) == b"\n"
    assert dump_filter.filter(dump + b"next\n") == b"next\n"


def test_a_long_line_without_an_end_does_not_wait_for_ever():
    record = b"I0000 00:00:17.5 7 bfc_allocator.cc:1105] InUse at " + b"7" * (1 << 17)
    assert DumpFilter().filter(record) == record


def test_a_log_is_in_the_file_at_once(tmp_path):
    log = OutputLog(tmp_path / "log")
    log.write(b"one\ntw")
    assert log.path.read_bytes() == b"one\ntw"
    log.write(b"o\n")
    log.close()
    assert log.path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("size", [1, 3, 10, 26])
def test_a_log_that_is_too_long_keeps_its_beginning_and_its_end(tmp_path, size):
    alphabet = b"abcdefghijklmnopqrstuvwxyz"
    log = OutputLog(tmp_path / "log", limit_bytes=10)
    for start in range(0, 26, size):
        log.write(alphabet[start : start + size])
    log.close()
    assert log.path.read_bytes() == b"abcde\n[lowtide left out 16 bytes here]\nvwxyz"


def test_a_log_that_just_fits_is_whole(tmp_path):
    log = OutputLog(tmp_path / "log", limit_bytes=10)
    for letter in b"abcdefghij":
        log.write(bytes([letter]))
    log.close()
    assert log.path.read_bytes() == b"abcdefghij"
