"""Results of a live service, against what was counted by hand."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.live import PROJECT_KEY, LiveServer

BASE = "/api/projects/1/experiments/"
# The events of all tests lie in these days, long ago.
DAY = datetime(2026, 5, 4, 12, tzinfo=UTC)
BOUGHT = {"kind": "EventsNode", "event": "bought"}
FUNNEL = {"kind": "ExperimentMetric", "metric_type": "funnel", "series": [BOUGHT]}
COUNT = {"kind": "ExperimentMetric", "metric_type": "mean", "source": BOUGHT}
REVENUE = COUNT | {"source": BOUGHT | {"math": "sum", "math_property": "price"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("results")) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as opened:
        yield opened


class Trial:
    """An experiment of its own, and events of people who are in no other."""

    def __init__(self, client: httpx.Client, key: str, base: str = BASE, **fields: Any) -> None:
        self._client = client
        self.key = key
        dates = {"start_date": DAY.isoformat(), "end_date": (DAY + timedelta(days=7)).isoformat()}
        body = {"name": key, "feature_flag_key": key, **dates, **fields}
        made = client.post(base, json=body)
        assert made.status_code == 201, made.text
        self.at = f"{base}{made.json()['id']}/"

    def saw(self, who: str, variant: object, hours: float = 1, **more: Any) -> dict[str, Any]:
        properties = {"$feature_flag": self.key, "$feature_flag_response": variant}
        return self.did(who, "$feature_flag_called", hours, **properties, **more)

    def did(self, who: str, event: str, hours: float = 2, **properties: Any) -> dict[str, Any]:
        return {
            "event": event,
            "distinct_id": f"{self.key}-{who}",
            "timestamp": (DAY + timedelta(hours=hours)).isoformat(),
            "properties": properties,
        }

    def send(self, *events: dict[str, Any], token: str = PROJECT_KEY) -> None:
        sent = self._client.post("/batch", json={"api_key": token, "batch": list(events)})
        assert sent.json() == {"status": 1}

    def results(self) -> dict[str, Any]:
        answer = self._client.get(f"{self.at}results/")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @property
    def exposed(self) -> dict[str, int]:
        found: dict[str, int] = self.results()["exposures"]["total_exposures"]
        return found


def asked(client: httpx.Client, trial: Trial, kind: str, **fields: Any) -> httpx.Response:
    """Of the query endpoint, as PostHog's pages ask."""
    id = int(trial.at.rstrip("/").rpartition("/")[2])
    query = {"kind": kind, "experiment_id": id, **fields}
    return client.post("/api/environments/1/query/", json={"query": query})


def counted(metric: dict[str, Any]) -> dict[str, tuple[int, float]]:
    """By variant: how many people, and the sum."""
    assert metric["error"] is None
    every = [metric["baseline"], *metric["variant_results"]]
    return {each["key"]: (each["number_of_samples"], each["sum"]) for each in every}


def test_what_people_did_after_they_were_first_exposed(client: httpx.Client) -> None:
    trial = Trial(client, "after", metrics=[FUNNEL, COUNT], metrics_secondary=[REVENUE])
    trial.send(
        trial.saw("ann", "control", 5),
        trial.saw("ann", "control", 1),
        trial.did("ann", "bought", 2, price=10),
        trial.did("ann", "bought", 3, price="2.5"),
        trial.saw("bob", "test", 30),
        trial.did("bob", "bought", 29, price=100),  # before
        trial.saw("cid", "test", 1),
        trial.did("cid", "bought", 1, price=7),  # at the same moment
        trial.did("cid", "bought", 2, price="much"),
        trial.did("cid", "bought", 24 * 7 + 1, price=50),  # after the end
        trial.saw("dan", "test", -1),  # before the start
        trial.did("dan", "bought", 2, price=9),
        trial.saw("eve", "control", 24 * 7),  # at the end
        trial.saw("fay", False, 2),  # held out or not in it
        trial.did("gil", "bought", 2, price=1000),  # never exposed
    )
    results = trial.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 2}
    first, second = results["exposures"]["timeseries"]
    assert (first["days"], first["exposure_counts"]) == (["2026-05-04", "2026-05-05"], [1, 1])
    assert (second["variant"], second["exposure_counts"]) == ("test", [1, 2])
    conversion, count = results["metrics"]
    assert counted(conversion) == {"control": (1, 1), "test": (2, 1)}
    assert counted(count) == {"control": (1, 2), "test": (2, 2)}
    assert counted(results["metrics_secondary"][0]) == {"control": (1, 12.5), "test": (2, 7)}
    assert results["status"] == "stopped"


def test_days_are_those_of_the_projects_zone(client: httpx.Client) -> None:
    body = {"name": "Tokyo", "timezone": "Asia/Tokyo"}
    project = client.post("/api/projects/", json=body).json()
    trial = Trial(client, "far", base=f"/api/projects/{project['id']}/experiments/")
    events = [trial.saw("ann", "test", 2.5), trial.saw("bob", "test", 3.5)]
    trial.send(*events, token=project["api_token"])
    test = trial.results()["exposures"]["timeseries"][1]
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
def test_people_who_saw_several_variants_are_left_out_or_count_for_the_first(
    client: httpx.Client,
    key: str,
    criteria: dict[str, Any],
    exposed: dict[str, int],
    bought: dict[str, tuple[int, float]],
) -> None:
    trial = Trial(client, key, metrics=[FUNNEL], exposure_criteria=criteria)
    trial.send(
        trial.saw("ann", "control"),
        trial.saw("bob", "test"),
        trial.saw("cid", "control", 3),
        trial.saw("cid", "test", 1),
        trial.did("bob", "bought", 5),
        trial.did("cid", "bought", 2),
    )
    results = trial.results()
    assert results["exposures"]["total_exposures"] == exposed
    assert counted(results["metrics"][0]) == bought


def test_who_is_one_person_today_counts_once(client: httpx.Client) -> None:
    trial = Trial(client, "merged", metrics=[FUNNEL])
    trial.send(
        trial.saw("phone", "test", 1),
        trial.saw("laptop", "test", 2),
        trial.did("laptop", "bought", 3),
        trial.saw("ann", "control", 1),
    )
    assert trial.exposed == {"control": 1, "test": 2}
    merge = {"$anon_distinct_id": "merged-phone"}
    trial.send(trial.did("laptop", "$identify", 4, **merge))
    results = trial.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 1}
    assert counted(results["metrics"][0]) == {"control": (1, 0), "test": (1, 1)}


def test_other_projects_and_other_flags_are_not_seen(client: httpx.Client) -> None:
    trial = Trial(client, "apart", metrics=[FUNNEL])
    other = client.post("/api/projects/", json={"name": "Other"}).json()
    trial.send(trial.saw("ann", "control"), trial.did("ann", "bought"))
    trial.send(trial.saw("bob", "test"), trial.did("ann", "bought"), token=other["api_token"])
    elsewhere: dict[str, Any] = {"$feature_flag": "x", "$feature_flag_response": "test"}
    trial.send(trial.did("cid", "$feature_flag_called", **elsewhere))
    results = trial.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 0}
    assert counted(results["metrics"][0]) == {"control": (1, 1), "test": (0, 0)}
    (test,) = results["metrics"][0]["variant_results"]
    assert test["validation_failures"] == ["no-exposures"]


def test_steps_count_in_their_order_and_within_the_window(client: httpx.Client) -> None:
    shop = {"key": "page", "value": "shop", "operator": "exact", "type": "event"}
    steps = [{"event": "viewed", "properties": [shop]}, BOUGHT]
    window = {"conversion_window": 2, "conversion_window_unit": "hour"}
    trial = Trial(
        client,
        "steps",
        metrics=[FUNNEL | {"series": steps}, FUNNEL | {"series": steps} | window, FUNNEL | window],
    )
    for who, first, second, page in (
        ("quick", 1.5, 2, "shop"),
        ("slow", 1.5, 9, "shop"),
        ("reversed", 2, 1.5, "shop"),
        ("elsewhere", 1.5, 2, "home"),
        ("edge", 1.5, 3, "shop"),
    ):
        trial.send(
            trial.saw(who, "control"),
            trial.did(who, "viewed", first, page=page),
            trial.did(who, "bought", second),
        )
    whole, quick, alone = trial.results()["metrics"]
    assert counted(whole)["control"] == (5, 3)
    assert counted(quick)["control"] == (5, 2)
    assert counted(alone)["control"] == (5, 4)


def test_an_event_is_one_step_also_where_it_would_do_for_several(client: httpx.Client) -> None:
    viewed = {"event": "viewed"}
    trial = Trial(
        client,
        "twice",
        metrics=[FUNNEL | {"series": [viewed, viewed]}, FUNNEL | {"series": [viewed, BOUGHT]}],
    )
    trial.send(
        *(trial.saw(who, "test") for who in ("once", "twice", "both")),
        trial.did("once", "viewed", 2),
        trial.did("twice", "viewed", 2),
        trial.did("twice", "viewed", 3),
        trial.did("both", "bought", 2),
        trial.did("both", "viewed", 2),  # at the same moment
    )
    again, next = trial.results()["metrics"]
    assert counted(again)["test"] == (3, 1)
    assert counted(next)["test"] == (3, 1)


def test_a_ratio_divides_what_people_did_by_what_else_they_did(client: httpx.Client) -> None:
    visited = {"kind": "EventsNode", "event": "visited"}
    ratio = {"kind": "ExperimentMetric", "metric_type": "ratio", "denominator": visited}
    trial = Trial(
        client,
        "divided",
        metrics=[ratio | {"numerator": REVENUE["source"]}, ratio | {"numerator": visited}],
    )
    done = {"ann": ([10, 5], 3), "bob": ([], 2), "cid": ([4], 0), "dan": ([], 0)}
    for who, (prices, visits) in done.items():
        trial.send(
            trial.saw(who, "control"),
            trial.did(who, "visited", 0.5),  # before
            *(trial.did(who, "bought", 2 + n, price=price) for n, price in enumerate(prices)),
            *(trial.did(who, "visited", 2 + n) for n in range(visits)),
        )
    money, itself = trial.results()["metrics"]
    control = money["baseline"]
    assert counted(money) == {"control": (4, 19), "test": (0, 0)}
    assert control["value"] == pytest.approx(19 / 5)
    assert control["sum_squares"] == pytest.approx(15 * 15 + 4 * 4)
    assert control["denominator_sum"] == 5
    assert control["denominator_sum_squares"] == pytest.approx(9 + 4)
    assert control["numerator_denominator_sum_product"] == pytest.approx(15 * 3)
    assert itself["baseline"]["value"] == 1
    assert itself["baseline"]["validation_failures"] == ["too-few-conversions"]
    answer = asked(client, trial, "ExperimentQuery", metric=ratio | {"numerator": visited}).json()
    assert answer["baseline"]["numerator_denominator_sum_product"] == pytest.approx(13)


def test_large_values_that_differ_little_are_told_apart(client: httpx.Client) -> None:
    trial = Trial(client, "large", metrics=[REVENUE])
    for n in range(30):
        variant = "control" if n % 2 else "test"
        trial.send(trial.saw(f"p{n}", variant), trial.did(f"p{n}", "bought", price=1.7e9 + n))
    (metric,) = trial.results()["metrics"]
    low, high = metric["baseline"]["value_interval"]
    # 1, 3, ... 29: a mean of 15 with a standard deviation of 8.94, t = 2.145 for 14 of freedom.
    assert (low - 1.7e9, high - 1.7e9) == pytest.approx((10.05, 19.95), abs=0.01)


def test_what_another_version_has_stored_costs_no_more_than_itself(
    server: LiveServer, client: httpx.Client
) -> None:
    trial, other = Trial(client, "newer", metrics=[FUNNEL, FUNNEL]), Trial(client, "odd")
    trial.send(trial.saw("ann", "test"), trial.did("ann", "bought"))
    running = {"end_date": None}
    for each in (trial, other):
        assert client.patch(each.at, json=running).status_code == 200
    metrics = json.dumps([{"metric_type": "retention", "name": "Kept"}, FUNNEL])
    with closing(sqlite3.connect(server.data / "hedgerow.db", timeout=30)) as base, base:
        said = "UPDATE experiments SET metrics = ?, type = 'space' WHERE name = 'newer'"
        base.execute(said, (metrics,))
        base.execute("UPDATE flags SET filters = '[]' WHERE key = 'odd'")
    unknown, funnel = trial.results()["metrics"]
    assert (unknown["name"], unknown["error"]["attr"]) == ("Kept", "metrics[0].metric_type")
    assert counted(funnel)["test"] == (1, 1)
    assert other.exposed == {"control": 0, "test": 0}
    listed = client.get(BASE, params={"limit": 100}).json()["results"]
    assert {each["name"]: each["type"] for each in listed}["newer"] == "product"
    assert client.patch(trial.at, json={"description": "Mended"}).status_code == 200
    assert client.post(f"{trial.at}end/").status_code == 200
    assert client.delete(trial.at).status_code == 204
    assert client.post(f"{other.at}reset/").status_code == 200
    assert other.exposed == {}
    held = {"holdout": {"id": 1, "exclusion_percentage": 5}}
    assert client.patch(other.at, json=held).status_code < 500
    assert client.post(f"{other.at}launch/").status_code == 400
    again = client.post(BASE, json={"name": "Again", "feature_flag_key": "odd"})
    assert again.status_code == 400


def test_settings_that_cannot_be_read_have_defaults_in_their_place_and_are_named(
    server: LiveServer, client: httpx.Client
) -> None:
    trial = Trial(client, "unreadable", metrics=[FUNNEL])
    trial.send(trial.saw("ann", "test"), trial.did("ann", "bought"), trial.saw("bob", "control"))
    assert trial.results()["warnings"] == []
    for criteria, place in (
        ({"multiple_variant_handling": "both"}, "multiple_variant_handling"),
        ({"exposure_config": {"properties": [{"type": "moon"}]}}, "exposure_config.properties[0]"),
    ):
        with closing(sqlite3.connect(server.data / "hedgerow.db", timeout=30)) as base, base:
            said = "UPDATE experiments SET exposure_criteria = ?, stats_config = ? WHERE name = ?"
            base.execute(said, (json.dumps(criteria), '{"method": "tarot"}', trial.key))
        results = trial.results()
        stats, exposure = results["warnings"]
        assert (stats["attr"], results["level"]) == ("stats_config.method", 0.95)
        assert "Send stats_config anew" in stats["detail"]
        assert exposure["attr"].startswith(f"exposure_criteria.{place}")
        assert "Send exposure_criteria anew" in exposure["detail"]
        assert counted(results["metrics"][0]) == {"control": (1, 0), "test": (1, 1)}
    mended = client.patch(trial.at, json={"exposure_criteria": {}, "stats_config": {}})
    assert mended.status_code == 200
    assert trial.results()["warnings"] == []


def test_exposure_can_be_another_event_and_filters_hold(client: httpx.Client) -> None:
    made = client.post("/api/projects/1/cohorts/", json={"name": "Soon gone"})
    cohort = made.json()["id"]
    config = {
        "kind": "ExperimentEventExposureConfig",
        "event": "opened",
        "properties": [{"key": "page", "value": "shop", "operator": "exact", "type": "event"}],
    }
    dear = BOUGHT | {
        "properties": [{"key": "price", "value": 5, "operator": "gt", "type": "event"}]
    }
    members = BOUGHT | {"properties": [{"key": "id", "type": "cohort", "value": cohort}]}
    trial = Trial(
        client,
        "opened",
        exposure_criteria={"exposure_config": config},
        metrics=[COUNT | {"source": dear}, COUNT | {"source": members}],
    )
    shop = {"page": "shop", "$feature/opened": "test"}
    trial.send(
        trial.did("ann", "opened", 1, **shop),
        trial.did("ann", "bought", 2, price=6),
        trial.did("ann", "bought", 2, price=4),
        trial.did("bob", "opened", 1, **(shop | {"page": "home"})),
        trial.saw("cid", "control"),
    )
    assert client.patch(f"/api/projects/1/cohorts/{cohort}/", json={"deleted": True}).is_success
    results = trial.results()
    assert results["exposures"]["total_exposures"] == {"control": 0, "test": 1}
    right, broken = results["metrics"]
    assert counted(right) == {"control": (0, 0), "test": (1, 1)}
    assert broken["error"]["attr"] == "metrics[1].source.properties[0].value"
    assert (broken["baseline"], broken["variant_results"]) == (None, [])


def test_groups_can_be_what_is_compared(client: httpx.Client) -> None:
    made = client.post("/api/projects/1/groups/", json={"group_type": "company", "group_key": "a"})
    assert made.status_code == 201
    trial = Trial(
        client, "grouped", metrics=[COUNT], parameters={"aggregation_group_type_index": 0}
    )
    acme: dict[str, Any] = {"$groups": {"company": "acme"}}
    bolt: dict[str, Any] = {"$groups": {"company": "bolt"}}
    trial.send(
        trial.saw("ann", "control", **acme),
        trial.saw("bob", "control", **acme),
        trial.saw("cid", "test", **bolt),
        trial.saw("dan", "test"),
        trial.did("eve", "bought", **acme),
        trial.did("ann", "bought", **acme),
    )
    results = trial.results()
    assert results["exposures"]["total_exposures"] == {"control": 1, "test": 1}
    assert counted(results["metrics"][0]) == {"control": (1, 2), "test": (1, 0)}
    filters = client.get(trial.at).json()["feature_flag"]["filters"]
    flag = f"/api/projects/1/feature_flags/{trial.key}/"
    of_people = filters | {"aggregation_group_type_index": None}
    assert client.patch(flag, json={"filters": of_people}).status_code == 200
    assert trial.results()["metrics"] == results["metrics"]


def test_a_lopsided_split_is_warned_of(client: httpx.Client) -> None:
    trial = Trial(client, "lopsided", metrics=[FUNNEL])
    assert trial.results()["exposures"]["sample_ratio_mismatch"] is None
    trial.send(*(trial.saw(f"c{n}", "control") for n in range(70)))
    trial.send(*(trial.saw(f"t{n}", "test") for n in range(30)))
    ratio = trial.results()["exposures"]["sample_ratio_mismatch"]
    assert ratio["expected"] == {"control": 50, "test": 50}
    assert ratio["p_value"] == pytest.approx(0.0000633, rel=0.01)
    assert ratio["is_mismatch"] is True
    assert "do not trust" in ratio["warning"]


def test_results_stay_when_the_flag_gives_everybody_the_best_variant(client: httpx.Client) -> None:
    trial = Trial(client, "shipped", metrics=[FUNNEL])
    trial.send(*(trial.saw(f"c{n}", "control") for n in range(10)))
    trial.send(*(trial.saw(f"t{n}", "test") for n in range(10)))
    before = trial.results()
    parameters = client.get(trial.at).json()["parameters"]
    variants = [
        {"key": "control", "rollout_percentage": 0},
        {"key": "test", "rollout_percentage": 100},
    ]
    filters = {"groups": [{}], "multivariate": {"variants": variants}}
    flag = f"/api/projects/1/feature_flags/{trial.key}/"
    renamed = {"filters": filters, "key": "renamed"}
    assert client.patch(flag, json=renamed).status_code == 200
    assert trial.results()["exposures"] == before["exposures"]
    sent_back = client.patch(trial.at, json={"parameters": parameters})
    assert sent_back.status_code == 200
    assert sent_back.json()["parameters"] == parameters


def test_the_same_question_has_the_same_answer(client: httpx.Client) -> None:
    level = {"bayesian": {"ci_level": 0.8}}
    trial = Trial(client, "again", metrics=[FUNNEL, REVENUE], stats_config=level)
    for n in range(12):
        variant = "control" if n % 2 else "test"
        trial.send(trial.saw(f"p{n}", variant), trial.did(f"p{n}", "bought", price=n % 5))
    once, again = trial.results(), trial.results()
    assert once["level"] == 0.8
    assert once["metrics"] == again["metrics"]
    counted_anew = client.get(f"{trial.at}results/?refresh=true").json()
    assert not counted_anew["is_cached"]
    assert counted_anew["metrics"] == once["metrics"]
    odd = client.get(f"{trial.at}results/?refresh=lazily")
    assert (odd.status_code, odd.json()["attr"]) == (400, "refresh")
    (test,) = once["metrics"][1]["variant_results"]
    low, high = test["credible_interval"]
    assert low < test["lift"] < high


def test_queries_of_posthogs_pages_are_counted_as_results_are(client: httpx.Client) -> None:
    trial = Trial(client, "queried", metrics=[FUNNEL, REVENUE])
    plain: dict[str, Any] = {"stats_config": {}}
    tested = {"stats_config": {"method": "frequentist", "frequentist": {"alpha": 0.1}}}
    for n in range(40):
        variant = "control" if n % 2 else "test"
        trial.send(trial.saw(f"p{n}", variant, 1 + n), trial.did(f"p{n}", "bought", 50, price=n))
    results = trial.results()
    answer = asked(client, trial, "ExperimentQuery", metric=REVENUE).json()
    assert (answer["kind"], answer["metric"]) == ("ExperimentQuery", REVENUE)
    told = results["metrics"][1]
    for mine, theirs in zip(
        [answer["baseline"], *answer["variant_results"]],
        [told["baseline"], *told["variant_results"]],
        strict=True,
    ):
        for name in ("key", "number_of_samples", "sum", "sum_squares"):
            assert mine[name] == theirs[name]
    assert answer["baseline"]["sum_squares"] == sum(n * n for n in range(1, 40, 2))
    assert "method" not in answer["baseline"]
    (test,) = answer["variant_results"]
    (known,) = told["variant_results"]
    assert test["method"] == "bayesian"
    for name in ("chance_to_win", "credible_interval", "significant"):
        assert test[name] == known[name]
    assert client.patch(trial.at, json=tested).status_code == 200
    (test,) = asked(client, trial, "ExperimentQuery", metric=REVENUE).json()["variant_results"]
    told = trial.results()
    assert (told["method"], told["level"], test["method"]) == ("frequentist", 0.9, "frequentist")
    (known,) = told["metrics"][1]["variant_results"]
    # 0, 2, ... 38 against 1, 3, ... 39: a difference of 1 with a standard error of 3.74.
    assert known["p_value"] == pytest.approx(0.791, abs=0.001)
    for name in ("p_value", "confidence_interval", "significant"):
        assert test[name] == known[name]
    assert client.patch(trial.at, json=plain).status_code == 200
    exposures = asked(client, trial, "ExperimentExposureQuery", experiment_name="q").json()
    for name in ("total_exposures", "timeseries"):
        assert exposures[name] == results["exposures"][name]
    assert exposures["date_range"]["date_from"] == "2026-05-04T12:00:00.000000Z"
    later = (DAY + timedelta(hours=21)).isoformat()
    late = asked(client, trial, "ExperimentExposureQuery", start_date=later).json()
    assert late["total_exposures"] == {"control": 10, "test": 10}
    moon = {"event": "seen", "properties": [{"key": "a", "type": "moon", "value": 1}]}
    criteria = {"exposure_config": moon}
    bad = asked(client, trial, "ExperimentExposureQuery", exposure_criteria=criteria)
    assert bad.status_code == 400, bad.text
    assert bad.json()["attr"].startswith("query__exposure_criteria")


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"metric": FUNNEL, "experiment_id": None}, "query__experiment_id"),
        ({"metric": FUNNEL, "experiment_id": 987654}, "query__experiment_id"),
        ({"metric": FUNNEL, "experiment_id": 10**30}, "query__experiment_id"),
        ({"metric": FUNNEL, "experiment_id": "1"}, "query__experiment_id"),
        ({}, "query__metric"),
        ({"metric": []}, "query__metric"),
        ({"metric": FUNNEL | {"metric_type": "moon"}}, "query__metric.metric_type"),
        ({"metric": FUNNEL | {"series": [{"event": 5}]}}, "query__metric.series[0].event"),
        (
            {"kind": "ExperimentExposureQuery", "exposure_criteria": {"exposure_config": 5}},
            "query__exposure_criteria.exposure_config",
        ),
        ({"kind": "ExperimentExposureQuery", "start_date": "soon"}, "query__start_date"),
        ({"kind": "ExperimentFunnelsQuery"}, "query__kind"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_by_its_place(
    client: httpx.Client, fields: dict[str, Any], attr: str
) -> None:
    query = {"kind": "ExperimentQuery", "experiment_id": 1, **fields}
    answer = client.post("/api/projects/1/query/", json={"query": query})
    assert (answer.status_code, answer.json()["attr"]) == (400, attr), answer.text
