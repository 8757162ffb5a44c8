"""Experiments with their own persons, for tests of results."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.support.live import PROJECT_KEY

BASE = "/api/projects/1/experiments/"
# The events of all tests are in these days.
DAY = datetime(2026, 5, 4, 12, tzinfo=UTC)
BOUGHT = {"kind": "EventsNode", "event": "bought"}
FUNNEL = {"kind": "ExperimentMetric", "metric_type": "funnel", "series": [BOUGHT]}
COUNT = {"kind": "ExperimentMetric", "metric_type": "mean", "source": BOUGHT}
REVENUE = COUNT | {"source": BOUGHT | {"math": "sum", "math_property": "price"}}


class ExperimentFixture:
    """An experiment with its own persons."""

    def __init__(self, client: httpx.Client, key: str, base: str = BASE, **fields: Any) -> None:
        self._client = client
        self.key = key
        dates = {"start_date": DAY.isoformat(), "end_date": (DAY + timedelta(days=7)).isoformat()}
        body = {"name": key, "feature_flag_key": key, **dates, **fields}
        created = client.post(base, json=body)
        assert created.status_code == 201, created.text
        self.url = f"{base}{created.json()['id']}/"

    def exposure(
        self, person: str, variant: object, hours: float = 1, **more: Any
    ) -> dict[str, Any]:
        properties = {"$feature_flag": self.key, "$feature_flag_response": variant}
        return self.event(person, "$feature_flag_called", hours, **properties, **more)

    def event(self, person: str, event: str, hours: float = 2, **properties: Any) -> dict[str, Any]:
        return {
            "event": event,
            "distinct_id": f"{self.key}-{person}",
            "timestamp": (DAY + timedelta(hours=hours)).isoformat(),
            "properties": properties,
        }

    def send(self, *events: dict[str, Any], token: str = PROJECT_KEY) -> None:
        sent = self._client.post("/batch", json={"api_key": token, "batch": list(events)})
        assert sent.json() == {"status": 1}

    def results(self) -> dict[str, Any]:
        response = self._client.get(f"{self.url}results/")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    @property
    def exposed(self) -> dict[str, int]:
        found: dict[str, int] = self.results()["exposures"]["total_exposures"]
        return found


def query_endpoint(
    client: httpx.Client, experiment: ExperimentFixture, kind: str, **fields: Any
) -> httpx.Response:
    """Send a query as PostHog's web app does."""
    id = int(experiment.url.rstrip("/").rpartition("/")[2])
    query = {"kind": kind, "experiment_id": id, **fields}
    return client.post("/api/environments/1/query/", json={"query": query})
