"""The checks of the event store for `hedgerow doctor`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from hedgerow.app.commands.doctor import CheckResult
from hedgerow.app.event_store import LazyEventStore, event_store_location
from hedgerow.app.event_store_requests import StoreAction, request_from_service
from hedgerow.app.topology import require_stream
from hedgerow.errors import AppError, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.optional_packages import MissingPackage, import_package
from hedgerow.settings import Settings
from hedgerow.storage.connect import has_event_store
from hedgerow.storage.events import replica_schema, schema
from hedgerow.storage.events.folder_lock import FolderInUseError
from hedgerow.storage.migrations.schema_check import summarize_missing
from hedgerow.storage.waiting_work import ExpectedEvents

MAX_LISTED_PARTS = 5
# A message of the inbox stream is removed within seconds after its events are processed.
MAX_MESSAGE_AGE_S = 60
REPLICA_FINDINGS = ("damaged_replicas", "set_aside_replicas")
SERVER_CHECK_MODULE = "hedgerow.storage.events.server_check"
NATS_MODULE = "hedgerow.storage.ingestion.nats_connection"
NO_TABLES = {f"table {name}" for name in (schema.TABLE, *replica_schema.TABLES)}


def check_events(
    settings: Settings, expected: ExpectedEvents, *, server: bool = False
) -> Iterator[CheckResult]:
    """With `server`, also check the ClickHouse server, which creates a table for this time."""
    if settings.inbox_url:
        yield _check_inbox_stream(settings)
    yield from _check_event_store(settings, expected)
    if server:
        yield from _check_server(settings)


def _check_server(settings: Settings) -> Iterator[CheckResult]:
    if not settings.clickhouse_url:
        detail = "the events are not on a ClickHouse server: HEDGEROW_CLICKHOUSE_URL is not set"
        yield CheckResult("problem", "ClickHouse", detail)
        return
    try:
        check = import_package(SERVER_CHECK_MODULE).check_server
        findings = check(settings.clickhouse_url, settings.database_timeout_s)
    except (AppError, OperatorError, MissingPackage) as error:
        findings = [("problem", "ClickHouse", str(error))]
    for verdict, name, detail in findings:
        yield CheckResult(verdict, name, detail)


def _check_inbox_stream(settings: Settings) -> CheckResult:
    """Check that the stream of the inbox can be used, and that its events are processed."""
    check = "inbox stream"
    try:
        require_stream(settings)
        found = asyncio.run(import_module(NATS_MODULE).inspect_stream(settings.inbox_url))
    except (OSError, OperatorError) as error:
        return CheckResult("problem", check, str(error))
    version, state = found
    if state is None:
        return CheckResult("ok", check, f"NATS {version}, the stream does not exist yet")
    detail = f"NATS {version}, {state.size >> 20} of {state.max_size >> 20} MB used"
    if not state.messages:
        return CheckResult("ok", check, f"{detail}, no event waits")
    age_s = (utc_now() - state.first_at).total_seconds()
    if age_s < MAX_MESSAGE_AGE_S:
        return CheckResult("ok", check, detail)
    detail += f". The oldest events wait for {int(age_s)} s: is `hedgerow worker` running?"
    return CheckResult("problem", check, detail)


def _check_event_store(settings: Settings, expected: ExpectedEvents) -> Iterator[CheckResult]:
    """Check tables and files, in the running service if it has the store open. Without tables or
    files, a store that must have events is a lost one."""
    location = event_store_location(settings)
    if not has_event_store(location):
        if expected.must_exist:
            yield _describe_lost_store(f"{location.folder} has no event store")
        else:
            yield CheckResult("ok", "event store", "no event is stored")
        return
    try:
        findings = asyncio.run(_find_problems(settings))
    except (AppError, OperatorError) as error:
        yield CheckResult("problem", "event store", str(error))
        return
    unmoved, problem = findings.pop("unmoved", 0), findings.pop("move_problem", "")
    replicas = {name: findings.pop(name, ()) for name in REPLICA_FINDINGS}
    quarantined = findings.pop("quarantined", ())
    problems = [*_describe_findings(**findings), *_describe_replicas(**replicas)]
    if expected.must_exist and set(findings["missing"]) == NO_TABLES:
        problems = [_describe_lost_store("the event store has no tables")]
    yield from problems
    yield from _describe_quarantined(quarantined, expected)
    if unmoved:
        yield _describe_move(unmoved, problem)
    if not problems:
        what = "all tables exist" if settings.clickhouse_url else "all files are intact"
        yield CheckResult("ok", "event store", what)


async def _find_problems(settings: Settings) -> dict[str, Any]:
    place = event_store_location(settings)
    events = LazyEventStore(place)
    try:
        store = await events.open()
        return asdict(await store.check())
    except FolderInUseError:
        return dict(await request_from_service(place.folder, StoreAction.CHECK, {}))
    finally:
        await events.close()


def _describe_lost_store(reason: str) -> CheckResult:
    detail = f"events were captured, but {reason}. Restore it from a backup."
    return CheckResult("problem", "event store", detail)


def _describe_move(unmoved: int, problem: str) -> CheckResult:
    detail = f"{unmoved:,} event(s) are not in typed columns yet: queries on properties take long. "
    if problem:
        detail += f"The service cannot move them and tries again: {problem}"
    else:
        detail += "The service moves them while it runs."
    return CheckResult("warning", "event store", detail)


def _describe_findings(
    missing: Sequence[str], damaged: Sequence[str], set_aside: Sequence[str]
) -> Iterator[CheckResult]:
    if set(missing) == NO_TABLES:
        detail = "it has no tables yet: Hedgerow creates them with the first event"
        yield CheckResult("warning", "event store", detail)
    elif missing:
        detail = (
            f"it lacks {summarize_missing(missing)}. Restore a backup, or see `hedgerow migrate`."
        )
        yield CheckResult("problem", "event store", detail)
    for folder in damaged[:MAX_LISTED_PARTS]:
        detail = (
            f"damaged: {folder}. Restore a backup; or stop the service and move this folder away, "
            "which gives up its events."
        )
        yield CheckResult("problem", "event store", detail)
    for folder in set_aside[:MAX_LISTED_PARTS]:
        detail = (
            f"damaged, so the engine has put it aside and its events are missing: {folder}. "
            "Restore a backup; or delete this folder to give them up."
        )
        yield CheckResult("problem", "event store", detail)
    more = len(damaged[MAX_LISTED_PARTS:]) + len(set_aside[MAX_LISTED_PARTS:])
    if more:
        yield CheckResult("problem", "event store", f"{more} more folders are damaged")


def _describe_quarantined(
    parts: Sequence[Mapping[str, Any]], expected: ExpectedEvents
) -> Iterator[CheckResult]:
    """Parts that were not complete after they were written."""
    for part in parts[:MAX_LISTED_PARTS]:
        rows = "an unknown number of" if part["rows"] is None else f"{part['rows']:,}"
        at = datetime.fromtimestamp(part["quarantined_at"], UTC)
        oldest_ms = expected.oldest_waiting_ms
        if not part["is_inserted"]:
            fate = "The parts that it was made from are in use: no row is missing."
        elif part["table"] != schema.TABLE:
            fate = "Its rows are copies of persons or groups, and were copied again."
        elif oldest_ms is not None and oldest_ms <= part["quarantined_at"] * 1000:
            fate = "Its rows are still in the inbox, and are stored when the disk can be written."
        else:
            fate = "Its rows have been stored again."
        detail = (
            f"quarantined at {at:%Y-%m-%d %H:%M:%S} UTC, with {rows} row(s) of {part['table']}, "
            f"since the engine could not write it ({part['reason']}): {part['folder']}. {fate} "
            "Look after the disk; you may delete this folder."
        )
        yield CheckResult("warning", "event store", detail)
    if more := len(parts[MAX_LISTED_PARTS:]):
        yield CheckResult("warning", "event store", f"{more} more part(s) are quarantined")


def _describe_replicas(
    damaged_replicas: Sequence[str], set_aside_replicas: Sequence[str]
) -> Iterator[CheckResult]:
    """Replicas of persons, groups and cohort members are built again once their part is aside."""
    for folder in damaged_replicas[:MAX_LISTED_PARTS]:
        path = Path(folder.partition(" (")[0])
        detail = (
            f"damaged: {folder}. It has copies of persons or groups for queries. Stop the service, "
            f"move this folder to {path.parent / 'detached' / f'broken_{path.name}'}, and start: "
            "the service makes the copies again."
        )
        yield CheckResult("problem", "event store", detail)
    for folder in set_aside_replicas[:MAX_LISTED_PARTS]:
        detail = (
            f"damaged, so the engine has put it aside: {folder}. It has copies of persons or "
            "groups for queries. Start the service again, which makes the copies again."
        )
        yield CheckResult("problem", "event store", detail)
