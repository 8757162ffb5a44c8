"""Transformations, one by one and one after the other: what they make of events."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.pipelines.components import BUILT_IN
from hedgerow.pipelines.components.mask_ip import masked
from hedgerow.pipelines.filters import check_settings, concerns
from hedgerow.pipelines.model import Family, RecordId
from hedgerow.pipelines.transform import REASONS_TOLD, Chain, Step, Tally, failing, guarded
from hedgerow.pipelines.transforming import CannotTransform, Incoming, Transform
from hedgerow.pipelines.user_agents import known
from tests.unit.fake_time import START
from tests.unit.generated import bounded
from tests.unit.pipelines.world import SEALER

KEYS = {component.key: component for component in BUILT_IN.values()}
OURS = [each for each in BUILT_IN.values() if each.family is Family.TRANSFORMATION]
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
# Settings with which each does something.
SETTINGS: dict[str, dict[str, Any]] = {
    "hedgerow/drop-events": {"events": ["seen"]},
    "hedgerow/rename-properties": {"names": {"a": "b"}},
    "hedgerow/remove-properties": {"names": ["a", "$set.a"]},
    "hedgerow/hash-properties": {"names": ["a", "$set.a"], "salt": "s"},
    "hedgerow/mask-ip": {},
    "hedgerow/user-agent": {},
    "hedgerow/bot-filter": {},
}


def event(properties: dict[str, Any] | None = None, name: str = "seen") -> Incoming:
    return Incoming(
        uuid="u",
        event=name,
        distinct_id="ann",
        properties=properties or {},
        timestamp=START,
        accepted_at=START,
    )


def made(key: str, **settings: Any) -> Transform:
    """As it is made of a record: checked, and with defaults."""
    component = KEYS[f"hedgerow/{key}"]
    check_settings(component, settings, SEALER)
    assert component.transform is not None
    defaults = {field.key: field.default for field in component.settings}
    return component.transform({**defaults, **settings})


def after(transform: Transform, **properties: Any) -> Mapping[str, Any] | None:
    before = event(dict(properties))
    result = transform(before)
    assert before.properties == properties, "what is given is never changed"
    return None if result is None else result.properties


def refused(key: str, **settings: Any) -> tuple[str | None, str]:
    with pytest.raises(Invalid) as raised:
        check_settings(KEYS[f"hedgerow/{key}"], settings, SEALER)
    return raised.value.attr, raised.value.detail


def test_properties_are_removed_at_the_top_and_from_what_changes_the_person() -> None:
    remove = made("remove-properties", names=["email", "$set.email", "$set_once.email", "a.b"])
    given = {"email": 1, "$set": {"email": 2, "plan": 3}, "$set_once": {"email": 4}, "a.b": 5}
    assert after(remove, **given) == {"$set": {"plan": 3}, "$set_once": {}}
    assert given["$set"] == {"email": 2, "plan": 3}
    assert after(remove, **{"a": {"b": 1}, "$set": "no object"}) == {
        "a": {"b": 1},
        "$set": "no object",
    }
    untouched = event({"other": 1})
    assert remove(untouched) is untouched


def test_all_properties_can_go() -> None:
    assert after(made("remove-properties", names=["a", "b"]), a=1, b=2) == {}


def test_properties_are_renamed_and_none_is_lost() -> None:
    rename = made("rename-properties", names={"a": "b", "$set.mail": "$set.email"})
    assert after(rename, a=1, c=2) == {"b": 1, "c": 2}
    assert after(rename, **{"$set": {"mail": "m"}}) == {"$set": {"email": "m"}}
    assert after(rename, a=1, b=2) == {"a": 1, "b": 2}
    swap = made("rename-properties", names={"a": "b", "b": "a"})
    assert after(swap, a=1, b=2) == {"a": 2, "b": 1}
    untouched = event({"b": 1, "c": None})
    assert rename(untouched) is untouched


def test_hashes_are_the_same_for_the_same_value_and_salt() -> None:
    hash_it = made("hash-properties", names=["email", "$set.email"], salt="pepper")
    result = after(hash_it, email="ann@example.com", **{"$set": {"email": "ann@example.com"}})
    assert result is not None
    # printf ann@example.com | openssl dgst -sha256 -hmac pepper
    expected = "cea0615277db22b071c78ce70a4863989eee4f315e2224a79e29b3cf4055b7bf"
    assert result["email"] == result["$set"]["email"] == expected
    other = after(made("hash-properties", names=["email"], salt="salt"), email="ann@example.com")
    assert other is not None
    assert other["email"] != result["email"]
    assert after(hash_it, email=None) == {"email": None}
    numbers = [after(hash_it, email=value) for value in (1, "1", [1], {"a": 1})]
    assert len({str(each) for each in numbers}) == 3, "1 and its text are one value"


@pytest.mark.parametrize(
    ("given", "kept"),
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
def test_addresses_are_cut_short(given: str, kept: str | None) -> None:
    assert masked(given) == kept
    result = after(made("mask-ip"), **{"$ip": given, "a": 1})
    assert result == ({"a": 1} if kept is None else {"$ip": kept, "a": 1})
    assert after(made("mask-ip", mode="remove"), **{"$ip": given, "a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("user_agent", "told"),
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
def test_a_user_agent_tells_what_the_event_does_not(
    user_agent: str, told: tuple[str, str, str]
) -> None:
    names = ("$browser", "$os", "$device_type")
    found = {name: value for name, value in zip(names, told, strict=True) if value}
    tell = made("user-agent")
    assert after(tell, **{"$user_agent": user_agent}) == {"$user_agent": user_agent, **found}
    said = {"$raw_user_agent": user_agent, "$browser": None, "$os": "Plan 9", "$device_type": ""}
    assert after(tell, **said) == said


def test_bots_are_dropped_or_marked() -> None:
    drop, mark = made("bot-filter", words=["ACME"]), made("bot-filter", action="mark")
    for bot in (GOOGLEBOT, "curl/8.5.0", "Mozilla/5.0 HeadlessChrome/120 Safari/537.36"):
        assert after(drop, **{"$raw_user_agent": bot}) is None
        assert after(mark, **{"$raw_user_agent": bot}) == {"$raw_user_agent": bot, "$is_bot": True}
    assert after(drop, **{"$user_agent": "acme probe"}) is None
    assert not known("acme probe").is_bot
    for person in ({"$raw_user_agent": FIREFOX}, {}, {"$raw_user_agent": 5}):
        assert after(drop, **person) == person


def test_filters_choose_by_name_and_property_and_by_when_the_event_was_accepted() -> None:
    chosen = concerns(
        {"events": ["seen", "done"], "properties": [{"key": "n", "operator": "gt", "value": 5}]}
    )
    assert chosen is not None
    assert chosen(event({"n": 6}, "done"))
    assert not chosen(event({"n": 5}, "done"))
    assert not chosen(event({"n": 6}, "other"))
    assert not chosen(event({}, "done"))
    since = {"key": "at", "operator": "is_date_after", "value": "-1d"}
    recent = concerns({"properties": [since]})
    assert recent is not None
    assert recent(event({"at": START.isoformat()}))
    assert concerns({}) is None


def test_settings_that_would_do_harm_are_refused() -> None:
    names = "config__names"
    assert refused("drop-events") == ("config__events", "Name events or property filters to drop.")
    person = [{"key": "plan", "value": "x", "type": "person"}]
    assert refused("drop-events", properties=person) == (
        "config__properties.0.type",
        "Only properties of the event.",
    )
    assert refused("remove-properties", names=[])[0] == names
    assert refused("remove-properties", names=["", 5])[0] == names
    assert refused("rename-properties", names=["a"])[0] == names
    assert refused("rename-properties", names={"a": ""})[0] == names
    twice = refused("rename-properties", names={"a": "c", "b": "c"})
    assert twice == (names, "Two properties cannot get one name.")
    assert refused("hash-properties", names=["a"]) == ("config__salt", "This field is required.")
    assert refused("bot-filter", words="curl")[0] == "config__words"
    assert refused("bot-filter", words=[""])[0] == "config__words"


# --- one after the other ---


def raising(_: Incoming) -> Incoming:
    raise KeyError("a secret detail")


def leaving(_: Incoming) -> Incoming:
    raise SystemExit(3)


def put(name: str, value: Any) -> Transform:
    return lambda each: each.having({**each.properties, name: value})


def chain(*transforms: Transform) -> tuple[Chain, list[Tally]]:
    made = Chain([Step(record_id=RecordId(n), transform=t) for n, t in enumerate(transforms, 1)])
    return made, made.tallies()


def counts(tallies: list[Tally]) -> list[tuple[int, int, int, int]]:
    return [(each.seen, each.changed, each.dropped, each.failed) for each in tallies]


def test_each_gets_what_the_one_before_made() -> None:
    steps, tallies = chain(put("a", 1), made("rename-properties", names={"a": "b"}), put("c", 3))
    result = steps.passed(event(), tallies)
    assert result is not None
    assert result.properties == {"b": 1, "c": 3}
    assert counts(tallies) == [(1, 1, 0, 0)] * 3


def test_after_a_drop_nobody_is_asked() -> None:
    steps, tallies = chain(put("a", 1), lambda _: None, raising)
    assert steps.passed(event(), tallies) is None
    assert counts(tallies) == [(1, 1, 0, 0), (1, 0, 1, 0), (0, 0, 0, 0)]


def test_who_fails_leaves_the_event_to_the_others() -> None:
    steps, tallies = chain(raising, put("a", 1), leaving, failing("salt: missing"))
    result = steps.passed(event(), tallies)
    assert result is not None
    assert result.properties == {"a": 1}
    assert counts(tallies) == [(1, 0, 0, 1), (1, 1, 0, 0), (1, 0, 0, 1), (1, 0, 0, 1)]
    assert [each.error for each in tallies] == [
        "The component failed: KeyError",
        "",
        "The component failed: SystemExit",
        "salt: missing",
    ]
    assert tallies[0].reasons == {"The component failed: KeyError": "u"}


def test_many_reasons_are_not_all_kept() -> None:
    def unlike(each: Incoming) -> Incoming:
        raise CannotTransform(f"for {each.properties['n']}")

    steps, (tally,) = chain(unlike)
    for number in range(100):
        steps.passed(event({"n": number}), [tally])
    assert (tally.failed, len(tally.reasons)) == (100, REASONS_TOLD)


def mutating(each: Incoming) -> Incoming:
    each.properties["$set"]["plan"] = "changed"
    raise ValueError("too late")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (mutating, "The component failed: ValueError"),
        (lambda _: {"event": "seen"}, "The component answered with something that is no event"),
        (lambda each: each.having([1]), "The component answered with something that is no event"),
        (lambda each: each.having({"a": object()}), "The component failed: TypeError"),
        (lambda _: event(name="x" * 201), "An event's name has 1 to 200 characters"),
        (lambda _: event(name=5), "An event's name has 1 to 200 characters"),  # type: ignore[arg-type]
        (put("a", "x" * 1_000_001), "The component made the event too large to be stored"),
    ],
)
def test_what_somebody_else_answers_is_looked_at(answer: Any, error: str) -> None:
    steps, (tally,) = chain(guarded(answer))
    before = event({"$set": {"plan": "free"}})
    assert steps.passed(before, [tally]) is before
    assert before.properties == {"$set": {"plan": "free"}}
    assert (tally.failed, tally.error) == (1, error)


def test_somebody_else_changes_the_name_and_the_properties_and_nothing_besides() -> None:
    def change(each: Incoming) -> Incoming:
        properties = {**each.properties, "nul\x00": float("nan"), "n": 1}
        return Incoming(
            uuid="other",
            event="renamed",
            distinct_id="other",
            properties=properties,
            timestamp=START,
            accepted_at=START,
        )

    result = guarded(change)(event({"a": 1}))
    assert result == Incoming(
        uuid="u",
        event="renamed",
        distinct_id="ann",
        properties={"a": 1, "nul�": None, "n": 1},
        timestamp=START,
        accepted_at=START,
    )
    same = event({"a": {"b": [1]}})
    assert guarded(lambda each: each)(same) is same


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
names = st.sampled_from(["a", "b", "$set", "$set_once", "$ip", "$raw_user_agent", "$browser"])


@pytest.mark.parametrize("component", OURS, ids=lambda each: each.key)
@bounded
@given(properties=st.dictionaries(names, values))
def test_none_of_ours_fails_or_answers_differently_the_second_time(
    component: Any, properties: dict[str, Any]
) -> None:
    transform = made(component.key.removeprefix("hedgerow/"), **SETTINGS[component.key])
    steps, (tally,) = chain(transform)
    once, again = (steps.passed(event(properties), [tally]) for _ in range(2))
    assert once == again
    assert tally.failed == 0, tally.reasons
