"""An experiment with posthog-python: evaluation, exposure, captured events, results."""

from collections import Counter

import pytest

from tests.contract.sdk.projects import Project
from tests.contract.sdk.sdk_process import SDKS
from tests.support.live import LiveServer

PEOPLE = 240


def test_experiment_results_match_client_events(live: LiveServer, project: Project) -> None:
    bought = {"kind": "EventsNode", "event": "bought"}
    revenue = bought | {"math": "sum", "math_property": "price"}
    created = project.create(
        "experiments",
        name="Prices",
        feature_flag_key="prices",
        parameters={
            "feature_flag_variants": [
                {"key": "control", "rollout_percentage": 40},
                {"key": "low", "rollout_percentage": 30},
                {"key": "high", "rollout_percentage": 30},
            ]
        },
        metrics=[
            {"kind": "ExperimentMetric", "metric_type": "funnel", "series": [bought]},
            {"kind": "ExperimentMetric", "metric_type": "mean", "source": revenue},
        ],
    )
    at = f"/api/projects/{project.id}/experiments/{created['id']}/"
    assert project.admin.post(f"{at}launch/").status_code == 200
    people = [f"customer-{n}" for n in range(PEOPLE)]
    with SDKS[0].start() as client:
        client.open(host=live.address, token=project.token, secret=None)
        for user in people[::5]:  # before their exposure
            client.capture(id=user, event="bought", properties={"price": 1000})
        client.flush()  # events of one batch keep their order; flushing separates batches
        variants = {user: client.flag(key="prices", id=user) for user in people}
        client.flush()
        prices = {
            user: {"control": 10, "low": 7, "high": 13}[variants[user]] + n % 4
            for n, user in enumerate(people[::3])
        }
        for user, price in prices.items():
            client.capture(id=user, event="bought", properties={"price": price})
        client.flush()
    exposed = Counter(variants.values())
    buyers = Counter(variants[user] for user in prices)
    earned: Counter[str] = Counter()
    for user, price in prices.items():
        earned[variants[user]] += price
    results = project.admin.get(f"{at}results/").json()
    assert results["exposures"]["total_exposures"] == exposed
    assert results["exposures"]["sample_ratio_mismatch"]["is_mismatch"] is False
    funnel, mean = ([m["baseline"], *m["variant_results"]] for m in results["metrics"])
    assert [each["key"] for each in funnel] == ["control", "low", "high"]
    assert {each["key"]: each["number_of_samples"] for each in funnel} == exposed
    assert {each["key"]: each["sum"] for each in funnel} == buyers
    assert {each["key"]: each["sum"] for each in mean} == earned
    assert sum(each["chance_to_be_best"] for each in mean) == pytest.approx(1)
