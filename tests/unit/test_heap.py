"""An allocator's memory at one moment, and the file that TensorFlow writes of it."""

import pytest

from lowtide.errors import LowtideError
from lowtide.oom.heap import build_heap, read_memory_dump

MIB = 1 << 20

# Address, size, requested, in use; not in the order of addresses.
BLOCKS = [
    (0x9000_0000, 4 * MIB, 4_000_000, True),
    (0x1000_0000, 8 * MIB, 8 * MIB, True),
    (0x9040_0000, 12 * MIB, 0, False),
    (0x1080_0000, 8 * MIB, 0, False),
]


def varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def dump_bytes() -> bytes:
    chunks = [
        # A free chunk still carries what was last asked for in it.
        text(3, number(1, address) + number(2, size) + number(3, requested or 77) + number(4, 3) + number(8, in_use))
        for address, size, requested, in_use in BLOCKS
    ]
    bins = text(2, number(1, 4) + number(2, 10))
    stats = text(5, number(1, 9) + number(2, 12 * MIB) + number(3, 20 * MIB) + b"\x2d\x00\x00\x00\x3f")
    return text(1, b"GPU_0_bfc") + bins + b"".join(chunks) + stats


@pytest.fixture
def dump_file(tmp_path):
    path = tmp_path / "oom_GPU_0_bfc.1794832198584935"
    path.write_bytes(dump_bytes())
    return path


def test_a_dump_is_read_in_the_order_of_addresses(dump_file):
    heap = read_memory_dump(dump_file)
    assert heap.allocator == "GPU_0_bfc"
    assert heap.address.tolist() == [0x1000_0000, 0x1080_0000, 0x9000_0000, 0x9040_0000]
    assert heap.size.tolist() == [8 * MIB, 8 * MIB, 4 * MIB, 12 * MIB]
    assert heap.requested.tolist() == [8 * MIB, 0, 4_000_000, 0]
    assert heap.in_use.tolist() == [True, False, True, False]
    assert (heap.bytes_in_use, heap.peak_bytes, heap.limit_bytes) == (12 * MIB, 20 * MIB, None)


def test_the_available_bytes_are_unknown_without_the_limit(dump_file):
    heap = read_memory_dump(dump_file)
    assert heap.reserved_bytes == 32 * MIB
    assert (heap.extension_bytes, heap.free_bytes, heap.largest_free_bytes) == (None, None, None)


@pytest.mark.parametrize(("limit", "free", "largest"), [(32, 20, 12), (40, 28, 12), (50, 38, 18), (20, 20, 12)])
def test_memory_that_is_not_yet_fetched_counts_as_free(dump_file, limit, free, largest):
    heap = read_memory_dump(dump_file, limit_bytes=limit * MIB)
    assert (heap.free_bytes, heap.largest_free_bytes) == (free * MIB, largest * MIB)


def test_what_the_allocator_says_of_itself_counts_more_than_a_rounded_limit():
    heap = build_heap(BLOCKS, limit_bytes=33 * MIB, available_bytes=0)
    assert (heap.free_bytes, heap.largest_free_bytes) == (20 * MIB, 12 * MIB)


def test_a_list_that_was_cut_off_does_not_say_what_is_free_in_one_piece():
    heap = build_heap(BLOCKS, limit_bytes=40 * MIB, bytes_in_use=15 * MIB, complete=False)
    assert (heap.free_bytes, heap.largest_free_bytes, heap.reserved_bytes) == (25 * MIB, None, None)
    assert build_heap(BLOCKS, complete=False).free_bytes is None


def test_an_empty_heap_has_all_of_its_limit():
    heap = build_heap([], limit_bytes=MIB)
    assert (len(heap), heap.free_bytes, heap.largest_free_bytes, heap.held_by_size()) == (0, MIB, MIB, ())


def test_blocks_of_one_size_are_counted():
    blocks = [(at, size, 0, True) for at, size in [(0, 256), (256, 256), (512, 1024), (1536, 256)]]
    assert build_heap([*blocks, (1792, 256, 0, False)]).held_by_size() == ((1024, 1), (256, 3))


def test_a_damaged_dump_is_one_line(dump_file, tmp_path):
    content = dump_file.read_bytes()
    for end in range(len(content)):
        dump_file.write_bytes(content[:end])
        with pytest.raises(LowtideError, match="not a memory dump"):
            read_memory_dump(dump_file)
    dump_file.write_bytes(b"Epoch 1/3\nstep 7\n")
    with pytest.raises(LowtideError, match="TF_BFC_MEMORY_DUMP"):
        read_memory_dump(dump_file)
    with pytest.raises(LowtideError, match="No such file"):
        read_memory_dump(tmp_path / "nowhere")
