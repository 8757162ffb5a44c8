"""The built-in transformations, and chains of transformations."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.pipelines.builtin import BUILTIN_COMPONENTS
from hedgerow.pipelines.builtin.transformations.mask_ip import mask_address
from hedgerow.pipelines.event_filters import check_settings, compile_transformation_filter
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.pipelines.transformations.chain import (
    MAX_REASONS,
    REASON_MAX,
    ChainStep,
    TransformationChain,
    TransformationCounts,
    fail_always,
    guard_transform,
)
from hedgerow.pipelines.transformations.user_agents import parse_user_agent
from hedgerow.plugin.component import Family
from hedgerow.plugin.transform import IncomingEvent, Transform, TransformError
from tests.unit.fake_time import START
from tests.unit.generated import bounded
from tests.unit.pipelines.sample_components import CIPHER

KEYS = {component.key: component for component in BUILTIN_COMPONENTS.values()}
BUILTIN_TRANSFORMATIONS = [
    each for each in BUILTIN_COMPONENTS.values() if each.family is Family.TRANSFORMATION
]
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
# Settings with which each transformation has an effect.
SETTINGS: dict[str, dict[str, Any]] = {
    "hedgerow/drop-events": {"events": ["seen"]},
    "hedgerow/rename-properties": {"names": {"a": "b"}},
    "hedgerow/remove-properties": {"names": ["a", "$set.a"]},
    "hedgerow/hash-properties": {"names": ["a", "$set.a"], "salt": "s"},
    "hedgerow/mask-ip": {},
    "hedgerow/user-agent": {},
    "hedgerow/bot-filter": {},
}


def event(properties: dict[str, Any] | None = None, name: str = "seen") -> IncomingEvent:
    return IncomingEvent(
        uuid="u",
        event=name,
        distinct_id="ann",
        properties=properties or {},
        timestamp=START,
        accepted_at=START,
    )


def make_transform(key: str, **settings: Any) -> Transform:
    """Build the transformation like from a record: with checked settings and defaults."""
    component = KEYS[f"hedgerow/{key}"]
    check_settings(component, settings, CIPHER)
    assert component.transform is not None
    defaults = {field.key: field.default for field in component.settings}
    return component.transform({**defaults, **settings})


def properties_after(transform: Transform, **properties: Any) -> Mapping[str, Any] | None:
    before = event(dict(properties))
    result = transform(before)
    assert before.properties == properties, "a transformation must not mutate its input"
    return None if result is None else result.properties


def settings_error(key: str, **settings: Any) -> tuple[str | None, str]:
    with pytest.raises(Invalid) as raised:
        check_settings(KEYS[f"hedgerow/{key}"], settings, CIPHER)
    return raised.value.attr, raised.value.detail


def test_top_level_and_person_properties_are_removed() -> None:
    remove = make_transform(
        "remove-properties", names=["email", "$set.email", "$set_once.email", "a.b"]
    )
    properties = {"email": 1, "$set": {"email": 2, "plan": 3}, "$set_once": {"email": 4}, "a.b": 5}
    assert properties_after(remove, **properties) == {"$set": {"plan": 3}, "$set_once": {}}
    assert properties["$set"] == {"email": 2, "plan": 3}
    assert properties_after(remove, **{"a": {"b": 1}, "$set": "no object"}) == {
        "a": {"b": 1},
        "$set": "no object",
    }
    untouched = event({"other": 1})
    assert remove(untouched) is untouched


def test_all_properties_can_be_removed() -> None:
    assert properties_after(make_transform("remove-properties", names=["a", "b"]), a=1, b=2) == {}


def test_properties_are_renamed_without_loss() -> None:
    rename = make_transform("rename-properties", names={"a": "b", "$set.mail": "$set.email"})
    assert properties_after(rename, a=1, c=2) == {"b": 1, "c": 2}
    assert properties_after(rename, **{"$set": {"mail": "m"}}) == {"$set": {"email": "m"}}
    assert properties_after(rename, a=1, b=2) == {"a": 1, "b": 2}
    swap = make_transform("rename-properties", names={"a": "b", "b": "a"})
    assert properties_after(swap, a=1, b=2) == {"a": 2, "b": 1}
    untouched = event({"b": 1, "c": None})
    assert rename(untouched) is untouched


def test_hashes_are_the_same_for_the_same_value_and_salt() -> None:
    hash_it = make_transform("hash-properties", names=["email", "$set.email"], salt="pepper")
    result = properties_after(
        hash_it, email="ann@example.com", **{"$set": {"email": "ann@example.com"}}
    )
    assert result is not None
    # printf ann@example.com | openssl dgst -sha256 -hmac pepper
    expected = "cea0615277db22b071c78ce70a4863989eee4f315e2224a79e29b3cf4055b7bf"
    assert result["email"] == result["$set"]["email"] == expected
    other = properties_after(
        make_transform("hash-properties", names=["email"], salt="salt"), email="ann@example.com"
    )
    assert other is not None
    assert other["email"] != result["email"]
    assert properties_after(hash_it, email=None) == {"email": None}
    numbers = [properties_after(hash_it, email=value) for value in (1, "1", [1], {"a": 1})]
    assert len({str(each) for each in numbers}) == 3, "1 and its text are one value"


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("192.0.2.77", "192.0.2.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ("::ffff:192.0.2.77", "192.0.2.0"),
        ("fe80::1%eth0", "fe80::"),
        ("192.0.2.0", "192.0.2.0"),
        ("192.0.2.77:80", None),
        ("unknown", None),
        ("", None),
    ],
)
def test_addresses_are_masked(address: str, masked: str | None) -> None:
    assert mask_address(address) == masked
    result = properties_after(make_transform("mask-ip"), **{"$ip": address, "a": 1})
    assert result == ({"a": 1} if masked is None else {"$ip": masked, "a": 1})
    assert properties_after(
        make_transform("mask-ip", mode="remove"), **{"$ip": address, "a": 1}
    ) == {"a": 1}


@pytest.mark.parametrize(
    ("user_agent", "expected"),
    [
        (FIREFOX, ("Firefox", "Linux", "Desktop")),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, "
            "like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
            ("Mobile Safari", "iOS", "Mobile"),
        ),
        (
            "Mozilla/5.0 (iPad; CPU OS 16_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
            "Gecko) CriOS/120.0.6099.119 Mobile/15E148 Safari/604.1",
            ("Chrome iOS", "iOS", "Tablet"),
        ),
        (
            "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/124.0.0.0 Mobile Safari/537.36",
            ("Chrome", "Android", "Mobile"),
        ),
        (
            "Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/124.0.0.0 Safari/537.36",
            ("Chrome", "Android", "Tablet"),
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/124.0.0.0 Safari/537.36 Edg/124.0.0.0",
            ("Microsoft Edge", "Windows", "Desktop"),
        ),
        ("not a browser", ("", "", "")),
    ],
)
def test_user_agent_fills_missing_properties(
    user_agent: str, expected: tuple[str, str, str]
) -> None:
    names = ("$browser", "$os", "$device_type")
    found = {name: value for name, value in zip(names, expected, strict=True) if value}
    add_properties = make_transform("user-agent")
    assert properties_after(add_properties, **{"$user_agent": user_agent}) == {
        "$user_agent": user_agent,
        **found,
    }
    given_properties = {
        "$raw_user_agent": user_agent,
        "$browser": None,
        "$os": "Plan 9",
        "$device_type": "",
    }
    assert properties_after(add_properties, **given_properties) == given_properties


def test_bots_are_dropped_or_marked() -> None:
    drop, mark = (
        make_transform("bot-filter", words=["ACME"]),
        make_transform("bot-filter", action="mark"),
    )
    for bot in (GOOGLEBOT, "curl/8.5.0", "Mozilla/5.0 HeadlessChrome/120 Safari/537.36"):
        assert properties_after(drop, **{"$raw_user_agent": bot}) is None
        assert properties_after(mark, **{"$raw_user_agent": bot}) == {
            "$raw_user_agent": bot,
            "$is_bot": True,
        }
    assert properties_after(drop, **{"$user_agent": "acme probe"}) is None
    assert not parse_user_agent("acme probe").is_bot
    for person in ({"$raw_user_agent": FIREFOX}, {}, {"$raw_user_agent": 5}):
        assert properties_after(drop, **person) == person


def test_filters_choose_by_name_and_property_and_by_when_the_event_was_accepted() -> None:
    chosen = compile_transformation_filter(
        {"events": ["seen", "done"], "properties": [{"key": "n", "operator": "gt", "value": 5}]}
    )
    assert chosen is not None
    assert chosen(event({"n": 6}, "done"))
    assert not chosen(event({"n": 5}, "done"))
    assert not chosen(event({"n": 6}, "other"))
    assert not chosen(event({}, "done"))
    since = {"key": "at", "operator": "is_date_after", "value": "-1d"}
    recent = compile_transformation_filter({"properties": [since]})
    assert recent is not None
    assert recent(event({"at": START.isoformat()}))
    assert compile_transformation_filter({}) is None


def test_harmful_settings_are_refused() -> None:
    names = "config__names"
    assert settings_error("drop-events") == (
        "config__events",
        "Event names or property filters are required.",
    )
    person = [{"key": "plan", "value": "x", "type": "person"}]
    assert settings_error("drop-events", properties=person) == (
        "config__properties.0.type",
        "Unsupported property type. Expected properties of the event.",
    )
    assert settings_error("remove-properties", names=[])[0] == names
    assert settings_error("remove-properties", names=["", 5])[0] == names
    assert settings_error("rename-properties", names=["a"])[0] == names
    assert settings_error("rename-properties", names={"a": ""})[0] == names
    twice = settings_error("rename-properties", names={"a": "c", "b": "c"})
    assert twice == (names, "Two properties cannot get the same name.")
    assert settings_error("hash-properties", names=["a"]) == (
        "config__salt",
        "This field is required.",
    )
    assert settings_error("bot-filter", words="curl")[0] == "config__words"
    assert settings_error("bot-filter", words=[""])[0] == "config__words"


# --- chains ---


def raise_key_error(_: IncomingEvent) -> IncomingEvent:
    raise KeyError("a secret detail")


def raise_system_exit(_: IncomingEvent) -> IncomingEvent:
    raise SystemExit(3)


def set_property(name: str, value: Any) -> Transform:
    return lambda each: each.with_properties({**each.properties, name: value})


def chain(*transforms: Transform) -> tuple[TransformationChain, list[TransformationCounts]]:
    result = TransformationChain(
        [ChainStep(record_id=RecordId(n), transform=t) for n, t in enumerate(transforms, 1)]
    )
    return result, result.new_counts()


def counts(all_counts: list[TransformationCounts]) -> list[tuple[int, int, int, int]]:
    return [(each.matched, each.changed, each.dropped, each.failed) for each in all_counts]


def test_each_step_gets_the_result_of_the_previous_one() -> None:
    steps, all_counts = chain(
        set_property("a", 1),
        make_transform("rename-properties", names={"a": "b"}),
        set_property("c", 3),
    )
    result = steps.apply(event(), all_counts, perf_counter)
    assert result is not None
    assert result.properties == {"b": 1, "c": 3}
    assert counts(all_counts) == [(1, 1, 0, 0)] * 3


@pytest.mark.parametrize("before", [0, REASON_MAX - 20])
def test_reasons_hide_the_secrets_of_the_record(before: int) -> None:
    """Also a secret that is cut at the end of the reason."""
    secret = "a-salt-that-nobody-may-see"

    def fail(_: IncomingEvent) -> IncomingEvent:
        raise TransformError("." * before + f"hashed with {secret}.")

    steps = TransformationChain(
        [ChainStep(record_id=RecordId(1), transform=fail, mask=SecretMask([secret]))]
    )
    [count] = steps.new_counts()
    steps.apply(event(), [count], perf_counter)
    assert count.failed == 1
    assert count.error.startswith("." * before + "hashed ")
    assert "a-salt" not in count.error


def test_dropped_event_skips_the_other_steps() -> None:
    steps, all_counts = chain(set_property("a", 1), lambda _: None, raise_key_error)
    assert steps.apply(event(), all_counts, perf_counter) is None
    assert counts(all_counts) == [(1, 1, 0, 0), (1, 0, 1, 0), (0, 0, 0, 0)]


def test_failing_step_is_skipped() -> None:
    steps, all_counts = chain(
        raise_key_error, set_property("a", 1), raise_system_exit, fail_always("salt: missing")
    )
    result = steps.apply(event(), all_counts, perf_counter)
    assert result is not None
    assert result.properties == {"a": 1}
    assert counts(all_counts) == [(1, 0, 0, 1), (1, 1, 0, 0), (1, 0, 0, 1), (1, 0, 0, 1)]
    assert [each.error for each in all_counts] == [
        "The component failed: KeyError",
        "",
        "The component failed: SystemExit",
        "salt: missing",
    ]
    assert all_counts[0].reasons == {"The component failed: KeyError": "u"}


def test_number_of_reasons_is_limited() -> None:
    def raise_unique_error(each: IncomingEvent) -> IncomingEvent:
        raise TransformError(f"for {each.properties['n']}")

    steps, (counts,) = chain(raise_unique_error)
    for number in range(100):
        steps.apply(event({"n": number}), [counts], perf_counter)
    assert (counts.failed, len(counts.reasons)) == (100, MAX_REASONS)


def mutate_and_raise(each: IncomingEvent) -> IncomingEvent:
    each.properties["$set"]["plan"] = "changed"
    raise ValueError("too late")


@pytest.mark.parametrize(
    ("transform", "error"),
    [
        (mutate_and_raise, "The component failed: ValueError"),
        (lambda _: {"event": "seen"}, "The component returned something that is not an event"),
        (
            lambda each: each.with_properties([1]),
            "The component returned something that is not an event",
        ),
        (lambda each: each.with_properties({"a": object()}), "The component failed: TypeError"),
        (
            lambda _: event(name="x" * 201),
            "The component returned an event name without 1 to 200 characters",
        ),
        (
            lambda _: event(name=5),  # type: ignore[arg-type]
            "The component returned an event name without 1 to 200 characters",
        ),
        (
            set_property("a", "x" * 1_000_001),
            "The component returned an event that is too large to store",
        ),
    ],
)
def test_results_of_packages_are_checked(transform: Any, error: str) -> None:
    steps, (counts,) = chain(guard_transform(transform))
    before = event({"$set": {"plan": "free"}})
    assert steps.apply(before, [counts], perf_counter) is before
    assert before.properties == {"$set": {"plan": "free"}}
    assert (counts.failed, counts.error) == (1, error)


def test_package_can_change_only_name_and_properties() -> None:
    def change(each: IncomingEvent) -> IncomingEvent:
        properties = {**each.properties, "nul\x00": float("nan"), "n": 1}
        return IncomingEvent(
            uuid="other",
            event="renamed",
            distinct_id="other",
            properties=properties,
            timestamp=START,
            accepted_at=START,
        )

    result = guard_transform(change)(event({"a": 1}))
    assert result == IncomingEvent(
        uuid="u",
        event="renamed",
        distinct_id="ann",
        properties={"a": 1, "nul�": None, "n": 1},
        timestamp=START,
        accepted_at=START,
    )
    same = event({"a": {"b": [1]}})
    assert guard_transform(lambda each: each)(same) is same


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
names = st.sampled_from(["a", "b", "$set", "$set_once", "$ip", "$raw_user_agent", "$browser"])


@bounded
@given(properties=st.dictionaries(names, values))
def test_builtin_transformations_never_fail_and_are_deterministic(
    properties: dict[str, Any],
) -> None:
    for component in BUILTIN_TRANSFORMATIONS:
        name = component.key.removeprefix("hedgerow/")
        steps, (counts,) = chain(make_transform(name, **SETTINGS[component.key]))
        once, again = (steps.apply(event(properties), [counts], perf_counter) for _ in range(2))
        assert once == again, name
        assert counts.failed == 0, (name, counts.reasons)
