"""ClickHouse: inserts one row per event into a table, over the HTTP interface."""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from urllib.parse import urlencode

from hedgerow.plugin import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    TEST_CONNECTION_JOB,
    Component,
    Delivered,
    DeliveryContext,
    Event,
    Failed,
    Family,
    Invalid,
    Outcome,
    Request,
    Response,
    SettingField,
    Settings,
    TransportError,
    batch_settings,
    build_row,
    check_url,
)

REQUEST_TIMEOUT_S = 30.0
REASON_CHARS = 300
UNKNOWN_TABLE = 60
# Error codes of ClickHouse that an event causes: its values do not fit the columns.
EVENT_ERRORS = frozenset({6, 26, 27, 38, 41, 53, 69, 70, 72, 117, 131, 321, 376, 407, 441, 467})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}")
_CODE = re.compile(r"Code: (\d+)")
# A batch that is sent again is stored once. Merges remove other copies of a row.
_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    project_id Int64,
    uuid UUID,
    event LowCardinality(String),
    distinct_id String,
    timestamp DateTime64(6, 'UTC'),
    created_at DateTime64(6, 'UTC'),
    properties String,
    elements_chain String,
    person_id String,
    person_properties String
)
ENGINE = ReplacingMergeTree(created_at)
PARTITION BY toYYYYMM(timestamp)
ORDER BY (project_id, toDate(timestamp), event, distinct_id, uuid)
SETTINGS non_replicated_deduplication_window = 1000
"""


def check(settings: Settings) -> None:
    check_url(settings, "url")
    for key in ("database", "table"):
        if not _NAME.fullmatch(settings[key]):
            detail = "Use letters, digits and _, and begin with a letter or _."
            raise Invalid(detail, attr=f"config__{key}")


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    rows = "\n".join(json.dumps(build_row(event), ensure_ascii=False) for event in events)
    token = sha256(" ".join(event.uuid for event in events).encode()).hexdigest()
    insert = f"INSERT INTO {_table(settings)} FORMAT JSONEachRow"
    options = {
        "insert_deduplication_token": token,
        "date_time_input_format": "best_effort",
        "async_insert": "0",
    }
    try:
        answer = await _send(insert, rows, options, settings, ctx)
        if _read_code(answer) == UNKNOWN_TABLE:
            created = await _send(_CREATE.format(table=_table(settings)), "", {}, settings, ctx)
            if created.status != 200:
                return [_describe(created)] * len(events)
            answer = await _send(insert, rows, options, settings, ctx)
    except TransportError as error:
        return [Failed(reason=str(error))] * len(events)
    return [Delivered() if answer.status == 200 else _describe(answer)] * len(events)


def _table(settings: Settings) -> str:
    return f"`{settings['database']}`.`{settings['table']}`"


async def _send(
    statement: str, rows: str, options: Mapping[str, str], settings: Settings, ctx: DeliveryContext
) -> Response:
    query = urlencode({"query": statement, "wait_end_of_query": "1", **options})
    headers = {"x-clickhouse-user": settings["user"]}
    if settings["password"]:
        headers["x-clickhouse-key"] = settings["password"]
    return await ctx.http.send(
        Request(
            method="POST",
            url=f"{settings['url'].rstrip('/')}/?{query}",
            headers=headers,
            body=rows.encode(),
            timeout_s=REQUEST_TIMEOUT_S,
        )
    )


def _read_code(answer: Response) -> int | None:
    """Return the error code of ClickHouse."""
    if answer.status == 200:
        return None
    code = answer.headers.get("x-clickhouse-exception-code", "")
    found = _CODE.search(answer.body[:1000].decode("utf-8", "replace"))
    return int(code) if code.isdecimal() else int(found[1]) if found else None


def _describe(answer: Response) -> Failed:
    """Wrong settings and a busy server are not the fault of the events, so they wait."""
    text = answer.body[:REASON_CHARS].decode("utf-8", "replace").strip()
    is_rejected = _read_code(answer) in EVENT_ERRORS
    return Failed(
        reason=f"ClickHouse reports (HTTP {answer.status}): {text}",
        is_final=is_rejected,
        event_rejected=is_rejected,
    )


COMPONENT = Component(
    key="hedgerow/clickhouse-table",
    family=Family.DESTINATION,
    name="ClickHouse table",
    description="Inserts events into a ClickHouse table; creates the table if needed.",
    version="1.0.0",
    settings=(
        SettingField(
            key="url",
            name="URL",
            required=True,
            hint="Of the HTTP interface, such as https://clickhouse.example.com:8443",
        ),
        SettingField(key="user", name="User", default="default"),
        SettingField(key="password", name="Password", secret=True),
        SettingField(key="database", name="Database", default="default", is_address=False),
        SettingField(key="table", name="Table", default="hedgerow_events", is_address=False),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=1000, seconds=5),
    ),
    jobs=(REPLAY_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
