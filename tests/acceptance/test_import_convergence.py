"""The plan of an import says exactly what the import does, and the next plan has nothing to do.

The sources are random, with items that the service rejects: the plan must skip each of them.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from hedgerow.cli.importers.plan import ImportPlan, build_plan, execute_plan
from hedgerow.cli.importers.posthog import KINDS
from hedgerow.cli.importers.target import ImportTarget
from hedgerow.importers.flagsmith import convert_flagsmith
from hedgerow.importers.matching import ImportAction
from hedgerow.importers.model import ConversionResult, ResourceKind
from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog
from hedgerow.importers.unleash import convert_unleash
from tests.support.live import PERSONAL_KEY, LiveServer

SEEDS = range(4)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("convergence")) as server:
        yield server


def make_plan(
    server: LiveServer, source: ConversionResult, known: Any
) -> tuple[ImportPlan, ImportTarget]:
    target = ImportTarget(server.address, PERSONAL_KEY, None, KINDS)
    target.load()
    return build_plan(source, target, known, overwrite=False), target


def import_twice(server: LiveServer, source: ConversionResult) -> ImportPlan:
    known: dict[ResourceKind, dict[Any, Any]] = {
        kind: {} for kind in (ResourceKind.COHORT, ResourceKind.SURVEY, ResourceKind.EXPERIMENT)
    }
    plan, target = make_plan(server, source, known)
    _, rejected = execute_plan(plan, target, known)
    assert rejected == []
    for ids in (known, {}):  # with and without the memory of the first run
        again, _ = make_plan(server, source, ids)
        differing = [
            (each.item.kind, each.item.name, each.action, each.differences)
            for each in again.decisions
            if each.action is not ImportAction.SAME
        ]
        assert differing == []
        assert [each.name for each in again.skipped] == [each.name for each in plan.skipped]
        assert again.new_types == []
    return plan


@pytest.mark.parametrize("seed", SEEDS)
def test_posthog(server: LiveServer, seed: int) -> None:
    world = PostHogWorld(Random(seed), f"p{seed}")
    plan = import_twice(server, convert_posthog(world.build()))
    counts = Counter(each.item.kind for each in plan.decisions)
    assert min(counts[kind] for kind in KINDS) >= 1, counts


@pytest.mark.parametrize("seed", SEEDS)
def test_unleash(server: LiveServer, seed: int) -> None:
    source = convert_unleash(make_unleash_export(Random(seed), f"u{seed}"), None)
    assert import_twice(server, source).decisions


@pytest.mark.parametrize("seed", SEEDS)
def test_flagsmith(server: LiveServer, seed: int) -> None:
    random = Random(seed)
    features = [
        {
            "name": f"f{seed} {n}",
            "enabled": random.random() < 0.5,
            "value": random.choice([None, "", "text", 5, True]),
            "multivariate": random.choice([[], [{"value": "b", "percentage_allocation": 40}]]),
        }
        for n in range(8)
    ]
    assert import_twice(server, convert_flagsmith(features)).decisions


def test_child_of_a_disabled_flag_is_disabled(server: LiveServer) -> None:
    names = ("parent", "child", "grandchild", "opposite")
    needs = {"child": "parent", "grandchild": "child", "opposite": "parent"}
    document = {
        "features": [{"name": name} for name in names],
        "featureStrategies": [{"featureName": name, "name": "default"} for name in names],
        "featureEnvironments": [
            {"featureName": name, "environment": "x", "enabled": name != "parent"} for name in names
        ],
        "dependencies": [
            {"feature": name, "dependencies": [{"feature": on, "enabled": name != "opposite"}]}
            for name, on in needs.items()
        ],
    }
    source = convert_unleash(document, None)
    assert {each.name: each.body["active"] for each in source.items} == {
        "parent": False,
        "child": False,
        "grandchild": False,
        "opposite": True,
    }
    assert {each.name for each in source.notes} == {"child", "grandchild", "opposite"}
    plan = import_twice(server, source)
    assert (len(plan.decisions), list(plan.skipped)) == (4, [])


def test_flag_of_the_target_that_is_off_stops_its_dependents(server: LiveServer) -> None:
    """The target's own flag stays as it is, and a flag cannot depend on an inactive one."""
    with server.client() as client:
        body = {"key": "mine", "active": False, "filters": {"groups": [{}]}}
        assert client.post("/api/projects/1/feature_flags/", json=body).status_code == 201
    need = {"key": "1", "type": "flag", "value": True, "operator": "flag_evaluates_to"}
    flags = [
        {"id": 1, "key": "mine", "filters": {"groups": [{"properties": []}]}},
        {"id": 2, "key": "needs-mine", "filters": {"groups": [{"properties": [need]}]}},
        {"id": 3, "key": "survey-targeting-x", "filters": {"groups": [{"properties": []}]}},
    ]
    source = convert_posthog(PostHogDefinitions(flags=flags))
    plan, target = make_plan(server, source, {})
    assert [(each.item.name, each.action) for each in plan.decisions] == [
        ("mine", ImportAction.DIFFERS)
    ]
    assert sorted(each.name for each in plan.skipped) == ["needs-mine", "survey-targeting-x"]
    assert execute_plan(plan, target, {})[1] == []


class PostHogWorld:
    """A random PostHog project. Names begin with a prefix, so that worlds do not meet."""

    def __init__(self, random: Random, prefix: str) -> None:
        self._random = random
        self._prefix = prefix

    def build(self) -> PostHogDefinitions:
        cohorts = [self._make_cohort(id) for id in range(1, 6)]
        flags = [self._make_flag(id) for id in range(1, 13)]
        flags += [self._make_split_flag(id) for id in range(13, 17)]
        return PostHogDefinitions(
            group_types=[{"group_type": "company", "group_type_index": 0}],
            cohorts=cohorts,
            flags=flags,
            features=[self._make_feature(id, flags[id]) for id in range(3)],
            surveys=[self._make_survey(n) for n in range(5)],
            experiments=[self._make_experiment(n, flags[12 + n]) for n in range(4)],
        )

    def _text(self, most: int) -> str | None:
        return self._random.choice([None, "", "about", " blanks ", "x" * (most + 1), "ü"])

    def _property(self) -> dict[str, Any]:
        return self._random.choice(
            [
                {"key": "plan", "type": "person", "value": ["pro"], "operator": "exact"},
                {"key": "age", "type": "person", "value": "7", "operator": "gt", "label": "Age"},
                {"key": "a", "type": "person", "value": "b", "operator": "exact", "odd": 1},
                {"key": "mail", "type": "person", "value": "(?=x)", "operator": "regex"},
                {"key": "seen", "type": "person", "value": "is_set", "operator": "is_set"},
            ]
        )

    def _make_cohort(self, id: int) -> dict[str, Any]:
        leaves: list[Any] = [self._property() for _ in range(self._random.randint(1, 2))]
        if id > 1 and self._random.random() < 0.5:
            leaves.append({"key": "id", "type": "cohort", "value": id - 1, "negation": True})
        return {
            "id": id,
            "name": f"{self._prefix} cohort {id}",
            "description": self._text(1000) if id > 1 else " blanks ",
            "is_static": self._random.random() < 0.3,
            "filters": {"properties": {"type": "AND", "values": leaves}},
        }

    def _make_flag(self, id: int) -> dict[str, Any]:
        filters = [self._property()] if self._random.random() < 0.6 else []
        if id > 1 and self._random.random() < 0.4:
            filters.append(
                {
                    "key": str(self._random.randint(1, id - 1)),
                    "type": "flag",
                    "value": self._random.choice([True, False, "control"]),
                    "operator": "flag_evaluates_to",
                }
            )
        if self._random.random() < 0.3:
            cohort = self._random.randint(1, 5)
            filters.append({"key": "id", "type": "cohort", "value": cohort, "operator": "in"})
        condition = {
            "properties": filters,
            "rollout_percentage": self._random.choice([0, 33.3, 100, None]),
            "sort_key": "s",
        }
        return {
            "id": id,
            "key": f"{self._prefix}-flag-{id}",
            "name": self._text(10_000),
            "active": id <= 3 or self._random.random() < 0.7,
            "tags": self._random.choice([[], ["one"], ["x" * 201], ["a", "a"]]) if id > 3 else [],
            "ensure_experience_continuity": self._random.random() < 0.2,
            "bucketing_identifier": self._random.choice([None, "distinct_id", "device_id"]),
            "filters": {"groups": [condition] if id > 3 else [{"properties": []}]},
        }

    def _make_split_flag(self, id: int) -> dict[str, Any]:
        first = "control" if id < 15 else self._random.choice(["control", "first"])
        variants = [{"key": key, "rollout_percentage": 50} for key in (first, "test")]
        return {
            "id": id,
            "key": f"{self._prefix}-split-{id}",
            "active": True,
            "filters": {
                "groups": [{"properties": [], "rollout_percentage": 100}],
                "multivariate": {"variants": variants},
                "payloads": {"test": self._random.choice(['{"a": 1}', " 7 ", None])},
            },
        }

    def _make_feature(self, id: int, flag: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"feature-{id}",
            "name": f"{self._prefix} feature {id}" + ("x" * 200 if id == 2 else ""),
            "description": self._text(10_000) if id else " blanks ",
            "stage": self._random.choice(["draft", "beta", "general-availability"]),
            "documentation_url": self._random.choice(["", "https://example.com"]),
            "feature_flag": flag,
        }

    def _make_survey(self, n: int) -> dict[str, Any]:
        conditions = self._random.choice([None, {}, {"url": "x"}, {"linkedFlagVariant": "test"}])
        question = {"type": "open", "question": "<b>Why?</b>", "optional": True, "odd": 1}
        return {
            "id": f"survey-{n}",
            "name": f"{self._prefix} survey {n}" + ("x" * 400 if n == 4 else ""),
            "description": self._text(10_000) if n else " blanks ",
            "type": self._random.choice(["popover", "widget", "api", "external_survey"])
            if n
            else "popover",
            "questions": self._random.choice([[], [question], None]) if n else [question],
            "conditions": conditions if n else None,
            "linked_flag_id": self._random.choice([None, 1, 13]) if n else None,
            "start_date": self._random.choice([None, "2026-01-01T00:00:00Z"]) if n else None,
            "end_date": None,
            "responses_limit": self._random.choice([None, 5]),
            "archived": False,
        }

    def _make_experiment(self, n: int, flag: dict[str, Any]) -> dict[str, Any]:
        source = {"kind": "EventsNode", "event": "buy", "properties": [self._property()]}
        starts = self._random.choice([None, "2026-01-01T00:00:00Z"])
        ends = self._random.choice([None, "2026-02-01T00:00:00Z"])
        experiment: dict[str, Any] = {
            "id": n,
            "name": f"{self._prefix} experiment {n}",
            "description": self._text(10_000) if n else " blanks ",
            "feature_flag_key": flag["key"],
            "start_date": starts if n else "2026-01-01T00:00:00.5+02:00",
            "end_date": ends if n else "2026-02-01T00:00:00Z",
            "archived": self._random.random() < 0.3,
            "parameters": {"minimum_detectable_effect": 5, "feature_flag_variants": []},
            "metrics": [{"kind": "ExperimentMetric", "metric_type": "mean", "source": source}]
            if n
            else [],
            "conclusion": "won" if not n else self._random.choice([None, "lost"]),
            "conclusion_comment": self._random.choice([None, "", " ok "]) if n else None,
        }
        return experiment


def make_unleash_export(random: Random, prefix: str) -> dict[str, Any]:
    names = [f"{prefix}.{n}" for n in range(9)] + [f"survey-targeting-{prefix}"]
    variants = [{"name": "a", "weight": 500}, {"name": "b", "weight": 500}]
    strategies = [
        {
            "featureName": name,
            "name": random.choice(["default", "flexibleRollout", "userWithId", "remoteAddress"]),
            "parameters": {"rollout": "50", "stickiness": "default", "userIds": "a,b"},
            "variants": random.choice([[], variants]),
            "constraints": random.choice(
                [[], [{"contextName": "x", "operator": "NUM_GT", "value": "seven"}]]
            ),
        }
        for name in names
        if random.random() < 0.8
    ]
    parents = [
        {
            "feature": name,
            "dependencies": [
                {
                    "feature": random.choice(names[:number]),
                    "enabled": random.random() < 0.7,
                    "variants": random.choice([[], ["a"]]),
                }
            ],
        }
        for number, name in enumerate(names)
        if number and random.random() < 0.6
    ]
    return {
        "features": [
            {"name": name, "description": random.choice(["", " blanks ", "x"])} for name in names
        ],
        "featureStrategies": strategies,
        "featureEnvironments": [
            {"featureName": name, "environment": "p", "enabled": random.random() < 0.6}
            for name in names
        ],
        "featureTags": [{"featureName": names[0], "tagValue": " tag "}],
        "dependencies": parents,
    }
