"""Flags as a document: what goes out comes in again, also elsewhere, and what is wrong is named."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.as_code import Composed, FieldChange, FlagsAsCode, Plan, composed, parsed
from hedgerow.flags.flags import MAX_FLAGS
from hedgerow.flags.model import Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.rules import Surroundings, checked_filters
from hedgerow.flags.store import FlagWrite
from hedgerow.kit.yamlio import FromEnv, decode, encode
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import TERMINAL, Entry
from hedgerow.projects.model import Project, ProjectId
from hedgerow.properties.values import MISSING
from tests.unit.fake_time import START
from tests.unit.flags.world import (
    EVERYBODY,
    PROJECT,
    a_cohort,
    a_flag,
    depends_on,
    group_prop,
    in_cohort,
    of_groups,
    prop,
    variants,
)

HERE = Project(
    id=PROJECT,
    uuid="",
    organization_id="",
    name="Here",
    timezone="UTC",
    api_token="phc_here",
    created_at=START,
    updated_at=START,
)
LATER = START + timedelta(hours=1)


class Store:
    """Keeps flags as storage/flags.py does: ids of its own, all or nothing, one step."""

    def __init__(
        self,
        *flags: Flag,
        cohorts: Sequence[Cohort] = (),
        group_types: Mapping[str, int] | None = None,
        first_id: int = 1000,
    ) -> None:
        self.flags = {flag.id: flag for flag in flags}
        self.cohorts = cohorts
        self.group_types = group_types or {}
        self.current = 1
        self.next_id = first_id
        self.told: list[Entry] = []

    async def definitions(self, project_id: ProjectId, timezone: str) -> Definitions:
        return self._present()

    def _present(self) -> Definitions:
        return Definitions(
            generation=self.current,
            flags=[flag for flag in self.flags.values() if not flag.deleted],
            cohorts=self.cohorts,
            group_types=self.group_types,
            timezone="UTC",
        )

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[Definitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        flags, told = dict(self.flags), list(self.told)

        def store(wish: FlagWrite) -> Flag:
            flag = wish.flag
            if not flag.id:
                flag = replace(flag, id=FlagId(self.next_id))
                self.next_id += 1
            flags[flag.id] = flag
            entry = wish.tell(flag)
            if entry is not None:
                told.append(entry)
            return flag

        work(self._present(), store)
        self.flags, self.told, self.current = flags, told, self.current + 1

    def by_key(self, key: str) -> Flag:
        [found] = [flag for flag in self.flags.values() if flag.key == key and not flag.deleted]
        return found


def room(store: Store) -> FlagsAsCode:
    as_code: Any = FlagsAsCode
    made: FlagsAsCode = as_code(store)
    return made


def document(store: Store) -> Composed:
    return asyncio.run(room(store).document(HERE))


def planned(store: Store, wanted: Any, *, prune: bool = False) -> Plan:
    return asyncio.run(room(store).plan(HERE, wanted, prune=prune, actor=TERMINAL, now=START))


def applied(store: Store, wanted: Any, *, prune: bool = False) -> Plan:
    plan = planned(store, wanted, prune=prune)
    asyncio.run(room(store).apply(plan, TERMINAL, LATER))
    return plan


def of_flags(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": 1, "flags": [{"filters": EVERYBODY, **item} for item in items]}


def refused(store: Store, wanted: Any, *, prune: bool = False) -> str:
    with pytest.raises(Invalid) as caught:
        planned(store, wanted, prune=prune)
    return f"{caught.value.attr}: {caught.value.detail}"


def changes(found: Sequence[FieldChange]) -> dict[str, tuple[Any, Any]]:
    return {change.field: (change.before, change.after) for change in found}


def asking(*filters: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return of_groups({"properties": list(filters)}, **fields)


def by_key(key: Any, value: Any = True) -> dict[str, Any]:
    return {"key": key, "type": "flag", "value": value, "operator": "flag_evaluates_to"}


def test_only_what_is_not_at_its_default_is_written() -> None:
    full = a_flag(
        EVERYBODY,
        2,
        key="full",
        name="All of it",
        active=False,
        archived=True,
        ensure_experience_continuity=True,
        is_remote_configuration=True,
        evaluation_runtime=Runtime.SERVER,
        evaluation_contexts=("web",),
        tags=("b", "a"),
    )
    made = document(Store(full, a_flag(EVERYBODY, 3, key="bare")))
    assert made.document == {
        "version": 1,
        "flags": [
            {"key": "bare", "filters": EVERYBODY},
            {
                "key": "full",
                "name": "All of it",
                "active": False,
                "archived": True,
                "tags": ["b", "a"],
                "ensure_experience_continuity": True,
                "is_remote_configuration": True,
                "evaluation_runtime": "server",
                "evaluation_contexts": ["web"],
                "filters": EVERYBODY,
            },
        ],
    }


def test_flags_cohorts_and_group_types_are_named() -> None:
    store = Store(
        a_flag(EVERYBODY, 1, key="base"),
        a_flag(asking(depends_on(1), in_cohort(7), in_cohort("7", "not_in")), 2, key="child"),
        a_flag(asking(group_prop(3, "plan", "pro"), aggregation_group_type_index=3), 4, key="firm"),
        cohorts=[a_cohort(7, name="Testers")],
        group_types={"company": 3},
    )
    made = document(store)
    _, child, firm = made.document["flags"]
    assert [filter["value"] for filter in child["filters"]["groups"][0]["properties"]] == [
        True,
        "Testers",
        "Testers",
    ]
    assert child["filters"]["groups"][0]["properties"][0]["key"] == "base"
    assert firm["filters"]["aggregation_group_type_index"] == "company"
    assert firm["filters"]["groups"][0]["properties"][0]["group_type_index"] == "company"
    assert list(made.nameless) == []
    assert planned(store, made.document, prune=True).is_empty


def test_what_has_no_name_of_its_own_is_written_as_an_id_and_told() -> None:
    filters = asking(in_cohort(1), in_cohort(3), depends_on(99))
    same = [a_cohort(1, name="Same"), a_cohort(2, name="Same")]
    store = Store(a_flag(filters, 5, key="odd"), cohorts=same)
    made = document(store)
    place = "flags[0] (odd): filters.groups[0].properties"
    assert list(made.nameless) == [
        f"{place}[0].value: cohort 1",
        f"{place}[1].value: cohort 3",
        f"{place}[2].key: flag 99",
    ]
    [item] = made.document["flags"]
    written = item["filters"]["groups"][0]["properties"]
    assert [written[0]["value"], written[1]["value"], written[2]["key"]] == [1, 3, 99]
    assert planned(store, made.document).is_empty


def test_a_document_means_the_same_in_another_project() -> None:
    here = Store(
        a_flag(asking(depends_on(12, "a")), 1, key="child"),
        a_flag(of_groups({}, multivariate=variants(a=100)), 12, key="12"),
        a_flag(asking(in_cohort(7)), 3, key="cohort"),
        a_flag(
            of_groups(
                {"aggregation_group_type_index": 0},
                {"aggregation_group_type_index": None},
                aggregation_group_type_index=None,
            ),
            4,
            key="firm",
        ),
        cohorts=[a_cohort(7, name="注文")],
        group_types={"company": 0},
    )
    there = Store(
        a_flag(EVERYBODY, 12, key="kept"),
        cohorts=[a_cohort(7, name="Others"), a_cohort(70, name="注文")],
        group_types={"team": 0, "company": 2},
    )
    out = document(here).document
    plan = applied(there, decode(encode(out)))
    assert [step.after.key for step in plan.created] == ["12", "cohort", "firm", "child"]
    assert there.by_key("child").filters == asking(depends_on(there.by_key("12").id, "a"))
    assert there.by_key("cohort").filters == asking(in_cohort(70))
    assert there.by_key("firm").filters["groups"][0] == {"aggregation_group_type_index": 2}
    assert planned(there, out).is_empty
    applied(there, out, prune=True)
    assert document(there).document == out
    assert [(each.activity, each.item_name) for each in there.told] == [
        ("created", "12"),
        ("created", "cohort"),
        ("created", "firm"),
        ("created", "child"),
        ("deleted", "kept"),
    ]


def test_flags_may_stand_before_what_they_depend_on_and_old_ones_may_depend_on_new() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="old"))
    wanted = of_flags(
        {"key": "old", "filters": asking(by_key("c"))},
        {"key": "c", "filters": asking(by_key("b"), by_key("a", False))},
        {"key": "b", "filters": asking(by_key("a"))},
        {"key": "a"},
    )
    applied(store, wanted)
    ids = {flag.key: flag.id for flag in store.flags.values()}
    assert store.by_key("old").filters == asking(depends_on(ids["c"]))
    assert store.by_key("c").filters == asking(depends_on(ids["b"]), depends_on(ids["a"], False))
    assert ids["a"] < ids["b"] < ids["c"] < 10_000
    assert planned(store, wanted).is_empty


def test_changes_are_told_by_their_path_in_the_words_of_the_document() -> None:
    stored = of_groups(
        {"properties": [prop("country", ["DE"]), in_cohort(7)], "rollout_percentage": 10},
        {"variant": None},
    )
    store = Store(
        a_flag(stored, 1, key="f", name="Old", tags=("a",)),
        a_flag(EVERYBODY, 2, key="same"),
        cohorts=[a_cohort(7, name="One"), a_cohort(8, name="Two")],
    )
    filters = of_groups(
        {"properties": [prop("country", ["DE", "FR"]), in_cohort("Two")], "rollout_percentage": 50}
    )
    plan = planned(store, of_flags({"key": "f", "filters": filters}, {"key": "same"}))
    assert (list(plan.created), list(plan.deleted), list(plan.kept)) == ([], [], [])
    [step] = plan.changed
    at = "filters.groups[0]"
    assert changes(step.changes) == {
        "name": ("Old", MISSING),
        "tags": (["a"], MISSING),
        f"{at}.properties[0].value": (["DE"], ["DE", "FR"]),
        f"{at}.properties[1].value": ("One", "Two"),
        f"{at}.rollout_percentage": (10, 50),
        "filters.groups[1]": ({"variant": None}, MISSING),
    }


def test_a_change_keeps_what_is_not_the_documents_and_tells_who_made_it() -> None:
    before = a_flag(EVERYBODY, 1, key="f", version=4, created_by="ann", last_called_at=START)
    store = Store(before)
    plan = planned(store, of_flags({"key": "f", "active": False}))
    store.flags[before.id] = replace(before, last_called_at=LATER)  # moves no generation
    asyncio.run(room(store).apply(plan, TERMINAL, LATER))
    assert store.by_key("f") == replace(
        before,
        active=False,
        version=5,
        last_called_at=LATER,
        last_modified_by=TERMINAL.name,
        updated_at=LATER,
    )
    [entry] = store.told
    assert (entry.activity, [each.field for each in entry.changes]) == ("updated", ["active"])


def test_payloads_may_be_written_as_they_are() -> None:
    item = {"key": "f", "filters": of_groups({}, payloads={"true": {"a": [1, "ü"]}})}
    applied(store := Store(), of_flags(item))
    assert store.by_key("f").filters["payloads"] == {"true": '{"a":[1,"ü"]}'}
    assert planned(store, of_flags(item)).is_empty


def test_what_is_not_in_the_document_is_kept_or_pruned() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="a"), a_flag(EVERYBODY, 2, key="b"))
    plan = planned(store, of_flags({"key": "a"}))
    assert (plan.is_empty, [flag.key for flag in plan.kept]) == (True, ["b"])
    applied(store, of_flags({"key": "a"}), prune=True)
    gone = store.flags[FlagId(2)]
    assert (gone.deleted, gone.active, gone.version) == (True, False, 2)
    applied(store, of_flags({"key": "a"}, {"key": "b"}))
    assert store.by_key("b").id == 1000


def test_flags_with_encrypted_payloads_are_left_alone() -> None:
    secret = a_flag(
        of_groups({}, payloads={"true": "sealed"}),
        1,
        key="secret",
        is_remote_configuration=True,
        has_encrypted_payloads=True,
    )
    store = Store(secret, a_flag(asking(depends_on(1)), 2, key="child"))
    made = document(store)
    assert [flag.key for flag in made.left_out] == ["secret"]
    assert [item["key"] for item in made.document["flags"]] == ["child"]
    assert "sealed" not in str(made.document)
    plan = planned(store, made.document, prune=True)
    assert (plan.is_empty, list(plan.kept)) == (True, [])
    assert "flags[0] (secret): Its payloads are encrypted" in refused(
        store, of_flags({"key": "secret"})
    )


def test_a_plan_is_refused_once_something_changed() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="a"))
    plan = planned(store, of_flags({"key": "b"}))
    applied(store, of_flags({"key": "a", "name": "Mine"}))
    before = dict(store.flags)
    with pytest.raises(Conflict, match="changed meanwhile"):
        asyncio.run(room(store).apply(plan, TERMINAL, LATER))
    assert store.flags == before


WRONG_SHAPES: list[tuple[Any, str]] = [
    (None, "None: A document has"),
    ([], "None: A document has"),
    ({}, "flags: A list of flags"),
    ({"flags": {}}, "flags: A list of flags"),
    ({"version": 2, "flags": []}, "version: "),
    ({"version": True, "flags": []}, "version: "),
    ({"flags": [], "a\nb": 1}, '"a\\nb" means nothing here'),
    ({"flags": ["x"]}, "flags[0]: A flag has"),
    ({"flags": [{}]}, "flags[0]: key: "),
    ({"flags": [{"key": 5}]}, "flags[0]: key: "),
    ({"flags": [{"key": "a b"}]}, "flags[0]: key: Only letters"),
    ({"flags": [{"key": "a" * 401}]}, "flags[0]: key: "),
    ({"flags": [{"key": "a", "id": 5}]}, 'flags[0] (a): "id" means nothing here'),
    ({"flags": [{"key": "a", "active": 1}]}, "flags[0] (a): active: Must be true"),
    ({"flags": [{"key": "a", "name": 1}]}, "flags[0] (a): name: Not text"),
    ({"flags": [{"key": "a", "name": "\x00"}]}, "flags[0] (a): name: Null"),
    ({"flags": [{"key": "a", "tags": "x"}]}, "flags[0] (a): tags: A list"),
    ({"flags": [{"key": "a", "tags": [1]}]}, "flags[0] (a): tags: Not text"),
    ({"flags": [{"key": "a", "tags": [" "]}]}, "flags[0] (a): tags: "),
    ({"flags": [{"key": "a", "evaluation_runtime": "moon"}]}, "runtime: One of these"),
    ({"flags": [{"key": "a", "evaluation_runtime": FromEnv("X")}]}, "runtime: One of these"),
    ({"flags": [{"key": "a", "has_encrypted_payloads": True}]}, "means nothing here"),
    ({"flags": [{"key": "a", "filters": {"payloads": {"true": FromEnv("X")}}}]}, "`!env`"),
    ({"flags": [{"key": "a", "filters": {"\ud800": 1}}]}, "flags[0] (a): filters: Surrogate"),
    ({"flags": [{"key": "a"}, {"key": "b"}, {"key": "a"}]}, "flags[2] (a): flags[0] (a) is"),
]


@pytest.mark.parametrize(("value", "complaint"), WRONG_SHAPES)
def test_what_is_no_document_is_refused_by_place(value: Any, complaint: str) -> None:
    with pytest.raises(Invalid) as caught:
        parsed(value)
    assert complaint in f"{caught.value.attr}: {caught.value.detail}"


TWO = "Twice"
AT = "flags[1] (f): filters.groups[0].properties[0]"
WRONG_FILTERS: list[tuple[Any, str]] = [
    (None, "flags[1] (f): filters: "),
    ({}, "flags[1] (f): filters.groups: A flag needs"),
    ({"groups": 5}, "flags[1] (f): filters.groups: "),
    (of_groups({}, multivariate=5), "flags[1] (f): filters.multivariate: "),
    (of_groups({"rollout_percentage": 101}), "filters.groups[0].rollout_percentage: "),
    (asking(prop("age", "x", "gt")), f"{AT}.value: A number is required."),
    (asking(5), f"{AT}: "),  # type: ignore[arg-type]
    (asking(in_cohort("Nobody")), f'{AT}.value: There is no cohort "Nobody" in this project'),
    (asking(in_cohort("7")), f'{AT}.value: There is no cohort "7" in this project'),
    (asking(in_cohort(404)), f"{AT}.value: Cohort 404 does not exist."),
    (asking(in_cohort("Twice")), f'{AT}.value: 2 cohorts are called "Twice"'),
    (asking(by_key("nobody")), f'{AT}.key: There is no flag "nobody", neither in the file'),
    (asking(by_key("off")), f"{AT}.key: The flag off is not active."),
    (asking(by_key("f")), "flags[1] (f): A flag cannot depend on itself"),
    (asking(by_key(404)), f"{AT}.key: There is no active flag with the id 404."),
    (asking(by_key("first", "no-variant")), f"{AT}.value: True, false or a variant"),
    (asking(group_prop("moon", "a", "b")), f'{AT}.group_type_index: There is no group type "moon"'),  # type: ignore[arg-type]
    (of_groups({}, aggregation_group_type_index="moon"), "filters.aggregation_group_type_index: "),
]


@pytest.mark.parametrize(("filters", "complaint"), WRONG_FILTERS)
def test_filters_are_checked_by_the_rules_and_refused_by_place(
    filters: Any, complaint: str
) -> None:
    store = Store(
        a_flag(EVERYBODY, 1, key="off", active=False),
        cohorts=[a_cohort(id, name=name) for id, name in ((7, "Testers"), (8, TWO), (9, TWO))],
        group_types={"company": 0},
    )
    wanted = of_flags({"key": "first"}, {"key": "f", "filters": filters})
    assert complaint in refused(store, wanted)


def test_a_circle_is_refused_where_it_is() -> None:
    wanted = of_flags(
        {"key": "outside", "filters": asking(by_key("a"))},
        {"key": "a", "filters": asking(by_key("b"))},
        {"key": "b", "filters": asking(by_key("a"))},
    )
    assert refused(Store(), wanted).startswith("flags[1] (a): A flag cannot depend on itself")


def test_a_circle_through_a_flag_that_is_not_in_the_document_is_refused() -> None:
    store = Store(a_flag(EVERYBODY, 1, key="a"), a_flag(asking(depends_on(1)), 2, key="b"))
    complaint = refused(store, of_flags({"key": "a", "filters": asking(by_key("b"))}))
    assert "flags[0] (a): filters.groups[0].properties[0].key: A flag cannot depend" in complaint


def test_nonsense_in_one_flag_is_named_before_another_asks_about_it() -> None:
    wanted = of_flags(
        {"key": "child", "filters": asking(by_key("base", "a"))},
        {"key": "base", "filters": {"groups": 7, "multivariate": 5}},
    )
    assert "flags[1] (base): filters.groups: " in refused(Store(), wanted)


def test_settings_that_exclude_each_other_are_refused() -> None:
    both = {"bucketing_identifier": "device_id", "ensure_experience_continuity": True}
    complaint = refused(Store(), of_flags({"key": "f", **both}))
    assert complaint.startswith("flags[0] (f): bucketing_identifier: A flag that counts")


def needy_store(**fields: Any) -> Store:
    return Store(
        a_flag(of_groups({}, multivariate=variants(a=100)), 1, key="base"),
        a_flag(asking(depends_on(1, "a")), 2, key="child", **fields),
    )


@pytest.mark.parametrize("base", [{"key": "base", "active": False}, {"key": "base"}])
def test_what_others_depend_on_cannot_be_taken_away(base: dict[str, Any]) -> None:
    said = refused(needy_store(), of_flags(base))
    assert said.startswith("child, which is not in the file: It depends on base, which must stay")
    child = {"key": "child", "filters": asking(by_key("base", "a"))}
    complaint = refused(needy_store(), of_flags(base, child))
    assert complaint.startswith("flags[1] (child): It depends on base")
    assert planned(needy_store(active=False), of_flags(base)).changed


def test_what_is_pruned_must_not_be_needed() -> None:
    child = {"key": "child", "filters": asking(by_key("base", "a"))}
    with pytest.raises(Invalid, match="There is no flag"):
        planned(
            needy_store(), of_flags({"key": "new", "filters": asking(by_key("base"))}), prune=True
        )
    assert "It depends on base" in refused(needy_store(), of_flags(child), prune=True)


def test_a_project_has_room_for_so_many() -> None:
    store = Store(*(a_flag(EVERYBODY, id) for id in range(1, MAX_FLAGS + 1)))
    assert "at most" in refused(store, of_flags({"key": "one-more"}))
    assert len(planned(store, of_flags({"key": "one-more"}), prune=True).deleted) == MAX_FLAGS


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["groups", "properties", "type", "key", "value", "variants", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(database=None, deadline=None, max_examples=300)
@given(first=JSON, second=JSON)
def test_whatever_the_filters_are_the_answer_is_a_plan_or_a_place(first: Any, second: Any) -> None:
    wanted = of_flags(
        {"key": "a", "filters": {"groups": first, "multivariate": second}},
        {"key": "b", "filters": asking(by_key("a", "x"))},
        {"key": "c", "filters": first},
    )
    places = []
    try:
        planned(Store(), wanted)
    except Invalid as error:
        places.append(error.attr or "")
    assert all(place.startswith("flags[") for place in places)


FILTERS = st.sampled_from(
    [
        prop("country", ["DE"]),
        prop("age", 40, "gt"),
        prop("seen", "-7d", "is_date_after"),
        in_cohort(7),
        in_cohort("8", "not_in"),
        depends_on(1, "a"),
        depends_on(2, False),
    ]
)
GROUPS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "properties": st.lists(FILTERS, max_size=3),
            "rollout_percentage": st.none() | st.integers(0, 100) | st.just(33.3),
            "x": JSON,
        },
    ),
    min_size=1,
    max_size=3,
)


@settings(database=None, deadline=None, max_examples=200)
@given(
    groups=st.lists(GROUPS, max_size=3),
    fields=st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
            "active": st.booleans(),
            "tags": st.lists(st.sampled_from(["1", "yes", "a: b", "ü"]), unique=True).map(tuple),
            "bucketing_identifier": st.sampled_from(Bucketing),
        },
    ),
)
def test_any_project_comes_out_and_goes_in_unchanged_here_and_elsewhere(
    groups: Any, fields: Any
) -> None:
    cohorts = [a_cohort(7, name="Seven"), a_cohort(8, name="8")]
    base = [
        a_flag(of_groups({}, multivariate=variants(a=100)), 1, key="base"),
        a_flag(EVERYBODY, 2, key="1"),
    ]
    around = Surroundings(
        cohorts={cohort.id: cohort for cohort in cohorts},
        flags={flag.id: flag for flag in base},
        own_id=None,
    )
    flags = [
        a_flag(checked_filters({"groups": each}, around), number, **fields)
        for number, each in enumerate(groups, 10)
    ]
    here = Store(*base, *flags, cohorts=cohorts)
    out = decode(encode(document(here).document))
    assert planned(here, out, prune=True).is_empty
    there = Store(cohorts=[a_cohort(70, name="8"), a_cohort(80, name="Seven")])
    applied(there, out)
    assert planned(there, out, prune=True).is_empty
    assert composed(asyncio.run(there.definitions(PROJECT, ""))).document == out
