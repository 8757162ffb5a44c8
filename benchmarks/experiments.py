"""Results of an experiment over HTTP, against the same counts by SQL typed by hand into the engine.

    python -m benchmarks.experiments [EVENTS ...]

A world of so many events (a million by default) is generated, with a quarter as many exposures of
its people. The service runs in this process, and a client in another thread asks it over a socket
for an experiment with a conversion and a sum. The reference is chDB itself, in the same process:
exposures by day and the two metrics, with a join of who is who, as a person would write them.
Rounds alternate. The ratio is what our answer takes, statistics and HTTP included, by what theirs
takes.
"""

import asyncio
import json
import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import chdb
import structlog
import uvloop
from chdb.state.sqlitelike import Connection

from benchmarks.event_world import DAYS, PEOPLE, SEED, generate
from benchmarks.events import Client, resident_mb, running, timed
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.schema import COLUMNS

ROUNDS = 7
_EXPOSURES = f"""
    INSERT INTO events ({", ".join(COLUMNS)})
    WITH cityHash64(number, {SEED}, 'exposed') AS h, h % {PEOPLE} AS who,
         now64(6) - toIntervalSecond(h % ({DAYS} * 86400)) AS at
    SELECT 1, reinterpretAsUUID(concat(reinterpretAsString(h), reinterpretAsString(cityHash64(h)))),
           '$feature_flag_called', concat('user-', toString(who)),
           concat('{{"$feature_flag":"tried","$feature_flag_response":"',
                  ['control', 'test'][1 + cityHash64(who) % 2], '"}}'),
           '', at, at, toUUID('00000000-0000-0000-0000-000000000000'), at, '{{}}', 'full', false
    FROM numbers({{rows:UInt64}})
"""
_OWNER = """(SELECT distinct_id, person_id FROM person_distinct_ids FINAL WHERE project_id = 1)"""
_EXPOSED = f"""
    SELECT o.person_id AS person, min(e.timestamp) AS since,
           any(JSONExtractString(e.properties, '$feature_flag_response')) AS variant
    FROM events AS e JOIN {_OWNER} AS o ON e.distinct_id = o.distinct_id
    WHERE e.project_id = 1 AND e.event = '$feature_flag_called'
      AND JSONExtractString(e.properties, '$feature_flag') = 'tried' AND e.timestamp < {{until}}
    GROUP BY person
    HAVING uniqExact(JSONExtractString(e.properties, '$feature_flag_response')) = 1
"""
_BY_HAND = [
    f"SELECT variant, toDate(since) AS day, count() FROM ({_EXPOSED}) GROUP BY variant, day",
    *(
        f"""SELECT variant, count(), sum(measured), varPop(measured) FROM (
        SELECT x.person, any(x.variant) AS variant, {measure} AS measured
        FROM (SELECT o.person_id AS person, e.timestamp AS at,
                     JSONExtractFloat(e.properties, 'price') AS price
              FROM events AS e JOIN {_OWNER} AS o ON e.distinct_id = o.distinct_id
              WHERE e.project_id = 1 AND e.event = 'paid' AND e.timestamp < {{until}}) AS d
        RIGHT JOIN ({_EXPOSED}) AS x ON d.person = x.person GROUP BY x.person) GROUP BY variant"""
        for measure in ("max(d.at >= x.since)", "sumIf(d.price, d.at >= x.since)")
    ),
]
_PAID = {"kind": "EventsNode", "event": "paid"}
_METRICS = [
    {"kind": "ExperimentMetric", "metric_type": "funnel", "series": [_PAID]},
    {
        "kind": "ExperimentMetric",
        "metric_type": "mean",
        "source": _PAID | {"math": "sum", "math_property": "price"},
    },
]


async def expose(data: Path, rows: int) -> None:
    events = open_event_store(EventStoreLocation(url="", folder=data / "events", timeout_s=5))
    await events.run(lambda client: client.command(_EXPOSURES, parameters={"rows": rows}))
    await events.close()


def by_hand(raw: Connection) -> None:
    # A new moment each time: the engine remembers what it found for the very same question.
    until = f"toDateTime64('{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}', 6, 'UTC')"
    for sql in _BY_HAND:
        raw.query(sql.replace("{until}", until), "JSONCompact")


def compare(client: Client, raw: Connection) -> None:
    body = {
        "name": "Tried",
        "feature_flag_key": "tried",
        "start_date": (datetime.now(UTC) - timedelta(days=DAYS + 1)).isoformat(),
        "metrics": _METRICS,
    }
    made = json.loads(client.send("/api/projects/1/experiments/", "POST", body).read())
    path = f"/api/projects/1/experiments/{made['id']}/results/"
    first = timed(partial(client.get, path))  # loads SciPy
    by_hand(raw)
    before = resident_mb("VmRSS")
    theirs, ours = [], []
    for _ in range(ROUNDS):
        theirs.append(timed(partial(by_hand, raw)))
        ours.append(timed(partial(client.get, path)))
    sql_ms, http_ms = statistics.median(theirs), statistics.median(ours)
    print(
        f"  raw SQL {sql_ms:.0f} ms, results {http_ms:.0f} ms (the first {first:.0f} ms):"
        f" ratio {http_ms / sql_ms:.2f}; memory {before:.0f} MB before,"
        f" {resident_mb('VmRSS'):.0f} MB after"
    )


async def measure(data: Path, rows: int) -> None:
    await generate(data, rows)
    await expose(data, rows // 4)
    async with running(data) as port:
        client = Client(port)
        await asyncio.to_thread(client.get, "/api/projects/1/events/?limit=1")
        raw = chdb.connect(str((data / "events" / "chdb").resolve()))
        raw.query("USE hedgerow")
        print(f"{rows:,} events and {rows // 4:,} exposures of {PEOPLE:,} people")
        await asyncio.to_thread(compare, client, raw)
        raw.close()


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    for rows in [int(each) for each in sys.argv[1:]] or [1_000_000]:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            uvloop.run(measure(Path(folder).resolve(), rows))


if __name__ == "__main__":
    main()
