"""The index of the inbox stream knows what waits, for whom, and what the server may forget."""

from collections.abc import Mapping, Sequence

from hedgerow.projects.model import ProjectId
from hedgerow.storage.ingestion.stream_index import (
    MAX_KEYS_PER_MESSAGE,
    StreamIndex,
    StreamRow,
    decode_summary,
    encode_summary,
    make_row_id,
)

LAST = make_row_id(1000, 0)


def add(index: StreamIndex, sequence: int, keys: Mapping[int, Sequence[int]]) -> None:
    """Add a message with two events for each bucket, which change what these keys stand for."""
    rows = [StreamRow(bucket, ProjectId(1), 2, b"events") for bucket in keys]
    header = encode_summary(rows, list(keys.values()), sequence * 10)
    index.add(sequence, decode_summary(header))


def test_messages_wait_until_the_position_of_each_bucket_passes_them() -> None:
    index = StreamIndex()
    assert (index.first_ids(), index.last_id, index.oldest_ms) == ({}, 0, None)
    add(index, 1, {3: [7], 5: [8, -9]})
    add(index, 2, {3: [7]})
    assert index.first_ids() == {3: make_row_id(1, 0), 5: make_row_id(1, 1)}
    assert (index.events, index.first_sequence, index.oldest_ms) == (6, 1, 10)
    index.advance({3: make_row_id(1, 0)})
    assert (index.events, index.first_sequence) == (4, 1)
    index.advance({5: make_row_id(1, 1)})
    assert (index.events, index.first_sequence, index.oldest_ms) == (2, 2, 20)
    index.advance({3: make_row_id(2, 0)})
    assert (index.events, index.first_sequence, index.last_id) == (0, 3, 0)
    # A process that starts learns of messages that are processed in part.
    add(index, 2, {3: [7], 6: [1]})
    assert index.first_ids() == {6: make_row_id(2, 1)}


def test_readers_find_the_buckets_with_events_of_their_keys() -> None:
    index = StreamIndex()
    add(index, 1, {3: [7], 5: [8, -9]})
    add(index, 2, {4: [7]})
    assert index.find_buckets([7], LAST) == {3, 4}
    assert index.find_buckets([7], make_row_id(1, 9)) == {3}
    assert index.find_buckets([-9, 1], LAST) == {5}
    assert index.find_buckets([1], LAST) == set()
    index.advance({3: make_row_id(1, 0)})
    assert index.find_buckets([7], LAST) == {4}


def test_every_reader_waits_for_events_with_unknown_keys() -> None:
    index = StreamIndex(max_keys=2)
    add(index, 1, {1: [7, 8]})
    add(index, 2, {2: [9]})
    add(index, 3, {3: list(range(MAX_KEYS_PER_MESSAGE + 1))})
    assert index.find_buckets([1], LAST) == {2, 3}
    index.advance({2: make_row_id(2, 0), 3: make_row_id(3, 0)})
    assert index.find_buckets([1], LAST) == set()
