"""Packages that were written before `hedgerow.plugin` work for one release, with warnings."""

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hedgerow import plugin
from hedgerow.pipelines.catalogue import load_components
from hedgerow.plugin.testing import (
    FakeHttp,
    deliver,
    make_context,
    make_event,
    make_import_context,
    make_incoming_event,
    make_settings,
    read_all,
    transform,
)

OLD_DESTINATION = (Path(__file__).parent / "old_style_destination.txt").read_text()

OLD_TRANSFORMATION = """
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import CannotTransform, Incoming

def make(settings):
    def transform(event):
        if "price" not in event.properties:
            raise CannotTransform("The event has no price")
        return event.having({**event.properties, "seen": isinstance(event, Incoming)})
    return transform

COMPONENT = Component(
    key="old/price", family=Family.TRANSFORMATION, name="Price", description="", version="1",
    settings=CONCERNED, transform=make, adopt=lambda origin, settings: {"from": origin.key},
)
"""

OLD_IMPORT = """
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components.fields import RUN_IMPORT, SCHEDULE
from hedgerow.pipelines.imports.model import BadRow, Portion, SourceRow
from hedgerow.pipelines.model import Family, FileMark, JobProblem

async def read(settings, cursor, around):
    value = await around.aside(lambda: 7)
    async with around.queried.rows(None) as portions:
        async for portion in portions:
            pass
    rows = [SourceRow(identity="1", place="line 1", values={"value": value})]
    bad = [BadRow(place="line 2", reason="It is empty.")]
    yield Portion(rows=rows, bad=bad, cursor=1, finished=[FileMark(name="a", version="b")])

async def reach(settings, around):
    raise JobProblem("There is no source.")

COMPONENT = Component(
    key="old/import", family=Family.IMPORT_APP, name="Import", description="", version="1",
    settings=(SCHEDULE,), jobs=(RUN_IMPORT,), read=read, reach=reach,
)
"""


class OldPackage:
    """The entry point of a package with this source."""

    name = "old"

    def __init__(self, source: str) -> None:
        self._source = source

    def load(self) -> object:
        module = ModuleType("old_package")
        exec(self._source, vars(module))
        return module.COMPONENT


def load(source: str) -> plugin.Component:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        (component,), broken = load_components([OldPackage(source)])
    assert any("Use hedgerow.plugin." in message for message in messages(caught))
    assert broken == []
    return component


@pytest.fixture
def recorded() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        yield caught


def messages(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message) for each in caught]


def test_old_style_destination_delivers() -> None:
    component = load(OLD_DESTINATION)
    http = FakeHttp(200, 429)
    event = make_event("bought")
    assert deliver(component, [event], http=http, topic="orders") == [plugin.Delivered()]
    assert deliver(component, [event], http=http, topic="orders") == [
        plugin.Failed(reason="HTTP 429")
    ]
    assert http.requests[0].url == "https://ntfy.sh/orders"
    assert component.check is not None
    with pytest.raises(plugin.Invalid):
        component.check(make_settings(component, topic="a/b"))


def test_old_keywords_and_attributes_of_outcomes_work() -> None:
    """The message template fails, and the old package answers with `is_events_fault=True`."""
    component = load(OLD_DESTINATION)
    message = "{% for i in (1..100000) %}{{ i }}{% endfor %}"
    (outcome,) = deliver(component, [make_event()], topic="orders", message=message)
    assert isinstance(outcome, plugin.Failed)
    assert outcome.event_rejected
    with pytest.warns(DeprecationWarning, match="Use Failed.event_rejected"):
        assert outcome.is_events_fault


def test_old_class_accepts_instances_of_the_new_one(
    recorded: list[warnings.WarningMessage],
) -> None:
    names: dict[str, Any] = {}
    exec("from hedgerow.pipelines.sending import Failed", names)
    assert isinstance(plugin.Failed(reason="x"), names["Failed"])
    assert not isinstance(plugin.Delivered(), names["Failed"])
    assert isinstance(names["Failed"](reason="x", is_events_fault=True), plugin.Failed)
    assert recorded


def test_old_style_transformation_transforms(recorded: list[warnings.WarningMessage]) -> None:
    component = load(OLD_TRANSFORMATION)
    after = transform(component, make_incoming_event(properties={"price": 3}))
    assert after is not None
    assert after.properties == {"price": 3, "seen": True}
    with pytest.raises(plugin.TransformError, match="no price"):
        transform(component, make_incoming_event())
    assert "IncomingEvent.with_properties" in "".join(messages(recorded))


def test_old_keywords_of_components_set_the_new_fields() -> None:
    transformation, source = load(OLD_TRANSFORMATION), load(OLD_IMPORT)
    assert transformation.migrate_settings is not None
    origin = plugin.SettingsOrigin(key="acme/a", version="1")
    assert transformation.migrate_settings(origin, {}) == {"from": "acme/a"}
    assert source.check_connection is not None
    with pytest.raises(plugin.JobError, match="no source"):
        asyncio.run(_wait(source.check_connection({}, make_import_context())))


async def _wait(work: Any) -> None:
    await work


def test_old_style_import_app_reads(recorded: list[warnings.WarningMessage]) -> None:
    (batch,) = read_all(load(OLD_IMPORT), make_import_context())
    assert [(row.location, row.values) for row in batch.rows] == [("line 1", {"value": 7})]
    assert [row.location for row in batch.bad] == ["line 2"]
    assert batch.finished == [plugin.FileVersion(name="a", version="b")]
    text = "".join(messages(recorded))
    assert "ImportContext.run_in_thread" in text
    assert "ImportContext.database" in text


def test_old_name_of_run_in_thread_works() -> None:
    ctx = make_context()
    with pytest.warns(DeprecationWarning, match="Use DeliveryContext.run_in_thread"):
        assert asyncio.run(ctx.aside(lambda: 7)) == 7


def test_unknown_name_of_an_old_module_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from hedgerow.pipelines.sending import Nothing", {})
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from hedgerow.pipelines.model import Nothing", {})
