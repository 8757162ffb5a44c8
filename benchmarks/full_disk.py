"""Another program fills the disk again and again while events are captured: what is lost?

    python -m benchmarks.full_disk [--seconds 40] [--episodes 20] [--size 500m] [--seed 0]

The data directory is on a file system in memory, which takes the right to mount. Each episode
fills it for up to a second at a random time. Then the service is killed and started again, and
what it has stored is compared with what it has acknowledged: `lost` and `doubled` must be 0.
`quarantined` are parts that the event engine did not write completely. `queries` counts the answers
of a query that runs all the time, by status.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import httpx
from tests.fault.small_disk import fill_up, mount_disk
from tests.support.live import PROJECT_KEY, LiveServer
from tests.support.stored_events import read_stored_events, wait_until_stored

BATCH = 100
SENDERS = 4
PAUSE_S = 0.05
QUERY = {"query": {"kind": "HogQLQuery", "query": "SELECT count(), max(properties) FROM events"}}


class Load:
    def __init__(self, server: LiveServer, deadline: float) -> None:
        self._server = server
        self._deadline = deadline
        self.acknowledged: list[str] = []
        self.captures, self.queries = Counter[int](), Counter[int]()

    def capture(self) -> None:
        with self._server.client() as client:
            while time.monotonic() < self._deadline:
                uuids = [str(uuid4()) for _ in range(BATCH)]
                batch = [{"event": "e", "distinct_id": uuid[:3], "uuid": uuid} for uuid in uuids]
                body = {"api_key": PROJECT_KEY, "batch": batch}
                status = client.post("/batch", json=body, timeout=60).status_code
                self.captures[status] += 1
                if status == httpx.codes.OK:
                    self.acknowledged += uuids
                time.sleep(PAUSE_S)

    def query(self) -> None:
        with self._server.client() as client:
            while time.monotonic() < self._deadline:
                answer = client.post("/api/projects/1/query/", json=QUERY, timeout=60)
                self.queries[answer.status_code] += 1
                time.sleep(PAUSE_S)


def fill_now_and_then(filler: Path, episodes: int, deadline: float, chance: random.Random) -> None:
    step_s = (deadline - time.monotonic()) / episodes
    for _ in range(episodes):
        full_s = chance.uniform(0.05, min(1.0, step_s / 2))
        time.sleep(chance.uniform(0, step_s / 2))
        fill_up(filler)
        time.sleep(full_s)
        filler.unlink()
        time.sleep(max(0.0, step_s / 2 - full_s))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--size", default="500m")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        mount_disk(Path(folder) / "disk", options.size) as disk,
    ):
        data, deadline = disk / "data", time.monotonic() + options.seconds
        with LiveServer(data) as server:
            load = Load(server, deadline)
            threads = [threading.Thread(target=load.capture) for _ in range(SENDERS)]
            threads.append(threading.Thread(target=load.query))
            for thread in threads:
                thread.start()
            chance = random.Random(options.seed)
            fill_now_and_then(disk / "filler", options.episodes, deadline, chance)
            for thread in threads:
                thread.join()
            server.process.kill()
            server.process.wait(30)
        with LiveServer(data):
            wait_until_stored(data, at_most_s=300)
        rows = read_stored_events(data, "SELECT toString(uuid) AS uuid FROM events")
        stored = Counter(row["uuid"] for row in rows)
        quarantined = list(data.glob("events/chdb/store/*/*/detached/quarantined_*"))
    lost = len(set(load.acknowledged) - stored.keys())
    doubled = sum(number > 1 for number in stored.values())
    print(f"episodes       {options.episodes} in {options.seconds:.0f} s")
    print(f"acknowledged   {len(load.acknowledged):,}")
    print(f"lost           {lost}")
    print(f"doubled        {doubled}")
    print(f"quarantined    {len(quarantined)}")
    print(f"captures       {dict(sorted(load.captures.items()))}")
    print(f"queries        {dict(sorted(load.queries.items()))}")
    sys.exit(bool(lost or doubled))


if __name__ == "__main__":
    main()
