from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pytest

from hedgerow.pipelines.catalogue import Broken, Catalogue, load_components
from hedgerow.pipelines.component import Component, SettingField
from hedgerow.pipelines.components import BUILT_IN
from hedgerow.pipelines.model import ComponentId, Family
from tests.unit.pipelines.world import BAR, HOOK


@dataclass(frozen=True)
class Point:
    """An entry point that gives what a test says."""

    name: str
    gives: Callable[[], object]

    def load(self) -> object:
        return self.gives()


def fails(error: BaseException) -> Callable[[], NoReturn]:
    def load() -> NoReturn:
        raise error

    return load


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def another(key: str) -> Component:
    return replace(HOOK, key=key)


GOOD = Point("good", lambda: HOOK)


@pytest.mark.parametrize(
    "offered",
    [
        HOOK,
        lambda: HOOK,
        [HOOK],
        (HOOK,),
        lambda: [HOOK],
        lambda: iter([HOOK]),
    ],
    ids=["one", "function", "list", "tuple", "function of list", "function of iterator"],
)
def test_every_documented_form_gives_its_components(offered: object) -> None:
    assert load_components([Point("p", lambda: offered)]) == ([HOOK], [])


def test_nothing_offered_is_nothing_broken() -> None:
    assert load_components([]) == ([], [])
    assert load_components([Point("empty", lambda: [])]) == ([], [])


@pytest.mark.parametrize(
    ("gives", "reason"),
    [
        (fails(ImportError("no module")), "ImportError: no module"),
        (fails(SyntaxError("bad")), "SyntaxError: bad"),
        (fails(SystemExit(3)), "SystemExit: 3"),
        (fails(RecursionError("deep")), "RecursionError: deep"),
        (lambda: fails(ZeroDivisionError("by zero")), "ZeroDivisionError: by zero"),
        (lambda: None, "TypeError: not a Component: None"),
        (lambda: 5, "TypeError: not a Component: 5"),
        (lambda: "text", "TypeError: not a Component: 't'"),
        (lambda: [None], "TypeError: not a Component: None"),
        (lambda: lambda needed: HOOK, "TypeError: "),
        (lambda: another("hedgerow/webhook"), "ValueError: the key hedgerow/webhook is taken"),
        (lambda: another("Not A Key"), "ValueError: a component's key is"),
    ],
)
def test_a_broken_package_is_named_with_its_reason_and_the_others_stay(
    gives: Callable[[], object], reason: str
) -> None:
    points = [Point("bad", gives), GOOD]
    components, broken = load_components(points)
    assert components == [HOOK]
    assert [entry.name for entry in broken] == ["bad"]
    assert broken[0].reason.startswith(reason)
    assert load_components(reversed(points)) == (components, broken)


def test_an_error_without_words_does_not_stop_the_others() -> None:
    components, broken = load_components([Point("bad", fails(Unspeakable())), GOOD])
    assert components == [HOOK]
    assert "Unspeakable" in broken[0].reason


def test_the_first_to_use_a_key_keeps_it() -> None:
    late = replace(HOOK, name="Late")
    components, broken = load_components([GOOD, Point("late", lambda: late)])
    assert components == [HOOK]
    assert broken == [Broken(name="late", reason="ValueError: the key acme/hook is taken")]


def test_somebody_at_the_keyboard_can_still_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        load_components([Point("slow", fails(KeyboardInterrupt()))])


def test_the_catalogue_begins_with_the_built_in_ones_and_lists_by_number() -> None:
    catalogue = Catalogue()
    assert [listed.id for listed in catalogue.of_family(None)] == sorted(BUILT_IN)
    broken = [Broken(name="bad", reason="why")]
    catalogue.add({"acme/hook": ComponentId(1000), "gone": ComponentId(1001)}, [HOOK], broken)
    assert catalogue.of_family(None)[-1].component is HOOK
    assert catalogue.component(ComponentId(1000)) is HOOK
    assert catalogue.component(ComponentId(1001)) is None
    assert catalogue.broken == tuple(broken)
    for family in Family:
        assert {each.component.family for each in catalogue.of_family(family)} == {family}


@pytest.mark.parametrize("component", BUILT_IN.values(), ids=lambda component: component.key)
def test_a_built_in_component_is_complete(component: Component) -> None:
    assert component.description
    assert component.key.startswith("hedgerow/")
    assert (component.script is not None) is (component.family is Family.FRONTEND_APP)
    assert len([job for job in component.jobs if job.is_default]) <= 1
    for field in component.settings:
        assert field.name
        assert (field.type == "choice") is bool(field.choices)
        assert field.default is None or not field.choices or field.default in field.choices


TWO_OF_A_KEY = (SettingField(key="a", name="A"), SettingField(key="a", name="B"))
SECRET_ON_PAGES = (SettingField(key="a", name="A", secret=True, site=True),)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"key": ""}, "key"),
        ({"key": "Upper"}, "key"),
        ({"key": "a b"}, "key"),
        ({"key": "a\n"}, "key"),
        ({"key": "a" * 101}, "key"),
        ({"key": "/a"}, "key"),
        ({"name": ""}, "needs a name"),
        ({"version": ""}, "needs a name and a version"),
        ({"settings": TWO_OF_A_KEY}, "two settings of one key"),
        ({"settings": SECRET_ON_PAGES}, "no page may see it"),
    ],
)
def test_a_component_that_makes_no_sense_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(HOOK, **wrong)


@pytest.mark.parametrize("family", ["destination", "nonsense", None, 5])
def test_a_family_of_the_wrong_type_never_enters_the_catalogue(family: Any) -> None:
    """Whatever is in the catalogue can be listed with the others."""
    offered = Point("odd", lambda: replace(HOOK, key="acme/odd", family=family))
    components, _ = load_components([offered, GOOD])
    assert HOOK in components
    assert all(isinstance(component.family, Family) for component in components)


def test_a_component_knows_its_secrets_default_job_and_capabilities() -> None:
    assert HOOK.secret_keys == {"token", "headers"}
    assert HOOK.default_job is HOOK.jobs[1]
    assert BAR.default_job is None
    assert HOOK.capabilities == {
        "methods": ["onEvent"],
        "jobs": ["replay", "test"],
        "scheduled_tasks": [],
    }
    assert BAR.capabilities == {"jobs": []}
