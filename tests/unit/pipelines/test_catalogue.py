from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pytest

from hedgerow.pipelines.builtin import BUILTIN_COMPONENTS
from hedgerow.pipelines.catalogue import BrokenPackage, Catalogue, load_components
from hedgerow.pipelines.model import ComponentId
from hedgerow.plugin.component import Component, Family, SettingField
from tests.unit.pipelines.sample_components import BAR, HOOK


@dataclass(frozen=True)
class EntryPoint:
    """An entry point that loads the value of `value_factory`."""

    name: str
    value_factory: Callable[[], object]

    def load(self) -> object:
        return self.value_factory()


def raise_error(error: BaseException) -> Callable[[], NoReturn]:
    def load() -> NoReturn:
        raise error

    return load


class UnformattableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def with_key(key: str) -> Component:
    return replace(HOOK, key=key)


GOOD = EntryPoint("good", lambda: HOOK)


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
def test_every_documented_entry_point_is_loaded(offered: object) -> None:
    assert load_components([EntryPoint("p", lambda: offered)]) == ([HOOK], [])


def test_empty_list_is_not_an_error() -> None:
    assert load_components([]) == ([], [])
    assert load_components([EntryPoint("empty", lambda: [])]) == ([], [])


@pytest.mark.parametrize(
    ("value_factory", "reason"),
    [
        (raise_error(ImportError("no module")), "ImportError: no module"),
        (raise_error(SyntaxError("bad")), "SyntaxError: bad"),
        (raise_error(SystemExit(3)), "SystemExit: 3"),
        (raise_error(RecursionError("deep")), "RecursionError: deep"),
        (lambda: raise_error(ZeroDivisionError("by zero")), "ZeroDivisionError: by zero"),
        (lambda: None, "TypeError: expected a Component, not None"),
        (lambda: 5, "TypeError: expected a Component, not 5"),
        (lambda: "text", "TypeError: expected a Component, not 't'"),
        (lambda: [None], "TypeError: expected a Component, not None"),
        (lambda: lambda needed: HOOK, "TypeError: "),
        (
            lambda: with_key("hedgerow/webhook"),
            "ValueError: the key hedgerow/webhook is already in use",
        ),
        (lambda: with_key("Not A Key"), "ValueError: Invalid component key"),
    ],
)
def test_broken_package_is_listed_with_its_error_and_the_others_load(
    value_factory: Callable[[], object], reason: str
) -> None:
    points = [EntryPoint("bad", value_factory), GOOD]
    components, broken = load_components(points)
    assert components == [HOOK]
    assert [entry.name for entry in broken] == ["bad"]
    assert broken[0].reason.startswith(reason)
    assert load_components(reversed(points)) == (components, broken)


def test_error_that_cannot_be_formatted_affects_no_other_package() -> None:
    components, broken = load_components(
        [EntryPoint("bad", raise_error(UnformattableError())), GOOD]
    )
    assert components == [HOOK]
    assert "UnformattableError" in broken[0].reason


def test_first_component_with_a_key_keeps_it() -> None:
    late = replace(HOOK, name="Late")
    components, broken = load_components([GOOD, EntryPoint("late", lambda: late)])
    assert components == [HOOK]
    assert broken == [
        BrokenPackage(name="late", reason="ValueError: the key acme/hook is already in use")
    ]


def test_ctrl_c_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        load_components([EntryPoint("slow", raise_error(KeyboardInterrupt()))])


def test_catalogue_lists_builtin_components_by_id() -> None:
    catalogue = Catalogue()
    assert [listed.id for listed in catalogue.list_components(None)] == sorted(BUILTIN_COMPONENTS)
    broken = [BrokenPackage(name="bad", reason="why")]
    catalogue.add({"acme/hook": ComponentId(1000), "gone": ComponentId(1001)}, [HOOK], broken)
    assert catalogue.list_components(None)[-1].component is HOOK
    assert catalogue.component(ComponentId(1000)) is HOOK
    assert catalogue.component(ComponentId(1001)) is None
    assert catalogue.broken == tuple(broken)
    for family in Family:
        assert {each.component.family for each in catalogue.list_components(family)} == {family}


@pytest.mark.parametrize(
    "component", BUILTIN_COMPONENTS.values(), ids=lambda component: component.key
)
def test_built_in_component_is_complete(component: Component) -> None:
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
        ({"settings": TWO_OF_A_KEY}, "two settings with the same key"),
        ({"settings": SECRET_ON_PAGES}, "cannot be a site setting"),
    ],
)
def test_invalid_component_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(HOOK, **wrong)


@pytest.mark.parametrize("family", ["destination", "nonsense", None, 5])
def test_family_of_the_wrong_type_is_refused(family: Any) -> None:
    """Every component in the catalogue can be listed with the others."""
    offered = EntryPoint("odd", lambda: replace(HOOK, key="acme/odd", family=family))
    components, _ = load_components([offered, GOOD])
    assert HOOK in components
    assert all(isinstance(component.family, Family) for component in components)


def test_component_has_secrets_default_job_and_capabilities() -> None:
    assert HOOK.secret_keys == {"token", "headers"}
    assert HOOK.default_job is HOOK.jobs[1]
    assert BAR.default_job is None
    assert HOOK.capabilities == {
        "methods": ["onEvent"],
        "jobs": ["replay", "test"],
        "scheduled_tasks": [],
    }
    assert BAR.capabilities == {"jobs": []}
