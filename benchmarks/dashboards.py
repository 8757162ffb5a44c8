"""How long `/decide` of one project takes while 200 dashboards of others refresh.

    python -m benchmarks.dashboards [--rounds 3] [--seconds 6] [--dashboards 200] [--events 20000]

Ten projects have the dashboards, with three insights each. A separate process sends 50 `/decide`
requests a second for another project, first while nothing refreshes (the reference). Then all
dashboards are refreshed at once with `force_async`: 600 results wait, and are computed during the
round. The table shows p50 and p99 of `/decide` in milliseconds, the CPU time of the main process
during the round, and the results that were computed. At most 5 % should be added.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.isolation.installation import World, open_world, percentile, run_service
from benchmarks.isolation.probe import run_probe

PROJECTS = 10
BATCH = 2_000
QUERIES: Sequence[dict[str, Any]] = (
    {"kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "seen", "math": "dau"}]},
    {
        "kind": "FunnelsQuery",
        "series": [
            {"kind": "EventsNode", "event": "seen"},
            {"kind": "EventsNode", "event": "bought"},
        ],
    },
    {"kind": "HogQLQuery", "query": "SELECT event, count() FROM events GROUP BY event"},
)


@dataclass(frozen=True, slots=True)
class Round:
    latencies: list[float]
    cpu_s: float
    computed: int


def read_cpu_s(pid: int) -> float:
    """Return the CPU time of one process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def create_dashboards(world: World, number: int, events: int) -> list[str]:
    """Return the paths of all dashboards."""
    paths: list[str] = []
    for index in range(PROJECTS):
        project = (await world.client.post("/api/projects/", json={"name": f"P{index}"})).json()
        await capture(world, project["api_token"], events // PROJECTS)
        base = f"/api/projects/{project['id']}"
        for board in range(number // PROJECTS):
            tiles = []
            for query in QUERIES:
                # Another name, so that no two dashboards share a result.
                own = {**query, "tags": {"productKey": f"{board}"}}
                made = await world.client.post(f"{base}/insights/", json={"query": own})
                made.raise_for_status()
                tiles.append({"insight": {"id": made.json()["id"]}})
            made = await world.client.post(f"{base}/dashboards/", json={"tiles": tiles})
            made.raise_for_status()
            paths.append(f"{base}/dashboards/{made.json()['id']}/")
    return paths


async def capture(world: World, key: str, events: int) -> None:
    for start in range(0, events, BATCH):
        batch = [
            {"event": "bought" if n % 7 == 0 else "seen", "distinct_id": f"user-{n % 997}"}
            for n in range(start, min(start + BATCH, events))
        ]
        sent = await world.client.post("/batch/", json={"api_key": key, "batch": batch})
        sent.raise_for_status()


async def refresh(world: World, paths: Sequence[str]) -> None:
    """Refresh all dashboards at once."""
    queued = (world.client.get(path, params={"refresh": "force_async"}) for path in paths)
    await asyncio.gather(*queued)


async def count_computed(world: World, paths: Sequence[str]) -> list[str]:
    times = []
    for path in paths:
        dashboard = (await world.client.get(path)).json()
        times += [tile["last_refresh"] for tile in dashboard["tiles"] if tile["last_refresh"]]
    return times


async def measure(world: World, paths: Sequence[str], seconds: float, *, busy: bool) -> Round:
    working = asyncio.create_task(refresh(world, paths)) if busy else None
    started, cpu_s = time.time(), read_cpu_s(world.pid)
    latencies = await run_probe(world, seconds)
    cpu_s = read_cpu_s(world.pid) - cpu_s
    if working is not None:
        await working
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started))
    computed = sum(each >= since for each in await count_computed(world, paths)) if busy else 0
    return Round(latencies, cpu_s, computed)


def show(name: str, rounds: Sequence[Round]) -> tuple[float, float]:
    p50 = statistics.median(percentile(each.latencies, 0.5) for each in rounds)
    p99 = statistics.median(percentile(each.latencies, 0.99) for each in rounds)
    cpu_s = statistics.median(each.cpu_s for each in rounds)
    computed = sum(each.computed for each in rounds)
    print(f"  {name:<12} {p50:>8.2f} {p99:>8.2f} {cpu_s:>8.2f} {computed:>9}", flush=True)
    return p50, p99


async def run(options: argparse.Namespace) -> None:
    with run_service(0, options) as (port, pid):
        async with open_world(port, pid) as world:
            paths = await create_dashboards(world, options.dashboards, options.events)
            await run_probe(world, 1)
            seconds = options.seconds
            quiet = [
                await measure(world, paths, seconds, busy=False) for _ in range(options.rounds)
            ]
            busy = [await measure(world, paths, seconds, busy=True) for _ in range(options.rounds)]
            print(f"  {'/decide, ms':<12} {'p50':>8} {'p99':>8} {'CPU s':>8} {'computed':>9}")
            before, after = show("quiet", quiet), show("refreshing", busy)
            added = [(b - a) / a * 100 for a, b in zip(before, after, strict=True)]
            print(f"  {'added':<12} {added[0]:>7.1f}% {added[1]:>7.1f}%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--dashboards", type=int, default=200)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--data-url", default="")
    parser.add_argument("--events-url", default="")
    options = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
