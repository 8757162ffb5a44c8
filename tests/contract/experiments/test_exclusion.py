"""Experiments that share people: each in its own part of a layer, and a holdout of all."""

from pathlib import Path
from typing import Any

import httpx

from tests.support.live import PROJECT_KEY, LiveServer

API = "/api/projects/1"
PEOPLE = 300


def create(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    made = client.post(f"{API}/{path}/", json=body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


def test_no_person_is_in_two_experiments_of_a_layer(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server, server.client() as client:
        parts = [{"key": key, "rollout_percentage": 50} for key in ("cart", "payment")]
        groups = [{"properties": [], "rollout_percentage": 100}]
        layer = create(
            client,
            "feature_flags",
            key="checkout-layer",
            filters={"groups": groups, "multivariate": {"variants": parts}},
        )
        share = [{"rollout_percentage": 20}]
        holdout = create(client, "experiment_holdouts", name="Never asked", filters=share)
        for part in ("cart", "payment"):
            depends = {
                "type": "flag",
                "key": str(layer["id"]),
                "operator": "flag_evaluates_to",
                "value": part,
            }
            variants = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]
            filters = {
                "groups": [{"properties": [depends], "rollout_percentage": 100}],
                "multivariate": {"variants": variants},
            }
            create(client, "feature_flags", key=part, filters=filters)
            experiment = create(
                client, "experiments", name=part, feature_flag_key=part, holdout_id=holdout["id"]
            )
            launched = client.post(f"{API}/experiments/{experiment['id']}/launch/")
            assert launched.status_code == 200, launched.text
        held, seen = f"holdout-{holdout['id']}", []
        for number in range(PEOPLE):
            body = {"api_key": PROJECT_KEY, "distinct_id": f"person-{number}"}
            flags = client.post("/decide?v=3", json=body).json()["featureFlags"]
            seen.append((flags["cart"], flags["payment"]))
        # The same people are held out of both; all others are in one of them.
        assert all((one == held) == (other == held) for one, other in seen)
        assert 0.1 * PEOPLE < sum(one == held for one, _ in seen) < 0.3 * PEOPLE
        others = [pair for pair in seen if held not in pair]
        assert all((one is False) != (other is False) for one, other in others)
        assert {each for pair in others for each in pair} == {False, "control", "test"}
        assert 0.3 * PEOPLE < sum(one is not False for one, _ in others) < 0.5 * PEOPLE
        # The layer cannot be switched off under its experiments.
        refused = client.patch(f"{API}/feature_flags/{layer['id']}/", json={"active": False})
        assert refused.status_code == 400, refused.text
