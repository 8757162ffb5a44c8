"""Experiment results of a live service, compared with manual counts."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.contract.experiments.world import (
    BASE,
    BOUGHT,
    COUNT,
    DAY,
    FUNNEL,
    REVENUE,
    ExperimentFixture,
    query_endpoint,
)
from tests.support.live import LiveServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("results")) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


def sums_by_variant(metric: dict[str, Any]) -> dict[str, tuple[int, float]]:
    """Return the number of people and the sum for each variant."""
    assert metric["error"] is None
    every = [metric["baseline"], *metric["variant_results"]]
    return {each["key"]: (each["number_of_samples"], each["sum"]) for each in every}


def test_only_events_after_the_first_exposure_count(client: httpx.Client) -> None:
    experiment = ExperimentFixture(
        client, "after", metrics=[FUNNEL, COUNT], metrics_secondary=[REVENUE]
    )
    experiment.send(
        experiment.exposure("ann", "control", 5),
        experiment.exposure("ann", "control", 1),
        experiment.event("ann", "bought", 2, price=10),
        experiment.event("ann", "bought", 3, price="2.5"),
        experiment.exposure("bob", "test", 30),
        experiment.event("bob", "bought", 29, price=100),  # before
        experiment.exposure("cid", "test", 1),
        experiment.event("cid", "bought", 1, price=7),  # at the same moment
        experiment.event("cid", "bought", 2, price="much"),
        experiment.event("cid", "bought", 24 * 7 + 1, price=50),  # after the end
        experiment.exposure("dan", "test", -1),  # before the start
        experiment.event("dan", "bought", 2, price=9),
        experiment.exposure("eve", "control", 24 * 7),  # at the end
        experiment.exposure("fay", False, 2),  # held out or outside the rollout
        experiment.event("gil", "bought", 2, price=1000),  # never exposed
    )
    results = experiment.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 2}
    first, second = results["exposures"]["timeseries"]
    assert (first["days"], first["exposure_counts"]) == (["2026-05-04", "2026-05-05"], [1, 1])
    assert (second["variant"], second["exposure_counts"]) == ("test", [1, 2])
    conversion, count = results["metrics"]
    assert sums_by_variant(conversion) == {"control": (1, 1), "test": (2, 1)}
    assert sums_by_variant(count) == {"control": (1, 2), "test": (2, 2)}
    assert sums_by_variant(results["metrics_secondary"][0]) == {
        "control": (1, 12.5),
        "test": (2, 7),
    }
    assert results["status"] == "stopped"


def test_days_are_in_the_project_time_zone(client: httpx.Client) -> None:
    body = {"name": "Tokyo", "timezone": "Asia/Tokyo"}
    project = client.post("/api/projects/", json=body).json()
    experiment = ExperimentFixture(
        client, "far", base=f"/api/projects/{project['id']}/experiments/"
    )
    events = [experiment.exposure("ann", "test", 2.5), experiment.exposure("bob", "test", 3.5)]
    experiment.send(*events, token=project["api_token"])
    test = experiment.results()["exposures"]["timeseries"][1]
    assert (test["days"], test["exposure_counts"]) == (["2026-05-04", "2026-05-05"], [1, 2])


@pytest.mark.parametrize(
    ("key", "criteria", "exposed", "bought"),
    [
        (
            "mixed",
            {},
            {"$multiple": 1, "control": 1, "test": 1},
            {"control": (1, 0), "test": (1, 1)},
        ),
        (
            "kept",
            {"multiple_variant_handling": "first_seen"},
            {"control": 1, "test": 2},
            {"control": (1, 0), "test": (2, 2)},
        ),
    ],
)
def test_persons_with_several_variants_are_excluded_or_count_for_the_first(
    client: httpx.Client,
    key: str,
    criteria: dict[str, Any],
    exposed: dict[str, int],
    bought: dict[str, tuple[int, float]],
) -> None:
    experiment = ExperimentFixture(client, key, metrics=[FUNNEL], exposure_criteria=criteria)
    experiment.send(
        experiment.exposure("ann", "control"),
        experiment.exposure("bob", "test"),
        experiment.exposure("cid", "control", 3),
        experiment.exposure("cid", "test", 1),
        experiment.event("bob", "bought", 5),
        experiment.event("cid", "bought", 2),
    )
    results = experiment.results()
    assert results["exposures"]["total_exposures"] == exposed
    assert sums_by_variant(results["metrics"][0]) == bought


def test_merged_persons_count_once(client: httpx.Client) -> None:
    experiment = ExperimentFixture(client, "merged", metrics=[FUNNEL])
    experiment.send(
        experiment.exposure("phone", "test", 1),
        experiment.exposure("laptop", "test", 2),
        experiment.event("laptop", "bought", 3),
        experiment.exposure("ann", "control", 1),
    )
    assert experiment.exposed == {"control": 1, "test": 2}
    merge = {"$anon_distinct_id": "merged-phone"}
    experiment.send(experiment.event("laptop", "$identify", 4, **merge))
    results = experiment.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 1}
    assert sums_by_variant(results["metrics"][0]) == {"control": (1, 0), "test": (1, 1)}


def test_other_projects_and_flags_do_not_count(client: httpx.Client) -> None:
    experiment = ExperimentFixture(client, "isolated", metrics=[FUNNEL])
    other = client.post("/api/projects/", json={"name": "Other"}).json()
    experiment.send(experiment.exposure("ann", "control"), experiment.event("ann", "bought"))
    experiment.send(
        experiment.exposure("bob", "test"),
        experiment.event("ann", "bought"),
        token=other["api_token"],
    )
    other_flag: dict[str, Any] = {"$feature_flag": "x", "$feature_flag_response": "test"}
    experiment.send(experiment.event("cid", "$feature_flag_called", **other_flag))
    results = experiment.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 0}
    assert sums_by_variant(results["metrics"][0]) == {"control": (1, 1), "test": (0, 0)}
    (test,) = results["metrics"][0]["variant_results"]
    assert test["validation_failures"] == ["no-exposures"]


def test_funnel_steps_count_in_order_and_within_the_window(client: httpx.Client) -> None:
    shop = {"key": "page", "value": "shop", "operator": "exact", "type": "event"}
    steps = [{"event": "viewed", "properties": [shop]}, BOUGHT]
    window = {"conversion_window": 2, "conversion_window_unit": "hour"}
    experiment = ExperimentFixture(
        client,
        "steps",
        metrics=[FUNNEL | {"series": steps}, FUNNEL | {"series": steps} | window, FUNNEL | window],
    )
    for person, first, second, page in (
        ("quick", 1.5, 2, "shop"),
        ("slow", 1.5, 9, "shop"),
        ("reversed", 2, 1.5, "shop"),
        ("elsewhere", 1.5, 2, "home"),
        ("edge", 1.5, 3, "shop"),
    ):
        experiment.send(
            experiment.exposure(person, "control"),
            experiment.event(person, "viewed", first, page=page),
            experiment.event(person, "bought", second),
        )
    whole, quick, alone = experiment.results()["metrics"]
    assert sums_by_variant(whole)["control"] == (5, 3)
    assert sums_by_variant(quick)["control"] == (5, 2)
    assert sums_by_variant(alone)["control"] == (5, 4)


def test_an_event_counts_for_one_funnel_step(client: httpx.Client) -> None:
    viewed = {"event": "viewed"}
    experiment = ExperimentFixture(
        client,
        "twice",
        metrics=[FUNNEL | {"series": [viewed, viewed]}, FUNNEL | {"series": [viewed, BOUGHT]}],
    )
    experiment.send(
        *(experiment.exposure(person, "test") for person in ("once", "twice", "both")),
        experiment.event("once", "viewed", 2),
        experiment.event("twice", "viewed", 2),
        experiment.event("twice", "viewed", 3),
        experiment.event("both", "bought", 2),
        experiment.event("both", "viewed", 2),  # at the same moment
    )
    again, next = experiment.results()["metrics"]
    assert sums_by_variant(again)["test"] == (3, 1)
    assert sums_by_variant(next)["test"] == (3, 1)


def test_actions_count_as_events_do(client: httpx.Client) -> None:
    dear = [{"key": "price", "value": 5, "operator": "gt"}]
    steps = [{"event": "bought", "properties": dear}, {"event": "subscribed"}]
    made = client.post("/api/projects/1/actions/", json={"name": "pays", "steps": steps})
    pays = {"kind": "ActionsNode", "id": made.json()["id"], "name": "pays"}
    revenue = COUNT | {"source": pays | {"math": "sum", "math_property": "price"}}
    metrics = [FUNNEL | {"series": [BOUGHT, pays]}, revenue]
    experiment = ExperimentFixture(client, "acted", metrics=metrics)
    experiment.send(
        experiment.exposure("ann", "test"),
        experiment.event("ann", "bought", 2, price=3),
        experiment.event("ann", "bought", 3, price=8),
        experiment.exposure("bob", "test"),
        experiment.event("bob", "subscribed", 2),
        experiment.event("bob", "bought", 3, price=1),
    )
    found = experiment.results()["metrics"]
    assert [sums_by_variant(each)["test"] for each in found] == [(2, 1), (2, 8)]
    unknown = [COUNT | {"source": pays | {"id": 987654}}]
    refused = client.patch(experiment.url, json={"metrics": unknown})
    assert (refused.status_code, refused.json()["attr"]) == (400, "metrics__0__source__id")


def test_a_ratio_divides_two_sums(client: httpx.Client) -> None:
    visited = {"kind": "EventsNode", "event": "visited"}
    ratio = {"kind": "ExperimentMetric", "metric_type": "ratio", "denominator": visited}
    experiment = ExperimentFixture(
        client,
        "divided",
        metrics=[ratio | {"numerator": REVENUE["source"]}, ratio | {"numerator": visited}],
    )
    done = {"ann": ([10, 5], 3), "bob": ([], 2), "cid": ([4], 0), "dan": ([], 0)}
    for person, (prices, visits) in done.items():
        experiment.send(
            experiment.exposure(person, "control"),
            experiment.event(person, "visited", 0.5),  # before
            *(
                experiment.event(person, "bought", 2 + n, price=price)
                for n, price in enumerate(prices)
            ),
            *(experiment.event(person, "visited", 2 + n) for n in range(visits)),
        )
    money, itself = experiment.results()["metrics"]
    control = money["baseline"]
    assert sums_by_variant(money) == {"control": (4, 19), "test": (0, 0)}
    assert control["value"] == pytest.approx(19 / 5)
    assert control["sum_squares"] == pytest.approx(15 * 15 + 4 * 4)
    assert control["denominator_sum"] == 5
    assert control["denominator_sum_squares"] == pytest.approx(9 + 4)
    assert control["numerator_denominator_sum_product"] == pytest.approx(15 * 3)
    assert itself["baseline"]["value"] == 1
    assert itself["baseline"]["validation_failures"] == ["too-few-conversions"]
    response = query_endpoint(
        client, experiment, "ExperimentQuery", metric=ratio | {"numerator": visited}
    ).json()
    assert response["baseline"]["numerator_denominator_sum_product"] == pytest.approx(13)


def test_large_values_with_small_variance_are_compared(client: httpx.Client) -> None:
    experiment = ExperimentFixture(client, "large", metrics=[REVENUE])
    for n in range(30):
        variant = "control" if n % 2 else "test"
        experiment.send(
            experiment.exposure(f"p{n}", variant),
            experiment.event(f"p{n}", "bought", price=1.7e9 + n),
        )
    (metric,) = experiment.results()["metrics"]
    low, high = metric["baseline"]["value_interval"]
    # 1, 3, ... 29: a mean of 15 with a standard deviation of 8.94; t = 2.145 for 14 degrees.
    assert (low - 1.7e9, high - 1.7e9) == pytest.approx((10.05, 19.95), abs=0.01)


def test_a_metric_of_another_version_does_not_affect_others(
    server: LiveServer, client: httpx.Client
) -> None:
    experiment, other = (
        ExperimentFixture(client, "newer", metrics=[FUNNEL, FUNNEL]),
        ExperimentFixture(client, "odd"),
    )
    experiment.send(experiment.exposure("ann", "test"), experiment.event("ann", "bought"))
    running = {"end_date": None}
    for each in (experiment, other):
        assert client.patch(each.url, json=running).status_code == 200
    metrics = json.dumps([{"metric_type": "retention", "name": "Kept"}, FUNNEL])
    with closing(sqlite3.connect(server.data / "hedgerow.db", timeout=30)) as base, base:
        statement = "UPDATE experiments SET metrics = ?, type = 'space' WHERE name = 'newer'"
        base.execute(statement, (metrics,))
        base.execute("UPDATE flags SET filters = '[]', version = version + 1 WHERE key = 'odd'")
    unknown, funnel = experiment.results()["metrics"]
    assert (unknown["name"], unknown["error"]["attr"]) == ("Kept", "metrics__0__metric_type")
    assert sums_by_variant(funnel)["test"] == (1, 1)
    assert other.exposed == {"control": 0, "test": 0}
    listed = client.get(BASE, params={"limit": 100}).json()["results"]
    assert {each["name"]: each["type"] for each in listed}["newer"] == "product"
    assert client.patch(experiment.url, json={"description": "Repaired"}).status_code == 200
    assert client.post(f"{experiment.url}end/").status_code == 200
    assert client.delete(experiment.url).status_code == 204
    assert client.post(f"{other.url}reset/").status_code == 200
    assert other.exposed == {}
    holdout = {"holdout": {"id": 1, "exclusion_percentage": 5}}
    assert client.patch(other.url, json=holdout).status_code < 500
    assert client.post(f"{other.url}launch/").status_code == 400
    again = client.post(BASE, json={"name": "Again", "feature_flag_key": "odd"})
    assert again.status_code == 400


def test_invalid_stored_settings_fall_back_with_a_warning(
    server: LiveServer, client: httpx.Client
) -> None:
    experiment = ExperimentFixture(client, "unreadable", metrics=[FUNNEL])
    experiment.send(
        experiment.exposure("ann", "test"),
        experiment.event("ann", "bought"),
        experiment.exposure("bob", "control"),
    )
    assert experiment.results()["warnings"] == []
    for criteria, place in (
        ({"multiple_variant_handling": "both"}, "multiple_variant_handling"),
        ({"exposure_config": {"properties": [{"type": "moon"}]}}, "exposure_config__properties__0"),
    ):
        with closing(sqlite3.connect(server.data / "hedgerow.db", timeout=30)) as base, base:
            statement = (
                "UPDATE experiments SET exposure_criteria = ?, stats_config = ? WHERE name = ?"
            )
            base.execute(statement, (json.dumps(criteria), '{"method": "tarot"}', experiment.key))
        results = experiment.results()
        stats, exposure = results["warnings"]
        assert (stats["attr"], results["level"]) == ("stats_config__method", 0.95)
        assert "send a valid stats_config" in stats["detail"]
        assert exposure["attr"].startswith(f"exposure_criteria__{place}")
        assert "send valid exposure_criteria" in exposure["detail"]
        assert sums_by_variant(results["metrics"][0]) == {"control": (1, 0), "test": (1, 1)}
    repaired = client.patch(experiment.url, json={"exposure_criteria": {}, "stats_config": {}})
    assert repaired.status_code == 200
    assert experiment.results()["warnings"] == []


def test_exposure_can_be_a_custom_event_with_filters(client: httpx.Client) -> None:
    created = client.post("/api/projects/1/cohorts/", json={"name": "Soon gone"})
    cohort = created.json()["id"]
    config = {
        "kind": "ExperimentEventExposureConfig",
        "event": "opened",
        "properties": [{"key": "page", "value": "shop", "operator": "exact", "type": "event"}],
    }
    expensive = BOUGHT | {
        "properties": [{"key": "price", "value": 5, "operator": "gt", "type": "event"}]
    }
    members = BOUGHT | {"properties": [{"key": "id", "type": "cohort", "value": cohort}]}
    experiment = ExperimentFixture(
        client,
        "opened",
        exposure_criteria={"exposure_config": config},
        metrics=[COUNT | {"source": expensive}, COUNT | {"source": members}],
    )
    shop = {"page": "shop", "$feature/opened": "test"}
    experiment.send(
        experiment.event("ann", "opened", 1, **shop),
        experiment.event("ann", "bought", 2, price=6),
        experiment.event("ann", "bought", 2, price=4),
        experiment.event("bob", "opened", 1, **(shop | {"page": "home"})),
        experiment.exposure("cid", "control"),
    )
    assert client.patch(f"/api/projects/1/cohorts/{cohort}/", json={"deleted": True}).is_success
    results = experiment.results()
    assert results["exposures"]["total_exposures"] == {"control": 0, "test": 1}
    right, broken = results["metrics"]
    assert sums_by_variant(right) == {"control": (0, 0), "test": (1, 1)}
    assert broken["error"]["attr"] == "metrics__1__source__properties__0__value"
    assert (broken["baseline"], broken["variant_results"]) == (None, [])


def test_experiments_can_compare_groups(client: httpx.Client) -> None:
    created = client.post(
        "/api/projects/1/groups/", json={"group_type": "company", "group_key": "a"}
    )
    assert created.status_code == 201
    experiment = ExperimentFixture(
        client, "grouped", metrics=[COUNT], parameters={"aggregation_group_type_index": 0}
    )
    acme: dict[str, Any] = {"$groups": {"company": "acme"}}
    bolt: dict[str, Any] = {"$groups": {"company": "bolt"}}
    experiment.send(
        experiment.exposure("ann", "control", **acme),
        experiment.exposure("bob", "control", **acme),
        experiment.exposure("cid", "test", **bolt),
        experiment.exposure("dan", "test"),
        experiment.event("eve", "bought", **acme),
        experiment.event("ann", "bought", **acme),
    )
    results = experiment.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 1}
    assert sums_by_variant(results["metrics"][0]) == {"control": (1, 2), "test": (1, 0)}
    filters = client.get(experiment.url).json()["feature_flag"]["filters"]
    flag = f"/api/projects/1/feature_flags/{experiment.key}/"
    person_filters = filters | {"aggregation_group_type_index": None}
    assert client.patch(flag, json={"filters": person_filters}).status_code == 200
    assert experiment.results()["metrics"] == results["metrics"]


def test_a_sample_ratio_mismatch_is_reported(client: httpx.Client) -> None:
    experiment = ExperimentFixture(client, "lopsided", metrics=[FUNNEL])
    assert experiment.results()["exposures"]["sample_ratio_mismatch"] is None
    experiment.send(*(experiment.exposure(f"c{n}", "control") for n in range(70)))
    experiment.send(*(experiment.exposure(f"t{n}", "test") for n in range(30)))
    ratio = experiment.results()["exposures"]["sample_ratio_mismatch"]
    assert ratio["expected"] == {"control": 50, "test": 50}
    assert ratio["p_value"] == pytest.approx(0.0000633, rel=0.01)
    assert ratio["is_mismatch"] is True
    assert "Do not trust" in ratio["warning"]


def test_results_stay_after_the_flag_rolls_out_one_variant(client: httpx.Client) -> None:
    experiment = ExperimentFixture(client, "shipped", metrics=[FUNNEL])
    experiment.send(*(experiment.exposure(f"c{n}", "control") for n in range(10)))
    experiment.send(*(experiment.exposure(f"t{n}", "test") for n in range(10)))
    before = experiment.results()
    parameters = client.get(experiment.url).json()["parameters"]
    variants = [
        {"key": "control", "rollout_percentage": 0},
        {"key": "test", "rollout_percentage": 100},
    ]
    filters = {"groups": [{}], "multivariate": {"variants": variants}}
    flag = f"/api/projects/1/feature_flags/{experiment.key}/"
    renamed = {"filters": filters, "key": "renamed"}
    assert client.patch(flag, json=renamed).status_code == 200
    assert experiment.results()["exposures"] == before["exposures"]
    sent_back = client.patch(experiment.url, json={"parameters": parameters})
    assert sent_back.status_code == 200
    assert sent_back.json()["parameters"] == parameters


def test_results_are_deterministic(client: httpx.Client) -> None:
    level = {"bayesian": {"ci_level": 0.8}}
    experiment = ExperimentFixture(client, "again", metrics=[FUNNEL, REVENUE], stats_config=level)
    for n in range(12):
        variant = "control" if n % 2 else "test"
        experiment.send(
            experiment.exposure(f"p{n}", variant), experiment.event(f"p{n}", "bought", price=n % 5)
        )
    once, again = experiment.results(), experiment.results()
    assert once["level"] == 0.8
    assert once["metrics"] == again["metrics"]
    refreshed = client.get(f"{experiment.url}results/?refresh=true").json()
    assert not refreshed["is_cached"]
    assert refreshed["metrics"] == once["metrics"]
    invalid = client.get(f"{experiment.url}results/?refresh=lazily")
    assert (invalid.status_code, invalid.json()["attr"]) == (400, "refresh")
    (test,) = once["metrics"][1]["variant_results"]
    low, high = test["credible_interval"]
    assert low < test["lift"] < high


def test_query_endpoint_matches_the_results(client: httpx.Client) -> None:
    experiment = ExperimentFixture(client, "queried", metrics=[FUNNEL, REVENUE])
    default_stats: dict[str, Any] = {"stats_config": {}}
    frequentist = {"stats_config": {"method": "frequentist", "frequentist": {"alpha": 0.1}}}
    for n in range(40):
        variant = "control" if n % 2 else "test"
        experiment.send(
            experiment.exposure(f"p{n}", variant, 1 + n),
            experiment.event(f"p{n}", "bought", 50, price=n),
        )
    results = experiment.results()
    response = query_endpoint(client, experiment, "ExperimentQuery", metric=REVENUE).json()
    assert (response["kind"], response["metric"]) == ("ExperimentQuery", REVENUE)
    results_now = results["metrics"][1]
    for mine, theirs in zip(
        [response["baseline"], *response["variant_results"]],
        [results_now["baseline"], *results_now["variant_results"]],
        strict=True,
    ):
        for name in ("key", "number_of_samples", "sum", "sum_squares"):
            assert mine[name] == theirs[name]
    assert response["baseline"]["sum_squares"] == sum(n * n for n in range(1, 40, 2))
    assert "method" not in response["baseline"]
    (test,) = response["variant_results"]
    (result,) = results_now["variant_results"]
    assert test["method"] == "bayesian"
    for name in ("chance_to_win", "credible_interval", "significant"):
        assert test[name] == result[name]
    assert client.patch(experiment.url, json=frequentist).status_code == 200
    (test,) = query_endpoint(client, experiment, "ExperimentQuery", metric=REVENUE).json()[
        "variant_results"
    ]
    results_now = experiment.results()
    assert (results_now["method"], results_now["level"], test["method"]) == (
        "frequentist",
        0.9,
        "frequentist",
    )
    (result,) = results_now["metrics"][1]["variant_results"]
    # 0, 2, ... 38 against 1, 3, ... 39: a difference of 1 with a standard error of 3.74.
    assert result["p_value"] == pytest.approx(0.791, abs=0.001)
    for name in ("p_value", "confidence_interval", "significant"):
        assert test[name] == result[name]
    assert client.patch(experiment.url, json=default_stats).status_code == 200
    exposures = query_endpoint(
        client, experiment, "ExperimentExposureQuery", experiment_name="q"
    ).json()
    for name in ("total_exposures", "timeseries"):
        assert exposures[name] == results["exposures"][name]
    assert exposures["date_range"]["date_from"] == "2026-05-04T12:00:00.000000Z"
    later = (DAY + timedelta(hours=21)).isoformat()
    late = query_endpoint(client, experiment, "ExperimentExposureQuery", start_date=later).json()
    assert late["total_exposures"] == {"control": 10, "test": 10}
    unknown_filter = {"event": "seen", "properties": [{"key": "a", "type": "moon", "value": 1}]}
    criteria = {"exposure_config": unknown_filter}
    rejected = query_endpoint(
        client, experiment, "ExperimentExposureQuery", exposure_criteria=criteria
    )
    assert rejected.status_code == 400, rejected.text
    assert rejected.json()["attr"].startswith("query__exposure_criteria")


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"metric": FUNNEL, "experiment_id": None}, "query__experiment_id"),
        ({"metric": FUNNEL, "experiment_id": 987654}, "query__experiment_id"),
        ({"metric": FUNNEL, "experiment_id": 10**30}, "query__experiment_id"),
        ({"metric": FUNNEL, "experiment_id": "1"}, "query__experiment_id"),
        ({}, "query__metric"),
        ({"metric": []}, "query__metric"),
        ({"metric": FUNNEL | {"metric_type": "moon"}}, "query__metric__metric_type"),
        ({"metric": FUNNEL | {"series": [{"event": 5}]}}, "query__metric__series__0__event"),
        (
            {"kind": "ExperimentExposureQuery", "exposure_criteria": {"exposure_config": 5}},
            "query__exposure_criteria__exposure_config",
        ),
        ({"kind": "ExperimentExposureQuery", "start_date": "soon"}, "query__start_date"),
        ({"kind": "ExperimentFunnelsQuery"}, "query__kind"),
    ],
)
def test_invalid_queries_name_their_field(
    client: httpx.Client, fields: dict[str, Any], attr: str
) -> None:
    query = {"kind": "ExperimentQuery", "experiment_id": 1, **fields}
    response = client.post("/api/projects/1/query/", json={"query": query})
    assert (response.status_code, response.json()["attr"]) == (400, attr), response.text
