from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import unsealed
from hedgerow.pipelines.document import composed, parsed
from hedgerow.pipelines.model import ComponentId, Family, Record
from hedgerow.pipelines.plan import NEW, FamilyPlan, Plan, Planner
from tests.unit.fake_time import START
from tests.unit.generated import bounded
from tests.unit.pipelines.world import BAR, HOOK, OTHER_SEALER, PROJECT, SEALER, a_record, sealed

HOOK_ID, OTHER_ID, BAR_ID = ComponentId(1000), ComponentId(1001), ComponentId(1002)
OTHER = replace(HOOK, key="acme/other", name="Other", version="7.0.0")
HIGHEST = 2**31 - 1
LOWEST = -(2**31)


def a_catalogue() -> Catalogue:
    catalogue = Catalogue()
    ids = {"acme/hook": HOOK_ID, "acme/other": OTHER_ID, "acme/bar": BAR_ID}
    catalogue.add(ids, [HOOK, OTHER, BAR], [])
    return catalogue


def planned(
    seen: Sequence[Record],
    document: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    prune: bool = False,
) -> Plan:
    planner = Planner(
        project_id=PROJECT,
        sealer=SEALER,
        environment=environment or {},
        is_installed=lambda record: True,
        prune=prune,
        now=START,
    )
    return planner.plan(seen, parsed(document, a_catalogue()))


def family_plan(
    seen: Sequence[Record], items: Sequence[Mapping[str, Any]], **options: Any
) -> FamilyPlan:
    [family] = planned(seen, {"destinations": items}, **options).families
    return family


def hook(name: str = "Mine", **fields: Any) -> dict[str, Any]:
    return {"name": name, "component": "acme/hook", "enabled": True} | fields


def with_settings(**settings: Any) -> dict[str, Any]:
    return hook(settings=settings)


def refusal(seen: Sequence[Record], item: Mapping[str, Any], **options: Any) -> Invalid:
    with pytest.raises(Invalid) as raised:
        family_plan(seen, [item], **options)
    return raised.value


def after(seen: Record, item: Mapping[str, Any], **options: Any) -> Record:
    """The one record as the document wants it, which must be a change."""
    [(before, changed)] = family_plan([seen], [item], **options).changed
    assert before == seen
    return changed


def in_the_end(seen: Sequence[Record], plan: FamilyPlan) -> list[str]:
    """The names by order, once the plan is done."""
    changed = {record.id: record for _, record in plan.changed}
    gone = {record.id for record in plan.deleted}
    records = [changed.get(record.id, record) for record in seen if record.id not in gone]
    records += plan.created
    assert len({record.order for record in records}) == len(records)
    assert all(LOWEST <= record.order <= HIGHEST for record in records)
    return [record.name for record in sorted(records, key=lambda record: record.order)]


def row(*names: str, first: int = 1, step: int = 1) -> list[Record]:
    return [a_record(n, name=name, order=first + step * (n - 1)) for n, name in enumerate(names, 1)]


def test_a_new_record_is_made_as_the_document_has_it() -> None:
    item = hook(
        description="d",
        settings={"url": "https://x", "size": "7", "token": FromEnv("T"), "headers": FromEnv("H")},
    )
    [made] = family_plan([], [item], environment={"T": "hunter2", "H": '{"A": ["b"]}'}).created
    assert (made.id, made.project_id, made.family) == (NEW, PROJECT, Family.DESTINATION)
    assert (made.component_id, made.component_version) == (HOOK_ID, "1.0.0")
    assert (made.enabled, made.order, made.name, made.description) == (True, 1, "Mine", "d")
    assert (made.deleted, made.created_at, len(made.web_token) > 20) == (False, START, True)
    clear = unsealed(HOOK, made.config, SEALER)
    assert (clear["url"], clear["size"]) == ("https://x", 7)
    assert (clear["token"], clear["headers"]) == ("hunter2", {"A": ["b"]})
    assert "hunter2" not in str(made.config)


def test_new_records_have_tokens_of_their_own() -> None:
    made = family_plan([], [hook(), hook(), hook("Other")]).created
    assert len({record.web_token for record in made}) == 3


def test_the_document_of_the_records_changes_nothing() -> None:
    seen = [
        a_record(1, config={"url": "https://x", "token": sealed("t"), "headers": sealed({})}),
        a_record(2, order=5, name="", enabled=False),
        a_record(3, order=9, name="Mine", description="d", config={"url": "${X}", "body": [0]}),
        a_record(4, family=Family.FRONTEND_APP, component_id=BAR_ID, config={"message": "m"}),
    ]
    for prune in (False, True):
        plan = planned(seen, composed(seen, a_catalogue()), prune=prune)
        assert plan.is_empty
        assert all(family.sequence is None and not family.kept for family in plan.families)
        assert (plan.project_id, plan.seen) == (PROJECT, seen)


def test_a_setting_that_is_left_out_is_cleared_and_secrets_too() -> None:
    seen = a_record(config={"url": "https://x", "size": 7, "token": sealed("t")})
    assert after(seen, with_settings(url="https://x")).config == {"url": "https://x"}
    assert after(seen, hook()).config == {}
    cleared = with_settings(url="https://x", size=None, token=FromEnv("T"))
    assert after(seen, cleared, environment={"T": ""}).config == {"url": "https://x"}


def test_a_secret_without_its_variable_stays_as_it_is_stored() -> None:
    seen = a_record(config={"url": "https://x", "token": sealed("t")})
    changed = after(seen, with_settings(url="https://y", token=FromEnv("T")))
    assert changed.config == {"url": "https://y", "token": seen.config["token"]}


def test_a_secret_of_the_same_value_is_no_change_and_another_is_sealed() -> None:
    config = {"url": "https://x", "token": sealed("t"), "headers": sealed({"a": 1})}
    seen = a_record(config=config)
    item = with_settings(url="https://x", token=FromEnv("T"), headers=FromEnv("H"))
    same = family_plan([seen], [item], environment={"T": "t", "H": '{ "a": 1 }'})
    assert same.is_empty
    changed = after(seen, item, environment={"T": "new", "H": '{"a": 1}'})
    assert changed.config["headers"] == config["headers"]
    assert unsealed(HOOK, changed.config, SEALER)["token"] == "new"


def test_a_secret_under_a_lost_key_is_kept_or_sealed_anew() -> None:
    lost = {"$sealed": OTHER_SEALER.seal("t")}
    seen = a_record(config={"url": "https://x", "token": lost})
    item = with_settings(url="https://x", token=FromEnv("T"))
    assert family_plan([seen], [item]).is_empty
    changed = after(seen, item, environment={"T": "t"})
    assert unsealed(HOOK, changed.config, SEALER)["token"] == "t"


def test_a_variable_may_hold_any_setting_and_json_is_read_from_it() -> None:
    seen = a_record(config={"url": "https://x"})
    item = with_settings(
        url=FromEnv("U"), size=FromEnv("S"), loud=FromEnv("L"), body=FromEnv("B"), note=FromEnv("N")
    )
    environment = {"U": "https://y", "S": "9", "L": "true", "B": '["a", {"b": null}]', "N": "[1]"}
    assert after(seen, item, environment=environment).config == {
        "url": "https://y",
        "size": 9,
        "loud": True,
        "body": ["a", {"b": None}],
        "note": "[1]",
    }


@pytest.mark.parametrize(
    ("settings", "key", "word"),
    [
        ({"token": "literal"}, "token", "!env NAME"),
        ({"token": ""}, "token", "!env NAME"),
        ({"headers": {"A": "b"}}, "headers", "!env NAME"),
        ({"token": FromEnv("NOT_SET")}, "token", "NOT_SET is not set"),
        ({"url": FromEnv("NOT_SET")}, "url", "NOT_SET is not set"),
        ({"body": [{"a": FromEnv("T")}]}, "body", "whole setting"),
        ({"headers": FromEnv("T")}, "headers", "T does not hold JSON"),
        ({"body": FromEnv("T")}, "body", "T does not hold JSON"),
        ({"body": FromEnv("NAN")}, "body", "NAN does not hold JSON"),
        ({"body": FromEnv("LONG")}, "body", "LONG does not hold JSON"),
        ({"body": FromEnv("DEEP")}, "body", "DEEP does not hold JSON"),
        ({"body": FromEnv("NUL")}, "body", "Null"),
        ({"headers": FromEnv("SURROGATE")}, "headers", "Surrogate"),
        ({"token": FromEnv("BYTE")}, "token", "Surrogate"),
        ({"nothing": 1}, "nothing", "url, note, loud"),
        ({"size": 2**31}, "size", str(HIGHEST)),
        ({"size": "many"}, "size", "integer"),
        ({"loud": "yes"}, "loud", "boolean"),
        ({"method": "GET"}, "method", "GET"),
        ({"url": 5}, "url", "string"),
        ({"note": "x"}, "url", "required"),
    ],
)
def test_a_refusal_names_record_and_setting_and_shows_no_secret(
    settings: dict[str, Any], key: str, word: str
) -> None:
    environment = {
        "T": "hunter2",
        "NAN": "[NaN]",
        "LONG": "9" * 5000,
        "DEEP": "[" * 100_000,
        "NUL": '"\\u0000"',
        "SURROGATE": '"\\ud800"',
        "BYTE": "hunter2\udcff",
    }
    refused = refusal([], hook(settings=settings), environment=environment)
    assert refused.attr == f"destinations[0] (Mine): {key}"
    assert word in refused.detail
    assert "hunter2" not in refused.detail


def test_a_number_in_a_variable_that_json_cannot_hold_is_refused() -> None:
    item = with_settings(url="https://x", body=FromEnv("B"))
    assert refusal([], item, environment={"B": "1e999"}).attr == "destinations[0] (Mine): body"


def test_a_secret_of_another_record_is_not_one_that_is_stored_here() -> None:
    seen = a_record(config={"url": "https://x", "token": sealed("t")})
    item = hook("New", settings={"url": "https://x", "token": FromEnv("T")})
    assert "T is not set" in refusal([seen], item).detail


def test_a_record_without_settings_needs_none_even_if_some_are_required() -> None:
    [made] = family_plan([], [hook()]).created
    assert made.config == {}
    assert family_plan([a_record(config={})], [hook()]).is_empty


def test_stored_settings_that_lack_what_is_required_by_now_may_stay() -> None:
    seen = a_record(config={"note": "n"})
    assert family_plan([seen], [with_settings(note="n")]).is_empty
    assert refusal([seen], with_settings(note="m")).code == "required"


def test_another_component_under_one_name_starts_with_its_own_settings() -> None:
    seen = a_record(config={"url": "https://x", "token": sealed("t")})
    item = hook(component="acme/other", settings={"url": "https://y"})
    changed = after(seen, item)
    assert (changed.id, changed.web_token) == (seen.id, seen.web_token)
    assert (changed.component_id, changed.component_version) == (OTHER_ID, "7.0.0")
    assert changed.config == {"url": "https://y"}
    kept = hook(component="acme/other", settings={"url": "https://y", "token": FromEnv("T")})
    assert "T is not set" in refusal([seen], kept).detail


def test_the_version_of_a_component_stays_as_it_is_stored() -> None:
    assert after(a_record(component_version="0.9"), hook(enabled=False)).component_version == "0.9"


def test_records_of_one_name_are_told_apart_by_which_of_them_they_are() -> None:
    seen = row("Same", "Same", "Same")
    items = [hook("Same"), hook("Same", description="second"), hook("Same")]
    [(before, changed)] = family_plan(seen, items).changed
    assert (before.id, changed.description) == (2, "second")
    plan = family_plan(seen, items[:2], prune=True)
    assert [record.id for record in plan.deleted] == [3]
    assert len(family_plan(seen[:1], items).created) == 2


def test_records_without_a_name_are_told_apart_by_component_and_then_by_which() -> None:
    seen = [
        a_record(1, name="", order=1),
        a_record(2, name="", order=2, component_id=OTHER_ID),
        a_record(3, name="", order=3),
    ]
    items = [
        {"component": "acme/hook", "enabled": True},
        {"component": "acme/other", "enabled": True},
        {"component": "acme/hook", "enabled": False},
    ]
    [(before, changed)] = family_plan(seen, items).changed
    assert (before.id, changed.enabled) == (3, False)
    plan = family_plan(seen, [{"component": "acme/other", "enabled": True}], prune=True)
    assert [record.id for record in plan.deleted] == [1, 3]


def test_a_family_that_is_left_out_is_left_alone_even_by_prune() -> None:
    seen = [a_record(1), a_record(2, family=Family.FRONTEND_APP, component_id=BAR_ID)]
    plan = planned(seen, {"destinations": []}, prune=True)
    assert [(each.family, [r.id for r in each.deleted]) for each in plan.families] == [
        (Family.DESTINATION, [1])
    ]
    assert planned(seen, {}, prune=True).is_empty


def test_records_that_are_not_in_the_document_stay_unless_they_are_pruned() -> None:
    seen = row("a", "b", "c")
    kept = family_plan(seen, [hook("b")])
    assert (kept.is_empty, [record.name for record in kept.kept]) == (True, ["a", "c"])
    pruned = family_plan(seen, [hook("b")], prune=True)
    assert ([record.name for record in pruned.deleted], pruned.kept) == (["a", "c"], [])
    assert (pruned.changed, in_the_end(seen, pruned)) == ([], ["b"])


def test_another_order_moves_only_what_must_move() -> None:
    seen = row("a", "b", "c", "d", first=5)
    plan = family_plan(seen, [hook(name) for name in "bacd"])
    assert [(before.name, record.order) for before, record in plan.changed] == [("b", 5), ("a", 6)]
    assert in_the_end(seen, plan) == ["b", "a", "c", "d"]
    assert plan.sequence is not None
    assert [record.name for record in plan.sequence] == ["b", "a", "c", "d"]


def test_the_same_order_with_gaps_is_no_change() -> None:
    seen = row("a", "b", "c", first=-3, step=10)
    assert family_plan(seen, [hook(name) for name in "abc"]).is_empty
    assert family_plan(seen, [hook(name) for name in "ac"]).is_empty


def test_new_records_at_the_end_move_nobody() -> None:
    seen = row("a", "b", step=4)
    plan = family_plan(seen, [hook(name) for name in "axy"])
    assert (plan.changed, plan.sequence) == ([], None)
    assert [(record.name, record.order) for record in plan.created] == [("x", 6), ("y", 7)]
    assert in_the_end(seen, plan) == ["a", "b", "x", "y"]


def test_a_new_record_in_the_middle_stands_there_and_the_others_make_room() -> None:
    seen = row("a", "b", "c")
    plan = family_plan(seen, [hook(name) for name in "axbc"])
    assert in_the_end(seen, plan) == ["a", "x", "b", "c"]
    assert [before.name for before, _ in plan.changed] == ["b", "c"]


def test_kept_records_stand_behind_when_the_order_changes() -> None:
    seen = row("a", "b", "c", "d")
    plan = family_plan(seen, [hook("d"), hook("b")])
    assert in_the_end(seen, plan) == ["d", "b", "a", "c"]


@pytest.mark.parametrize("first", [LOWEST, HIGHEST - 2])
def test_orders_stay_within_32_bits(first: int) -> None:
    seen = row("a", "b", "c", first=first)
    for names in ("abcx", "cba", "xabc", "abcxyz", "cx"):
        plan = family_plan(seen, [hook(name) for name in names])
        ending = in_the_end(seen, plan)
        assert [name for name in ending if name in names] == list(names)


@bounded
@given(
    st.lists(st.sampled_from("abcde"), max_size=6),
    st.lists(st.sampled_from("abcdexyz"), max_size=8),
    st.sampled_from([LOWEST, -2, 0, 1, HIGHEST - 10, HIGHEST - 5]),
    st.booleans(),
)
def test_whatever_is_asked_for_is_there_in_its_order_and_asking_again_changes_nothing(
    present: list[str], wanted: list[str], first: int, prune: bool
) -> None:
    seen = row(*present, first=first)
    items = [hook(name) for name in wanted]
    plan = family_plan(seen, items, prune=prune)
    changed = {record.id: record for _, record in plan.changed}
    gone = {record.id for record in plan.deleted}
    ending = [changed.get(record.id, record) for record in seen if record.id not in gone]
    ending += [a_record(100 + n, name=r.name, order=r.order) for n, r in enumerate(plan.created)]
    ending.sort(key=lambda record: record.order)
    assert len({record.order for record in ending}) == len(ending)
    assert all(LOWEST <= record.order <= HIGHEST for record in ending)
    kept = {record.id for record in plan.kept}
    asked = [record.name for record in ending if record.id not in kept]
    assert asked == wanted
    assert not (prune and kept)
    assert family_plan(ending, items, prune=prune).is_empty
