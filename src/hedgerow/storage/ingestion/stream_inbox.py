"""The inbox with captured events in NATS JetStream. Everything after processing is in PostgreSQL,
as are retried dead letters and what an inbox without a stream left: they are processed first.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from hedgerow.errors import Unavailable
from hedgerow.ingestion.changed_names import hash_in_project
from hedgerow.ingestion.model import InboxRow, IngestionWarning, PackedRow
from hedgerow.ingestion.store import (
    PROCESS_BATCH_BYTES,
    PROCESS_BATCH_EVENTS,
    UNKNOWN_PROJECT,
    InboxBacklog,
    InboxPositions,
    InboxWork,
    PendingQuery,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.ingestion import dead_letters
from hedgerow.storage.ingestion.inbox import SqlInboxStore, decode_inbox_row, lock_bucket
from hedgerow.storage.ingestion.jetstream import InboxStream
from hedgerow.storage.ingestion.stream_index import FIRST_STREAM_ID, StreamRow, make_row_id
from hedgerow.storage.ingestion.stream_positions import (
    BucketPosition,
    fetch_positions,
    move_position,
    read_position,
)

PURGE_INTERVAL_S = 1.0

_log = structlog.get_logger("hedgerow.inbox")


def open_inbox(database: Database, buckets: int, url: str, max_bytes: int) -> SqlInboxStore:
    return StreamInboxStore(database, buckets, InboxStream(url, max_bytes, database))


class StreamInboxStore(SqlInboxStore):
    def __init__(self, database: Database, buckets: int, stream: InboxStream) -> None:
        super().__init__(database, buckets)
        self._stream = stream
        self._persons = SqlEvaluationDataStore(database)
        # Of each bucket: in which era its rows were fetched, and those that cannot be decoded.
        self._eras: dict[int, str] = {}
        self._damaged: dict[int, dict[int, bytes]] = {}
        self._purged_at = 0.0

    async def close(self) -> None:
        await self._stream.close()

    async def add_packed(
        self,
        project_id: ProjectId,
        rows: Sequence[PackedRow],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        # First: a client that repeats the request because of them must not repeat its events.
        await self._add_warnings(project_id, warnings, now)
        if rows:
            made = [StreamRow(row.bucket, project_id, row.number, row.events) for row in rows]
            keys = [[int(key) ^ project_id for key in row.keys.split(",") if key] for row in rows]
            await self._stream.add(made, keys, int(now.timestamp() * 1000))

    async def find_work(self) -> InboxWork:
        stored = await super().find_work()
        await self._stream.catch_up()
        await self._refresh_positions()
        now = time.monotonic()
        if now - self._purged_at >= PURGE_INTERVAL_S:
            self._purged_at = now
            await self._stream.purge()
        found = self._stream.index.first_ids() | dict(stored.unprocessed)
        return InboxWork(unprocessed=dict(sorted(found.items())), has_unstored=stored.has_unstored)

    async def _refresh_positions(self) -> Mapping[int, BucketPosition]:
        """Read the positions, and let the index forget what is processed."""
        era, index = self._stream.era, self._stream.index
        positions = await fetch_positions(self._database, era)
        index.advance({bucket: each.last_id for bucket, each in positions.items()})
        return positions

    async def fetch_unprocessed(
        self, bucket: int, max_events: int = PROCESS_BATCH_EVENTS
    ) -> Sequence[InboxRow]:
        if rows := await super().fetch_unprocessed(bucket, max_events):
            return rows
        await self._stream.catch_up()
        era = self._stream.era
        positions = await self._refresh_positions()
        position = positions.get(bucket, BucketPosition())
        sequences = self._list_first_messages(bucket, position, max_events)
        if not sequences:
            return []
        messages = await self._stream.fetch_messages(sequences)
        if missing := set(sequences).difference(messages):
            await self._drop_missing(bucket, missing)
        if self._stream.era != era:
            return []
        self._eras[bucket] = era
        return self._decode_rows(bucket, position, messages, max_events)

    def _list_first_messages(
        self, bucket: int, position: BucketPosition, max_events: int
    ) -> Sequence[int]:
        """Return the messages with the next rows of a bucket, enough for a batch."""
        sequences, events, size = [], max_events + position.events, PROCESS_BATCH_BYTES
        for waiting in self._stream.index.list_waiting(bucket):
            sequences.append(waiting.sequence)
            events -= waiting.share.number
            size -= waiting.share.size
            if events <= 0 or size <= 0:
                break
        return sequences

    async def _drop_missing(self, bucket: int, sequences: Collection[int]) -> None:
        """Leave out messages that are gone. If they are not processed, an operator removed them, or
        the server lost them."""
        await self._refresh_positions()
        index = self._stream.index
        gone = [each for each in index.list_waiting(bucket) if each.sequence in sequences]
        if gone:
            _log.error("messages of the inbox stream are missing", number=len(gone))
            if next(iter(index.list_waiting(bucket))) is gone[0]:
                index.advance({bucket: gone[0].last_id})

    def _decode_rows(
        self,
        bucket: int,
        position: BucketPosition,
        messages: Mapping[int, Sequence[StreamRow]],
        max_events: int,
    ) -> Sequence[InboxRow]:
        """Return the first rows after the position, limited by events and bytes, but at least
        one."""
        found: list[InboxRow] = []
        damaged = self._damaged[bucket] = {}
        events, size = max_events, PROCESS_BATCH_BYTES
        for sequence, rows in sorted(messages.items()):
            for number, row in enumerate(rows):
                id = make_row_id(sequence, number)
                if row.bucket != bucket or id <= position.last_id:
                    continue
                if found and (row.number > events or len(row.events) > size):
                    return found
                decoded = decode_inbox_row(id, row.number, row.events, row.project_id)
                if decoded.problem:
                    damaged[id] = row.events
                at = position if not found else BucketPosition(found[-1].id)
                found.append(_begin_at(decoded, at))
                events -= row.number
                size -= len(row.events)
        return found

    def _lock_rows(self, connection: Connection, bucket: int, rows: Sequence[InboxRow]) -> bool:
        if rows[0].id < FIRST_STREAM_ID:
            return super()._lock_rows(connection, bucket, rows)
        if not lock_bucket(connection, bucket):
            return False
        era = self._eras.get(bucket, self._stream.era)
        return read_position(connection, era, bucket) == _position_before(rows[0])

    def _remove_processed(
        self, connection: Connection, bucket: int, rows: Sequence[InboxRow]
    ) -> None:
        if rows[0].id < FIRST_STREAM_ID:
            super()._remove_processed(connection, bucket, rows)
            return
        last = rows[-1]
        after = BucketPosition(last.id)
        if last.rest:
            before = _position_before(last)
            after = BucketPosition(before.last_id, before.events + last.number)
        move_position(connection, self._eras.get(bucket, self._stream.era), bucket, after)

    def _add_dead_letter(
        self, connection: Connection, bucket: int, row: InboxRow, reason: str, now: datetime
    ) -> None:
        packed = self._damaged.get(bucket, {}).get(row.id)
        dead_letters.add_inbox_row(connection, bucket, row, reason, now, packed)

    async def count_backlog(self) -> InboxBacklog:
        await self._stream.catch_up()
        await self._refresh_positions()
        backlog = await super().count_backlog()
        if not (in_stream := self._stream.index.events):
            return backlog
        return replace(backlog, unprocessed={**backlog.unprocessed, UNKNOWN_PROJECT: in_stream})

    @property
    def has_stream(self) -> bool:
        return True

    async def find_accepted(self, query: PendingQuery, timeout_s: float) -> int:
        await self._stream.catch_up(timeout_s)
        last = self._stream.index.last_id
        if not last:
            return 0
        return last if await self._find_in_stream(replace(query, last=last)) else 0

    async def find_unprocessed(self, queries: Sequence[PendingQuery]) -> Sequence[Sequence[int]]:
        """Uses what is known of the stream: its readers have caught up with it before."""
        in_database = await super().find_unprocessed(queries)
        await self._refresh_positions()
        in_stream = [await self._find_in_stream(query) for query in queries]
        return [sorted({*one, *other}) for one, other in zip(in_database, in_stream, strict=True)]

    async def _find_in_stream(self, query: PendingQuery) -> set[int]:
        """Return the buckets with events that change the person of the query, under any of its
        distinct ids, or what its keys stand for."""
        index, last, keys = self._stream.index, query.last, query.keys
        while index.events:
            processed = index.processed
            if not index.find_buckets(keys, last) and query.distinct_id:
                ids = await self._persons.list_distinct_ids(query.project_id, query.distinct_id)
                others = (hash_in_project(query.project_id, each) for each in ids)
                keys = [*query.keys, *others]
            if index.find_buckets(keys, last):
                await self._refresh_positions()
                if found := index.find_buckets(keys, last):
                    return found
            elif index.processed == processed:
                break
            # Again: the person may have got another distinct id since they were read.
        return set()

    async def fetch_positions(self, project_id: ProjectId | None = None) -> InboxPositions:
        """The stream has the positions of all projects only."""
        try:
            await self._stream.catch_up()
        except Unavailable:
            # Nothing can be accepted. What was accepted before is known, unless this process is
            # new.
            _log.warning("readers do not wait for the inbox stream: it cannot be reached")
        await self._refresh_positions()
        index = self._stream.index
        # Read after the positions: processed rows are among the processed ones.
        stored = await super().fetch_positions(project_id)
        if not index.events:
            return stored
        return InboxPositions(
            first_unprocessed=min(stored.first_unprocessed, *index.first_ids().values()),
            last_unprocessed=index.last_id,
            first_unstored=stored.first_unstored,
            last_unstored=stored.last_unstored,
        )

    async def has_unprocessed(self) -> bool:
        """Return whether accepted events wait in the stream, also if that is unknown."""
        try:
            await self._stream.catch_up()
        except Unavailable:
            return True
        await self._refresh_positions()
        return bool(self._stream.index.events)

    async def fetch_state(self) -> str | None:
        return None if await self.has_unprocessed() else await super().fetch_state()

    async def oldest_accepted_at(self) -> datetime | None:
        await self._stream.catch_up()
        await self._refresh_positions()
        # Before the database is read: an event is always in one of both.
        oldest_ms = self._stream.index.oldest_ms
        stored = await super().oldest_accepted_at()
        if oldest_ms is None:
            return stored
        oldest = datetime.fromtimestamp(oldest_ms / 1000, UTC)
        return oldest if stored is None else min(oldest, stored)


def _begin_at(row: InboxRow, position: BucketPosition) -> InboxRow:
    """Return a row, which follows a position, without the events that are processed."""
    done = position.events
    return replace(
        row,
        events=row.events[done:],
        number=row.number - done,
        previous=position.last_id,
        size=done,
    )


def _position_before(row: InboxRow) -> BucketPosition:
    return BucketPosition(row.previous, row.size)
