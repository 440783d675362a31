"""The framing of TFRecord files, whole and damaged."""

import pytest

from lowtide.sources.graphs.tfrecords import TFRecord, read_records
from tests.unit.protos import record

ONE, TWO, THREE = b"first", b"the second", b"3rd"
FILE = record(ONE) + record(TWO) + record(THREE)
# Each record has a header of 12 bytes and a footer of 4.
RECORDS = [TFRecord(12, 17, True), TFRecord(33, 43, True), TFRecord(59, 62, True)]


def read(data):
    notes = []
    return list(read_records(data, notes.append)), notes


def flip(data, position):
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_records_are_found_where_they_lie():
    assert read(FILE) == (RECORDS, [])
    assert read(b"") == ([], [])


@pytest.mark.parametrize("position", [33, 42, 43, 46])
def test_a_record_with_a_bad_checksum_is_given(position):
    records, notes = read(flip(FILE, position))
    assert records == [RECORDS[0], RECORDS[1]._replace(is_intact=False), RECORDS[2]]
    assert notes == []


def test_a_length_whose_checksum_is_bad_counts_if_it_leads_to_the_next_record():
    records, notes = read(flip(FILE, 29))
    assert records == [RECORDS[0], RECORDS[1]._replace(is_intact=False), RECORDS[2]]
    assert notes == []


def test_after_a_bad_length_the_next_record_is_found():
    records, notes = read(flip(FILE, 21))
    assert records == [RECORDS[0], RECORDS[2]]
    assert notes == ["the bytes 21 to 47 are no record"]


def test_where_no_record_follows_a_bad_length_reading_ends():
    records, notes = read(flip(FILE, 47))
    assert records == RECORDS[:2]
    assert notes == ["the length of the record at byte 47 is damaged; what follows it cannot be read"]


@pytest.mark.parametrize("size", range(len(FILE) + 1))
def test_a_file_that_is_cut_gives_what_there_is(size):
    records, notes = read(FILE[:size])
    # A record is there as soon as its header is.
    assert records == [each for each in RECORDS if each.start <= size]
    whole = size in (0, 21, 47, len(FILE))
    assert notes == (
        [] if whole else ["the file ends in the middle of a record: it was cut, or is still being written"]
    )


def test_a_record_of_several_pieces_is_checked_to_its_end():
    data = bytes(range(256)) * 10_000
    assert read(record(data))[0] == [TFRecord(12, 12 + len(data), True)]
    assert read(flip(record(data), 12 + len(data) - 1))[0] == [TFRecord(12, 12 + len(data), False)]
