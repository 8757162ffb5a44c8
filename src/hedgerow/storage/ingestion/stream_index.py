"""What this process knows of the messages of the inbox stream that are not processed. The messages
themselves stay on the server.

A message holds the rows of several requests, of any buckets. Its header says which buckets, and
which persons and groups their events change, so that readers know what to wait for.
"""

from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hedgerow.projects.model import ProjectId

# Ids of rows in the stream are above those of rows in the database.
FIRST_STREAM_ID = 1 << 62
ROW_BITS = 12
MAX_ROWS_PER_MESSAGE = 1 << ROW_BITS
# The server allows 64 KiB for all headers. A key takes up to 12 characters.
MAX_KEYS_PER_MESSAGE = 4000
# Beyond it, the keys of further messages are not kept: any reader waits for these.
MAX_KEYS = 1_000_000


class StreamRow(msgspec.Struct, frozen=True, array_like=True):
    """Encoded events of one request and one bucket."""

    bucket: int
    project_id: ProjectId
    number: int
    events: bytes


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What a message holds for one bucket. `keys` is None if there are too many."""

    bucket: int
    first_row: int
    last_row: int
    number: int
    size: int
    keys: Sequence[int] | None


class MessageSummary(msgspec.Struct, frozen=True, array_like=True):
    accepted_ms: int
    shares: Sequence[Share]


class WaitingShare(msgspec.Struct, frozen=True, kw_only=True):
    """A share of a message that is not, or not entirely, processed."""

    sequence: int
    share: Share
    accepted_ms: int

    @property
    def first_id(self) -> int:
        return make_row_id(self.sequence, self.share.first_row)

    @property
    def last_id(self) -> int:
        return make_row_id(self.sequence, self.share.last_row)


_encode = msgspec.msgpack.Encoder().encode
_decode_summary = msgspec.msgpack.Decoder(MessageSummary).decode


def make_row_id(sequence: int, row: int) -> int:
    return FIRST_STREAM_ID + (sequence << ROW_BITS) + row


def encode_summary(
    rows: Sequence[StreamRow], keys: Sequence[Sequence[int]], accepted_ms: int
) -> str:
    """Return the header of a message with these rows. `keys` are those of each row."""
    of_bucket: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        of_bucket[row.bucket].append(number)
    shares = []
    for bucket, numbers in of_bucket.items():
        distinct = {key for number in numbers for key in keys[number]}
        shares.append(
            Share(
                bucket,
                numbers[0],
                numbers[-1],
                sum(rows[number].number for number in numbers),
                sum(len(rows[number].events) for number in numbers),
                sorted(distinct),
            )
        )
    if sum(len(share.keys or ()) for share in shares) > MAX_KEYS_PER_MESSAGE:
        shares = [msgspec.structs.replace(share, keys=None) for share in shares]
    return b64encode(_encode(MessageSummary(accepted_ms, shares))).decode()


def decode_summary(header: str) -> MessageSummary:
    return _decode_summary(b64decode(header))


class StreamIndex:
    """The unprocessed messages of one stream, in their order. A position is the id of the last
    processed row of a bucket."""

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        self._max_keys = max_keys
        self._waiting: dict[int, deque[WaitingShare]] = defaultdict(deque)
        self._positions: dict[int, int] = {}
        # Where the events that change a person or a group are; under None, those that may change
        # any.
        self._by_key: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
        self._key_count = 0
        # The number of events that wait, and of shares that are processed.
        self.events = 0
        self.processed = 0
        # The last message that is known.
        self.last_sequence = 0

    def add(self, sequence: int, summary: MessageSummary) -> None:
        self.last_sequence = max(self.last_sequence, sequence)
        for share in summary.shares:
            if make_row_id(sequence, share.last_row) <= self._positions.get(share.bucket, 0):
                continue
            if share.keys is not None and self._key_count >= self._max_keys:
                share = msgspec.structs.replace(share, keys=None)
            waiting = WaitingShare(sequence=sequence, share=share, accepted_ms=summary.accepted_ms)
            self._waiting[share.bucket].append(waiting)
            self.events += share.number
            for key in _list_keys(share):
                self._by_key[key].append((sequence, share.bucket))
                self._key_count += 1

    def skip(self, sequence: int) -> None:
        """Note that no message up to this one is left to learn of."""
        self.last_sequence = max(self.last_sequence, sequence)

    def advance(self, positions: Mapping[int, int]) -> None:
        """Forget what is processed."""
        for bucket, last_id in positions.items():
            self._positions[bucket] = max(last_id, self._positions.get(bucket, 0))
            waiting = self._waiting[bucket]
            while waiting and waiting[0].last_id <= last_id:
                self._forget(waiting.popleft())

    def _forget(self, waiting: WaitingShare) -> None:
        share, place = waiting.share, (waiting.sequence, waiting.share.bucket)
        self.events -= share.number
        self.processed += 1
        for key in _list_keys(share):
            places = self._by_key[key]
            places.remove(place)
            self._key_count -= 1
            if not places:
                del self._by_key[key]

    def list_waiting(self, bucket: int) -> Iterable[WaitingShare]:
        return self._waiting.get(bucket, ())

    def first_ids(self) -> dict[int, int]:
        """Return the first waiting row of each bucket that has one."""
        return {
            bucket: max(waiting[0].first_id, self._positions.get(bucket, 0) + 1)
            for bucket, waiting in sorted(self._waiting.items())
            if waiting
        }

    def find_buckets(self, keys: Iterable[int], last_id: int) -> set[int]:
        """Return the buckets with events up to this row that change what the keys stand for."""
        return {
            bucket
            for key in (*keys, None)
            for sequence, bucket in self._by_key.get(key, ())
            if make_row_id(sequence, 0) <= last_id
        }

    @property
    def last_id(self) -> int:
        """The last row that may wait, 0 if none does."""
        found = [waiting[-1].last_id for waiting in self._waiting.values() if waiting]
        return max(found, default=0)

    @property
    def first_sequence(self) -> int:
        """The first message that the server has to keep."""
        found = [waiting[0].sequence for waiting in self._waiting.values() if waiting]
        return min(found, default=self.last_sequence + 1)

    @property
    def oldest_ms(self) -> int | None:
        found = [waiting[0].accepted_ms for waiting in self._waiting.values() if waiting]
        return min(found, default=None)


def _list_keys(share: Share) -> Sequence[int | None]:
    return (None,) if share.keys is None else share.keys
