from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.lib.yamlio import FromEnv
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.config import decrypt_settings
from hedgerow.pipelines.model import ComponentId, Record
from hedgerow.pipelines.records.document import build_document, parse_document
from hedgerow.pipelines.records.plan import NEW_RECORD_ID, FamilyPlan, RecordPlan, RecordPlanner
from hedgerow.plugin.component import Family
from tests.unit.fake_time import START
from tests.unit.generated import bounded
from tests.unit.pipelines.sample_components import (
    BAR,
    CIPHER,
    HOOK,
    OTHER_CIPHER,
    PROJECT,
    build_record,
    encrypted,
)

HOOK_ID, OTHER_ID, BAR_ID = ComponentId(1000), ComponentId(1001), ComponentId(1002)
OTHER = replace(HOOK, key="acme/other", name="Other", version="7.0.0")
HIGHEST = 2**31 - 1
LOWEST = -(2**31)


def make_catalogue() -> Catalogue:
    catalogue = Catalogue()
    ids = {"acme/hook": HOOK_ID, "acme/other": OTHER_ID, "acme/bar": BAR_ID}
    catalogue.add(ids, [HOOK, OTHER, BAR], [])
    return catalogue


def make_plan(
    stored: Sequence[Record],
    document: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    prune: bool = False,
) -> RecordPlan:
    planner = RecordPlanner(
        project_id=PROJECT,
        cipher=CIPHER,
        environment=environment or {},
        is_installed=lambda record: True,
        prune=prune,
        now=START,
    )
    return planner.plan(stored, parse_document(document, make_catalogue()))


def family_plan(
    stored: Sequence[Record], items: Sequence[Mapping[str, Any]], **options: Any
) -> FamilyPlan:
    [family] = make_plan(stored, {"destinations": items}, **options).families
    return family


def hook(name: str = "Mine", **fields: Any) -> dict[str, Any]:
    return {"name": name, "component": "acme/hook", "enabled": True} | fields


def with_settings(**settings: Any) -> dict[str, Any]:
    return hook(settings=settings)


def refusal(stored: Sequence[Record], item: Mapping[str, Any], **options: Any) -> Invalid:
    with pytest.raises(Invalid) as raised:
        family_plan(stored, [item], **options)
    return raised.value


def changed_record(stored: Record, item: Mapping[str, Any], **options: Any) -> Record:
    """Return the record that the plan changes."""
    [(before, changed)] = family_plan([stored], [item], **options).changed
    assert before == stored
    return changed


def names_after(stored: Sequence[Record], plan: FamilyPlan) -> list[str]:
    """Return the names by order after the plan is applied."""
    changed = {record.id: record for _, record in plan.changed}
    deleted_ids = {record.id for record in plan.deleted}
    records = [changed.get(record.id, record) for record in stored if record.id not in deleted_ids]
    records += plan.created
    assert len({record.order for record in records}) == len(records)
    assert all(LOWEST <= record.order <= HIGHEST for record in records)
    return [record.name for record in sorted(records, key=lambda record: record.order)]


def make_records(*names: str, first: int = 1, step: int = 1) -> list[Record]:
    return [
        build_record(n, name=name, order=first + step * (n - 1)) for n, name in enumerate(names, 1)
    ]


def test_new_record_is_created_from_the_document() -> None:
    item = hook(
        description="d",
        settings={"url": "https://x", "size": "7", "token": FromEnv("T"), "headers": FromEnv("H")},
    )
    [created] = family_plan([], [item], environment={"T": "hunter2", "H": '{"A": ["b"]}'}).created
    assert (created.id, created.project_id, created.family) == (
        NEW_RECORD_ID,
        PROJECT,
        Family.DESTINATION,
    )
    assert (created.component_id, created.component_version) == (HOOK_ID, "1.0.0")
    assert (created.enabled, created.order, created.name, created.description) == (
        True,
        1,
        "Mine",
        "d",
    )
    assert (created.deleted, created.created_at, len(created.web_token) > 20) == (
        False,
        START,
        True,
    )
    clear = decrypt_settings(HOOK, created.config, CIPHER)
    assert (clear["url"], clear["size"]) == ("https://x", 7)
    assert (clear["token"], clear["headers"]) == ("hunter2", {"A": ["b"]})
    assert "hunter2" not in str(created.config)


def test_new_records_have_their_own_tokens() -> None:
    created = family_plan([], [hook(), hook(), hook("Other")]).created
    assert len({record.web_token for record in created}) == 3


def test_exported_document_changes_nothing() -> None:
    stored = [
        build_record(
            1, config={"url": "https://x", "token": encrypted("t"), "headers": encrypted({})}
        ),
        build_record(2, order=5, name="", enabled=False),
        build_record(3, order=9, name="Mine", description="d", config={"url": "${X}", "body": [0]}),
        build_record(4, family=Family.FRONTEND_APP, component_id=BAR_ID, config={"message": "m"}),
    ]
    for prune in (False, True):
        plan = make_plan(stored, build_document(stored, make_catalogue()), prune=prune)
        assert plan.is_empty
        assert all(family.sequence is None and not family.kept for family in plan.families)
        assert (plan.project_id, plan.records) == (PROJECT, stored)


def test_omitted_settings_are_cleared_including_secrets() -> None:
    stored = build_record(config={"url": "https://x", "size": 7, "token": encrypted("t")})
    assert changed_record(stored, with_settings(url="https://x")).config == {"url": "https://x"}
    assert changed_record(stored, hook()).config == {}
    cleared = with_settings(url="https://x", size=None, token=FromEnv("T"))
    assert changed_record(stored, cleared, environment={"T": ""}).config == {"url": "https://x"}


def test_secret_without_its_variable_is_unchanged() -> None:
    stored = build_record(config={"url": "https://x", "token": encrypted("t")})
    item = with_settings(url="https://x", token=FromEnv("T"), note="new")
    assert changed_record(stored, item).config == {**stored.config, "note": "new"}


def test_new_address_requires_the_variables_of_its_secrets() -> None:
    stored = build_record(config={"url": "https://x", "token": encrypted("t")})
    item = with_settings(url="https://y", token=FromEnv("T"))
    with pytest.raises(Invalid, match="again in the same request: token"):
        changed_record(stored, item)
    changed = changed_record(stored, item, environment={"T": "t"})
    assert changed.config == {"url": "https://y", "token": stored.config["token"]}


def test_only_a_different_secret_is_a_change() -> None:
    config = {"url": "https://x", "token": encrypted("t"), "headers": encrypted({"a": 1})}
    stored = build_record(config=config)
    item = with_settings(url="https://x", token=FromEnv("T"), headers=FromEnv("H"))
    same = family_plan([stored], [item], environment={"T": "t", "H": '{ "a": 1 }'})
    assert same.is_empty
    changed = changed_record(stored, item, environment={"T": "new", "H": '{"a": 1}'})
    assert changed.config["headers"] == config["headers"]
    assert decrypt_settings(HOOK, changed.config, CIPHER)["token"] == "new"


def test_secret_with_a_lost_key_is_kept_or_reencrypted() -> None:
    lost = {"$sealed": OTHER_CIPHER.encrypt("t")}
    stored = build_record(config={"url": "https://x", "token": lost})
    item = with_settings(url="https://x", token=FromEnv("T"))
    assert family_plan([stored], [item]).is_empty
    changed = changed_record(stored, item, environment={"T": "t"})
    assert decrypt_settings(HOOK, changed.config, CIPHER)["token"] == "t"


def test_variable_may_contain_any_setting_as_json() -> None:
    stored = build_record(config={"url": "https://x"})
    item = with_settings(
        url=FromEnv("U"), size=FromEnv("S"), loud=FromEnv("L"), body=FromEnv("B"), note=FromEnv("N")
    )
    environment = {"U": "https://y", "S": "9", "L": "true", "B": '["a", {"b": null}]', "N": "[1]"}
    assert changed_record(stored, item, environment=environment).config == {
        "url": "https://y",
        "size": 9,
        "loud": True,
        "body": ["a", {"b": None}],
        "note": "[1]",
    }


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"token": "literal"}, "token", "!env NAME"),
        ({"token": ""}, "token", "!env NAME"),
        ({"headers": {"A": "b"}}, "headers", "!env NAME"),
        ({"token": FromEnv("NOT_SET")}, "token", "NOT_SET is not set"),
        ({"url": FromEnv("NOT_SET")}, "url", "NOT_SET is not set"),
        ({"body": [{"a": FromEnv("T")}]}, "body", "whole value of a setting"),
        ({"headers": FromEnv("T")}, "headers", "T is not valid JSON"),
        ({"body": FromEnv("T")}, "body", "T is not valid JSON"),
        ({"body": FromEnv("NAN")}, "body", "NAN is not valid JSON"),
        ({"body": FromEnv("LONG")}, "body", "LONG is not valid JSON"),
        ({"body": FromEnv("DEEP")}, "body", "DEEP is not valid JSON"),
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
def test_error_names_record_and_setting_without_the_secret(
    settings: dict[str, Any], key: str, message: str
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
    error = refusal([], hook(settings=settings), environment=environment)
    assert error.attr == f"destinations[0] (Mine): {key}"
    assert message in error.detail
    assert "hunter2" not in error.detail


def test_number_out_of_json_range_in_a_variable_is_refused() -> None:
    item = with_settings(url="https://x", body=FromEnv("B"))
    assert refusal([], item, environment={"B": "1e999"}).attr == "destinations[0] (Mine): body"


def test_secret_of_another_record_is_not_reused() -> None:
    stored = build_record(config={"url": "https://x", "token": encrypted("t")})
    item = hook("New", settings={"url": "https://x", "token": FromEnv("T")})
    assert "T is not set" in refusal([stored], item).detail


def test_record_without_settings_may_omit_required_ones() -> None:
    [created] = family_plan([], [hook()]).created
    assert created.config == {}
    assert family_plan([build_record(config={})], [hook()]).is_empty


def test_unchanged_settings_may_lack_new_required_ones() -> None:
    stored = build_record(config={"note": "n"})
    assert family_plan([stored], [with_settings(note="n")]).is_empty
    assert refusal([stored], with_settings(note="m")).code == "required"


def test_replaced_component_keeps_no_settings() -> None:
    stored = build_record(config={"url": "https://x", "token": encrypted("t")})
    item = hook(component="acme/other", settings={"url": "https://y"})
    changed = changed_record(stored, item)
    assert (changed.id, changed.web_token) == (stored.id, stored.web_token)
    assert (changed.component_id, changed.component_version) == (OTHER_ID, "7.0.0")
    assert changed.config == {"url": "https://y"}
    kept = hook(component="acme/other", settings={"url": "https://y", "token": FromEnv("T")})
    assert "T is not set" in refusal([stored], kept).detail


def test_component_version_is_unchanged() -> None:
    assert (
        changed_record(build_record(component_version="0.9"), hook(enabled=False)).component_version
        == "0.9"
    )


def test_records_with_the_same_name_are_matched_in_order() -> None:
    stored = make_records("Same", "Same", "Same")
    items = [hook("Same"), hook("Same", description="second"), hook("Same")]
    [(before, changed)] = family_plan(stored, items).changed
    assert (before.id, changed.description) == (2, "second")
    plan = family_plan(stored, items[:2], prune=True)
    assert [record.id for record in plan.deleted] == [3]
    assert len(family_plan(stored[:1], items).created) == 2


def test_records_without_a_name_are_matched_by_component_in_order() -> None:
    stored = [
        build_record(1, name="", order=1),
        build_record(2, name="", order=2, component_id=OTHER_ID),
        build_record(3, name="", order=3),
    ]
    items = [
        {"component": "acme/hook", "enabled": True},
        {"component": "acme/other", "enabled": True},
        {"component": "acme/hook", "enabled": False},
    ]
    [(before, changed)] = family_plan(stored, items).changed
    assert (before.id, changed.enabled) == (3, False)
    plan = family_plan(stored, [{"component": "acme/other", "enabled": True}], prune=True)
    assert [record.id for record in plan.deleted] == [1, 3]


def test_omitted_family_is_not_changed_even_by_prune() -> None:
    stored = [build_record(1), build_record(2, family=Family.FRONTEND_APP, component_id=BAR_ID)]
    plan = make_plan(stored, {"destinations": []}, prune=True)
    assert [(each.family, [r.id for r in each.deleted]) for each in plan.families] == [
        (Family.DESTINATION, [1])
    ]
    assert make_plan(stored, {}, prune=True).is_empty


def test_records_missing_in_the_document_are_kept_or_pruned() -> None:
    stored = make_records("a", "b", "c")
    kept = family_plan(stored, [hook("b")])
    assert (kept.is_empty, [record.name for record in kept.kept]) == (True, ["a", "c"])
    pruned = family_plan(stored, [hook("b")], prune=True)
    assert ([record.name for record in pruned.deleted], pruned.kept) == (["a", "c"], [])
    assert (pruned.changed, names_after(stored, pruned)) == ([], ["b"])


def test_new_order_moves_only_records_that_must_move() -> None:
    stored = make_records("a", "b", "c", "d", first=5)
    plan = family_plan(stored, [hook(name) for name in "bacd"])
    assert [(before.name, record.order) for before, record in plan.changed] == [("b", 5), ("a", 6)]
    assert names_after(stored, plan) == ["b", "a", "c", "d"]
    assert plan.sequence is not None
    assert [record.name for record in plan.sequence] == ["b", "a", "c", "d"]


def test_order_with_gaps_is_unchanged() -> None:
    stored = make_records("a", "b", "c", first=-3, step=10)
    assert family_plan(stored, [hook(name) for name in "abc"]).is_empty
    assert family_plan(stored, [hook(name) for name in "ac"]).is_empty


def test_new_records_at_the_end_move_no_other() -> None:
    stored = make_records("a", "b", step=4)
    plan = family_plan(stored, [hook(name) for name in "axy"])
    assert (plan.changed, plan.sequence) == ([], None)
    assert [(record.name, record.order) for record in plan.created] == [("x", 6), ("y", 7)]
    assert names_after(stored, plan) == ["a", "b", "x", "y"]


def test_new_record_in_the_middle_moves_the_following_ones() -> None:
    stored = make_records("a", "b", "c")
    plan = family_plan(stored, [hook(name) for name in "axbc"])
    assert names_after(stored, plan) == ["a", "x", "b", "c"]
    assert [before.name for before, _ in plan.changed] == ["b", "c"]


def test_records_missing_in_the_document_go_last_in_a_new_order() -> None:
    stored = make_records("a", "b", "c", "d")
    plan = family_plan(stored, [hook("d"), hook("b")])
    assert names_after(stored, plan) == ["d", "b", "a", "c"]


@pytest.mark.parametrize("first", [LOWEST, HIGHEST - 2])
def test_orders_stay_within_32_bits(first: int) -> None:
    stored = make_records("a", "b", "c", first=first)
    for names in ("abcx", "cba", "xabc", "abcxyz", "cx"):
        plan = family_plan(stored, [hook(name) for name in names])
        result = names_after(stored, plan)
        assert [name for name in result if name in names] == list(names)


@bounded
@given(
    st.lists(st.sampled_from("abcde"), max_size=6),
    st.lists(st.sampled_from("abcdexyz"), max_size=8),
    st.sampled_from([LOWEST, -2, 0, 1, HIGHEST - 10, HIGHEST - 5]),
    st.booleans(),
)
def test_applying_any_document_gives_its_records_in_order_and_is_idempotent(
    present: list[str], names: list[str], first: int, prune: bool
) -> None:
    stored = make_records(*present, first=first)
    items = [hook(name) for name in names]
    plan = family_plan(stored, items, prune=prune)
    changed = {record.id: record for _, record in plan.changed}
    deleted_ids = {record.id for record in plan.deleted}
    result = [changed.get(record.id, record) for record in stored if record.id not in deleted_ids]
    result += [
        build_record(100 + n, name=r.name, order=r.order) for n, r in enumerate(plan.created)
    ]
    result.sort(key=lambda record: record.order)
    assert len({record.order for record in result}) == len(result)
    assert all(LOWEST <= record.order <= HIGHEST for record in result)
    kept = {record.id for record in plan.kept}
    resulting = [record.name for record in result if record.id not in kept]
    assert resulting == names
    assert not (prune and kept)
    assert family_plan(result, items, prune=prune).is_empty
