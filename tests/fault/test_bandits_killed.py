"""Two processes are killed while bandits move the splits of their flags: each split is moved once,
with its entries, or not at all."""

from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from hedgerow.lib.encryption import generate_encryption_key
from tests.contract.flags.test_bandits import PAID, act, expose, make_bandit, read_history
from tests.support.live import LiveServer, wait_for

API = "/api/projects/1"
BANDITS = 8
MOVED = {"control": 5, "blue": 95}
EVEN = {"control": 50, "blue": 50}
# Of each bandit: its split and that of its flag, and how often its history, its entries of the
# activity log and those of its flag say that it has moved.
STATES = """
    SELECT bandits.split, flags.filters, flags.version,
        (SELECT count(*) FROM bandit_allocations
         WHERE bandit_id = bandits.id AND kind = 'reallocated') AS allocations,
        (SELECT count(*) FROM activity WHERE activity.scope = 'Bandit'
         AND item_id = bandits.id::text AND activity.activity = 'reallocated') AS entries,
        (SELECT count(*) FROM activity WHERE activity.scope = 'FeatureFlag'
         AND item_id = flags.id::text AND activity.activity = 'updated') AS flag_entries
    FROM bandits JOIN flags ON flags.id = bandits.flag_id
"""


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> dict[str, str]:
    return {
        "database_url": request.getfixturevalue("postgres").create_migrated_database(),
        "clickhouse_url": request.getfixturevalue("clickhouse").create_database(),
        "encryption_keys": generate_encryption_key(),
    }


def read_states(settings: dict[str, str]) -> list[dict[str, Any]]:
    with psycopg.connect(settings["database_url"], row_factory=dict_row) as postgres:
        return postgres.execute(STATES).fetchall()


def count_moved(settings: dict[str, str]) -> int:
    return sum(each["allocations"] for each in read_states(settings))


def end_claims(settings: dict[str, str]) -> None:
    """End the claims of killed processes, as 90 seconds would."""
    with psycopg.connect(settings["database_url"]) as postgres:
        postgres.execute(
            "UPDATE bandits SET claimed_until = '2020-01-01' WHERE claimed_until IS NOT NULL"
        )


def check_whole(settings: dict[str, str]) -> None:
    """A split was moved everywhere and once, or nowhere."""
    for state in read_states(settings):
        variants = state["filters"]["multivariate"]["variants"]
        split = {each["key"]: each["rollout_percentage"] for each in variants}
        moves = state["allocations"]
        expected = MOVED if moves else EVEN
        assert (split, dict(state["split"])) == (expected, expected)
        assert moves == state["entries"] == state["flag_entries"] == state["version"] - 1
        assert moves <= 1


def test_splits_are_moved_once(tmp_path: Path, settings: dict[str, str]) -> None:
    one = LiveServer(tmp_path / "one", **settings).wait_ready()
    two = LiveServer(tmp_path / "two", **settings).wait_ready()
    with one, two, two.client() as client:
        bandits = [act(client, make_bandit(client, PAID), "start") for _ in range(BANDITS)]
        expose(client, bandits)
        wait_for(lambda: count_paid(client) == 90, at_most_s=120)
        for bandit in bandits:
            act(client, bandit, "pause")
        for bandit in bandits:
            # A resumed bandit is computed at once.
            act(client, bandit, "resume")
        wait_for(lambda: count_moved(settings) >= 2, at_most_s=120)
        one.kill()
        check_whole(settings)
        wait_for(lambda: count_moved(settings) >= BANDITS // 2, at_most_s=120)
        two.kill()
    check_whole(settings)
    end_claims(settings)
    with LiveServer(tmp_path / "two", **settings) as last, last.client() as client:
        wait_for(lambda: count_moved(settings) == BANDITS, at_most_s=120)
        check_whole(settings)
        for bandit in bandits:
            kinds = Counter(each["kind"] for each in read_history(client, bandit))
            assert (kinds["started"], kinds["resumed"], kinds["reallocated"]) == (1, 1, 1)
            path = f"{API}/feature_flags/{bandit['flag']}/activity/"
            update = client.get(path).json()["results"][0]
            assert update["detail"]["trigger"]["job_id"] == str(bandit["id"])
            assert "best with a probability" in update["detail"]["reason"]


def count_paid(client: httpx.Client) -> int:
    body = {
        "query": {"kind": "HogQLQuery", "query": "SELECT count() FROM events WHERE event = 'paid'"}
    }
    answer = client.post(f"{API}/query/", json=body)
    return int(answer.json()["results"][0][0]) if answer.status_code == 200 else 0
