"""Questions about properties: typed columns, against the text, and against SQL by hand.

    python -m benchmarks.event_columns [EVENTS]

A world of EVENTS is generated (a million by default). Each question is asked as HogQL that reads
typed columns, as HogQL that reads the text, and as SQL typed by hand over a table with a typed
column for each property. The time is that of the engine's process on the processor, the least of
some rounds, so that other work on the machine matters little. Then events are appended as workers
do, and inserted into a table without typed columns.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from clickhouse_connect.driver.client import Client

from benchmarks.event_world import generate
from hedgerow.events.model import Event
from hedgerow.hogql.parser.parse import parse_select
from hedgerow.hogql.printer.context import PrintContext
from hedgerow.hogql.printer.statement import RowLimits, print_select
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.schema import COLUMNS, GRANULE_ROWS
from hedgerow.storage.events.typed_columns import list_column_names

ROUNDS = 4
TEXT_ROUNDS = 2
TIMEOUT_S = 600.0
BLOCK = 5_000
BLOCKS = 8

_TYPED_BY_HAND = """
    SELECT project_id, timestamp, uuid, event, distinct_id, person_id,
           properties_common.`$browser` AS browser, properties_common.`$current_url` AS url,
           substring(properties_other.plan.:String, 2) AS plan,
           substring(properties_other.rare.:String, 2) AS rare,
           properties_other.price.:Float64 AS price
    FROM events
"""
# With the order and the granules of the events.
CREATE_BY_HAND = f"""
    CREATE TABLE by_hand ENGINE = MergeTree PARTITION BY toYYYYMM(timestamp)
    ORDER BY (project_id, timestamp, uuid) SETTINGS index_granularity = {GRANULE_ROWS}
    EMPTY AS {_TYPED_BY_HAND}
"""
# One part at a time, so that both tables have the same parts. One of more than a million events
# becomes several: more at once would exceed the memory of a query.
FILL_BY_HAND = f"""
    INSERT INTO by_hand {_TYPED_BY_HAND} WHERE _part = {{part:String}}
    SETTINGS max_threads = 1, max_insert_threads = 1
"""
_LIST_PARTS = """
    SELECT name FROM system.parts
    WHERE active AND database = currentDatabase() AND table = 'events' ORDER BY name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`hogql` and `sql` have the same answer. {where} limits the time to some last days."""

    name: str
    days: int
    hogql: str
    sql: str


# Of three steps. Filters are on one of them, on each, or for all, as those of a whole insight.
_FUNNEL_HOGQL = """
    select level, count() as n from (
        select distinct_id as who, windowFunnel(86400)(
            timestamp, event = '$pageview' {}, event = 'signed up' {}, event = 'paid' {}
        ) as level
        from events where {{where}} {} group by who
    ) as f group by level
"""
_FUNNEL_SQL = """
    SELECT level, count() AS n FROM (
        SELECT distinct_id AS who, windowFunnel(86400)(
            toDateTime(timestamp), event = '$pageview' {}, event = 'signed up' {}, event = 'paid' {}
        ) AS level
        FROM by_hand WHERE {{where}} {} GROUP BY who
    ) GROUP BY level
"""

QUESTIONS = (
    Question(
        name="rare value",
        days=90,
        hogql="select uuid from events where {where} and properties.rare = 'yes'"
        " order by timestamp desc limit 100",
        sql="SELECT uuid FROM by_hand WHERE {where} AND rare = 'yes'"
        " ORDER BY timestamp DESC LIMIT 100",
    ),
    Question(
        name="common value",
        days=90,
        hogql="select count() from events where {where} and properties.$browser = 'Chrome'",
        sql="SELECT count() FROM by_hand WHERE {where} AND browser = 'Chrome'",
    ),
    Question(
        name="common value, own key",
        days=90,
        hogql="select count() from events where {where} and properties.plan = 'pro'",
        sql="SELECT count() FROM by_hand WHERE {where} AND plan = 'pro'",
    ),
    Question(
        name="number comparison",
        days=90,
        hogql="select count() from events where {where} and properties.price > 50",
        sql="SELECT count() FROM by_hand WHERE {where} AND price > 50",
    ),
    Question(
        name="absent key",
        days=90,
        hogql="select count() from events where {where} and isNull(properties.rare)",
        sql="SELECT count() FROM by_hand WHERE {where} AND isNull(rare)",
    ),
    Question(
        name="group by",
        days=30,
        hogql="select properties.$browser as b, count() as n from events where {where} group by b",
        sql="SELECT browser AS b, count() AS n FROM by_hand WHERE {where} GROUP BY b",
    ),
    Question(
        name="group by, own key",
        days=30,
        hogql="select properties.plan as b, count() as n from events where {where} group by b",
        sql="SELECT plan AS b, count() AS n FROM by_hand WHERE {where} GROUP BY b",
    ),
    Question(
        name="top values",
        days=30,
        hogql="select properties.$current_url as u, count() as n from events where {where}"
        " group by u order by n desc limit 10",
        sql="SELECT url AS u, count() AS n FROM by_hand WHERE {where}"
        " GROUP BY u ORDER BY n DESC LIMIT 10",
    ),
    Question(
        name="trend",
        days=30,
        hogql="select toStartOfDay(timestamp) as d, properties.$browser as b, count() as n"
        " from events where {where} and event = '$pageview' and properties.price > 20"
        " group by d, b",
        sql="SELECT toStartOfDay(timestamp) AS d, browser AS b, count() AS n FROM by_hand"
        " WHERE {where} AND event = '$pageview' AND price > 20 GROUP BY d, b",
    ),
    Question(
        name="funnel, a filter",
        days=30,
        hogql=_FUNNEL_HOGQL.format("", "and properties.price > 20", "", ""),
        sql=_FUNNEL_SQL.format("", "AND price > 20", "", ""),
    ),
    Question(
        name="funnel, filter for all",
        days=30,
        hogql=_FUNNEL_HOGQL.format("", "", "", "and properties.price > 20"),
        sql=_FUNNEL_SQL.format("", "", "", "AND price > 20"),
    ),
    Question(
        name="funnel, three filters",
        days=30,
        hogql=_FUNNEL_HOGQL.format(
            "and properties.$browser = 'Chrome'",
            "and properties.plan = 'pro'",
            "and properties.price > 20",
            "",
        ),
        sql=_FUNNEL_SQL.format("AND browser = 'Chrome'", "AND plan = 'pro'", "AND price > 20", ""),
    ),
)


class EngineProcess:
    """The process of the embedded engine whose files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        for each in Path("/proc").glob("[0-9]*"):
            try:
                command = (each / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if b"chdb_server" in command and str(folder).encode() in command:
                self._place = each
                # The clock of another process on Linux: CPUCLOCK_SCHED of its id.
                self._clock = (~int(each.name) << 3) | 2
                return
        raise RuntimeError("The engine does not run.")

    def read_processor_s(self) -> float:
        return time.clock_gettime(self._clock)

    def read_memory_mb(self, name: str) -> float:
        status = (self._place / "status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) / 1024

    async def time(self, work: Callable[[], Awaitable[object]]) -> float:
        """Return the seconds of the engine on the processor."""
        before = self.read_processor_s()
        await work()
        return self.read_processor_s() - before


def print_question(question: Question, moment: datetime, *, is_typed: bool) -> tuple[str, Any]:
    start = moment - timedelta(days=question.days)
    where = f"timestamp >= '{start.isoformat()}' and timestamp < '{moment.isoformat()}'"
    context = PrintContext(project_id=1, now=moment, reads_typed_columns=is_typed)
    text = question.hogql.replace("{where}", where)
    printed = print_select(parse_select(text), context, RowLimits())
    return printed.sql, printed.parameters


def write_by_hand(question: Question, moment: datetime) -> tuple[str, Any]:
    start = moment - timedelta(days=question.days)
    bounds = [f"toDateTime64('{each:%F %T.%f}', 6, 'UTC')" for each in (start, moment)]
    where = f"project_id = 1 AND timestamp >= {bounds[0]} AND timestamp < {bounds[1]}"
    return question.sql.replace("{where}", where), {}


async def ask(store: ClickHouseEventStore, engine: EngineProcess, question: Question) -> str:
    """Return the milliseconds by hand, with typed columns and with text, and their ratios."""
    found = [float("inf")] * 3
    for number in range(ROUNDS):
        # A new moment each time: the engine remembers what it found for the same question.
        moment = datetime.now(UTC) + timedelta(minutes=number + 1)
        forms = [
            write_by_hand(question, moment),
            print_question(question, moment, is_typed=True),
            print_question(question, moment, is_typed=False),
        ]
        for place, (sql, values) in enumerate(forms if number < TEXT_ROUNDS else forms[:2]):
            query = partial(store.query, sql, values, max_rows=10_000, timeout_s=TIMEOUT_S)
            took_s = await engine.time(query)
            found[place] = min(found[place], took_s * 1000)
    by_hand, typed, text = found
    return (
        f"{by_hand:>9.0f} {typed:>9.0f} {text:>9.0f} {typed / by_hand:>8.1f} {text / typed:>8.1f}"
        f" {text / by_hand:>8.1f}"
    )


async def settle(store: ClickHouseEventStore) -> None:
    """Wait until the engine merges nothing."""
    quiet = 0
    while quiet < 3:
        rows = await store.query("SELECT 1 FROM system.merges", {}, max_rows=1_000, timeout_s=60)
        quiet = 0 if rows else quiet + 1
        await asyncio.sleep(0.5)


async def print_sizes(store: ClickHouseEventStore, rows: int) -> None:
    sql = """
        SELECT table, sum(bytes_on_disk) AS bytes, count() AS parts FROM system.parts
        WHERE active AND database = currentDatabase() AND table IN ('events', 'by_hand')
        GROUP BY table ORDER BY table DESC
    """
    for row in await store.query(sql, {}, max_rows=10, timeout_s=60):
        print(
            f"  {row['table']}: {row['bytes'] / 1e6:,.0f} MB, {row['bytes'] / rows:.0f} bytes for"
            f" each event, {row['parts']} parts"
        )
    names = ", ".join(f"'{name}'" for name in list_column_names())
    sql = f"""
        SELECT sum(column_bytes_on_disk) AS bytes FROM system.parts_columns
        WHERE active AND database = currentDatabase() AND table = 'events' AND column IN ({names})
    """
    (row,) = await store.query(sql, {}, max_rows=1, timeout_s=60)
    print(f"  typed columns: {row['bytes'] / rows:.0f} bytes for each event")


async def read_events(store: ClickHouseEventStore) -> list[dict[str, Any]]:
    sql = f"SELECT {', '.join(COLUMNS)} FROM events LIMIT {BLOCK * BLOCKS}"
    return await store.query(sql, {}, max_rows=BLOCK * BLOCKS, timeout_s=TIMEOUT_S)


async def measure_inserts(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Append copies of events to a new store as a worker does, and to a table without typed
    columns."""
    store = open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
    await store.prepare()
    engine = EngineProcess(folder)
    dropped = ", ".join(f"DROP COLUMN {name}" for name in list_column_names())
    for statement in ("CREATE TABLE plain AS events", f"ALTER TABLE plain {dropped}"):
        await store.run(partial(_command, statement))
    for table in ("events", "plain"):
        await store.run(partial(_command, f"SYSTEM STOP MERGES {table}"))
    await store.load_uuid_filter()
    typed, plain = [], []
    encoder = msgspec.json.Encoder()
    for start in range(0, len(rows), BLOCK):
        block = [_copy_event(row) for row in rows[start : start + BLOCK]]
        lines = encoder.encode_lines(block)
        insert = partial(_insert_lines, lines)
        own = time.process_time()
        typed.append(await engine.time(partial(store.append, block)) + time.process_time() - own)
        plain.append(await engine.time(partial(store.run, insert)))
    print(
        f"  append in blocks of {BLOCK:,}: {statistics.median(typed) / BLOCK * 1e6:.0f} us per"
        f" event; raw insert without typed columns:"
        f" {statistics.median(plain) / BLOCK * 1e6:.0f} us"
    )
    await store.close()


def _copy_event(row: dict[str, Any]) -> Event:
    values = row | {"uuid": str(uuid4()), "person_id": str(row["person_id"])}
    return Event(**values)


def _command(statement: str, client: Client) -> None:
    client.command(statement)


def _fill_by_hand(client: Client) -> None:
    """Copy the events. From here on, neither table is merged."""
    client.command("SYSTEM STOP MERGES events")
    client.command(CREATE_BY_HAND)
    client.command("SYSTEM STOP MERGES by_hand")
    for (part,) in client.query(_LIST_PARTS).result_rows:
        client.command(FILL_BY_HAND, parameters={"part": part})


def _insert_lines(lines: bytes, client: Client) -> None:
    client.raw_insert("plain", COLUMNS, lines, fmt="JSONCompactEachRow")


async def compare_columns(data: Path, rows: int) -> None:
    """Print the comparison for the generated events in a folder."""
    store = open_event_store(EventStoreLocation(url="", folder=data / "events", timeout_s=5))
    await store.prepare()
    engine = EngineProcess(data / "events")
    await store.run(partial(_command, "DROP TABLE IF EXISTS by_hand SYNC"))
    await settle(store)
    await store.run(_fill_by_hand)
    print(f"{rows:,} events, processor ms (least of {ROUNDS})")
    await print_sizes(store, rows)
    print(
        f"  {'':<22} {'by hand':>9} {'typed':>9} {'text':>9} {'t / h':>8} {'x / t':>8} {'x / h':>8}"
        "   (h by hand, t typed: at most 2 h, x text: at least 5 t)"
    )
    for question in QUESTIONS:
        print(f"  {question.name:<22} {await ask(store, engine, question)}", flush=True)
    print(f"  memory of the engine: {engine.read_memory_mb('VmHWM'):.0f} MB at most")
    await store.run(partial(_command, "DROP TABLE by_hand SYNC"))
    rows_to_copy = await read_events(store)
    await store.close()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        await measure_inserts(Path(folder).resolve(), rows_to_copy)


async def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=".") as folder:
        data = Path(folder).resolve()
        await generate(data, rows)
        await compare_columns(data, rows)


if __name__ == "__main__":
    asyncio.run(main())
