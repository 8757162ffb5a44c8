"""An experiment with the real posthog-python: it evaluates, says so and captures; we count."""

from collections import Counter

import pytest

from tests.contract.sdk.driven import SDKS
from tests.contract.sdk.projects import Project
from tests.live import LiveServer

PEOPLE = 240


def test_results_are_what_the_client_did(live: LiveServer, project: Project) -> None:
    bought = {"kind": "EventsNode", "event": "bought"}
    revenue = bought | {"math": "sum", "math_property": "price"}
    made = project.makes(
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
    at = f"/api/projects/{project.id}/experiments/{made['id']}/"
    assert project.admin.post(f"{at}launch/").status_code == 200
    people = [f"customer-{n}" for n in range(PEOPLE)]
    with SDKS[0].driven() as client:
        client.open(host=live.address, token=project.token, secret=None)
        for who in people[::5]:  # before they see anything
            client.capture(id=who, event="bought", properties={"price": 1000})
        client.flush()  # what is sent together keeps its order; what is not is told apart by this
        variants = {who: client.flag(key="prices", id=who) for who in people}
        client.flush()
        prices = {
            who: {"control": 10, "low": 7, "high": 13}[variants[who]] + n % 4
            for n, who in enumerate(people[::3])
        }
        for who, price in prices.items():
            client.capture(id=who, event="bought", properties={"price": price})
        client.flush()
    exposed = Counter(variants.values())
    buyers = Counter(variants[who] for who in prices)
    earned: Counter[str] = Counter()
    for who, price in prices.items():
        earned[variants[who]] += price
    results = project.admin.get(f"{at}results/").json()
    assert results["exposures"]["total_exposures"] == exposed
    assert results["exposures"]["sample_ratio_mismatch"]["is_mismatch"] is False
    funnel, mean = ([m["baseline"], *m["variant_results"]] for m in results["metrics"])
    assert [each["key"] for each in funnel] == ["control", "low", "high"]
    assert {each["key"]: each["number_of_samples"] for each in funnel} == exposed
    assert {each["key"]: each["sum"] for each in funnel} == buyers
    assert {each["key"]: each["sum"] for each in mean} == earned
    assert sum(each["chance_to_be_best"] for each in mean) == pytest.approx(1)
