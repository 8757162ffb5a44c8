"""The schemas of all projects for a worker, and the check of events in a process with limits."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from hedgerow.definitions.model import EventSchema
from hedgerow.definitions.schemas import check_schema, find_violations
from hedgerow.definitions.store import SchemaStore
from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolFull, PoolLimits
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.projects.model import ProjectId

MAX_PART_BYTES = 1 << 20
# The events of one name in a batch are checked in this time, or not at all. The processes are nice:
# on a busy machine they take long for little.
BATCH_TIMEOUT_S = 5.0
WORKER_LIMITS = PoolLimits(
    max_processes=1,
    max_waiting=50,
    max_waiting_per_sender=10,
    timeout_s=BATCH_TIMEOUT_S,
    max_memory_bytes=768 << 20,
)
# A schema that exceeded the limits is not used for this time.
SUSPENSION_S = 300.0
UNCHECKED = "The schema needs too much time or memory. The event was not checked."


class SchemaRegistry:
    """Reloads the schemas of a project when its definitions have changed and it has events, and
    calls `on_change` then."""

    def __init__(
        self, store: SchemaStore, workers: FunctionPool, on_change: Callable[[ProjectId], None]
    ) -> None:
        self._store = store
        self._on_change = on_change
        self._workers = workers
        self._lock = asyncio.Lock()
        self._generations: dict[ProjectId, int] = {}
        # Without an entry for projects that have no schemas.
        self.schemas: dict[ProjectId, Mapping[str, EventSchema]] = {}
        # Until when a schema is not used, by its text.
        self._suspended: dict[str, float] = {}

    async def refresh(self, project_ids: Collection[ProjectId]) -> None:
        async with self._lock:
            now = await self._store.generations_of(project_ids)
            changed = [id for id, number in now.items() if self._generations.get(id) != number]
            if not changed:
                return
            found: dict[ProjectId, dict[str, EventSchema]] = defaultdict(dict)
            for each in await self._store.schemas(changed):
                found[each.project_id][each.event] = each
            for project_id in changed:
                self.schemas.pop(project_id, None)
                if project_id in found:
                    self.schemas[project_id] = found[project_id]
                self._on_change(project_id)
            self._generations |= now

    async def find_violations(
        self, schema: EventSchema, properties: Sequence[Mapping[str, Any]]
    ) -> Sequence[str | None] | None:
        """Return how each event breaks its schema, None for one that does not. Returns None for all
        if the schema exceeds the limits."""
        now = time.monotonic()
        if self._suspended.get(schema.text, 0.0) > now:
            return None
        parts = await run_in_thread(lambda: _encode_parts(properties))
        found: list[str | None] = []
        try:
            for part in parts:
                if time.monotonic() - now > BATCH_TIMEOUT_S:
                    self._suspend(schema)
                    return None
                work = partial(find_violations, schema.text, part)
                found += await self._workers.run(work, str(schema.project_id))
            return found
        except PoolFull:
            return None
        except WorkerDied:
            self._suspend(schema)
            return None

    def _suspend(self, schema: EventSchema) -> None:
        now = time.monotonic()
        self._suspended = {text: at for text, at in self._suspended.items() if at > now}
        self._suspended[schema.text] = now + SUSPENSION_S


async def check_in_worker(workers: FunctionPool, schema: Any, sender: str) -> None:
    """Check a schema that a client sent, in a process with limits. Raises Invalid."""
    if schema is None:
        return
    try:
        await workers.run(partial(check_schema, schema), sender)
    except PoolFull:
        raise Unavailable("Too many schemas are being checked.") from None
    except WorkerDied:
        detail = "The schema needs too much time or memory. Use fewer or shorter patterns."
        raise Invalid(detail, attr="schema", code="max_length") from None


def _encode_parts(properties: Sequence[Mapping[str, Any]]) -> list[list[bytes]]:
    """Encode events in parts that a sound schema checks well within the limits."""
    parts: list[list[bytes]] = []
    size = MAX_PART_BYTES
    for each in properties:
        encoded = _encode(each)
        if size + len(encoded) > MAX_PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(encoded)
        size += len(encoded)
    return parts


def _encode(properties: Mapping[str, Any]) -> bytes:
    try:
        return jsonio.encode(properties)
    except UnicodeEncodeError:  # an event that an earlier version accepted
        return jsonio.encode(jsonio.replace_unstorable(dict(properties)))
