"""Another instance: events read from a PostHog-compatible service."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.dates import asked_moment
from hedgerow.pipelines.component import Component, SettingField, Settings
from hedgerow.pipelines.components.fields import RUN_IMPORT, SCHEDULE, TEST_CONNECTION
from hedgerow.pipelines.imports.instance import Instance, is_address
from hedgerow.pipelines.imports.instance_events import events_of
from hedgerow.pipelines.imports.model import Around, Portion
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.pipelines.model import Family


def check(settings: Settings) -> None:
    check_schedule(settings.get("schedule") or "")
    if not is_address(settings["host"]):
        detail = "An http:// or https:// address without a name and password is required."
        raise Invalid(detail, attr="config__host")
    if not settings["project_id"].isalnum():
        raise Invalid("The number of a project is required.", attr="config__project_id")
    if said := settings.get("date_from"):
        asked_moment(said, datetime(2026, 1, 1, tzinfo=UTC), UTC, "config__date_from")


def read(settings: Mapping[str, Any], cursor: Any, around: Around) -> AsyncIterator[Portion]:
    return events_of(_instance(settings, around), settings["date_from"], cursor, around.clock)


async def reach(settings: Mapping[str, Any], around: Around) -> None:
    instance = _instance(settings, around)
    await instance.page(instance.url("events/", limit=1))


def _instance(settings: Mapping[str, Any], around: Around) -> Instance:
    return Instance(
        settings["host"],
        settings["personal_key"],
        settings["project_id"],
        http=around.http,
        sleep=around.sleep,
    )


COMPONENT = Component(
    key="hedgerow/posthog-import",
    family=Family.IMPORT_APP,
    name="Another PostHog-compatible instance",
    description="Imports the events of a project of another Hedgerow or PostHog.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="personal_key", name="Personal key", required=True, secret=True),
        SettingField(key="project_id", name="Project id", required=True),
        SettingField(key="date_from", name="From", default="", hint="ISO time. Empty: the first."),
        SCHEDULE,
    ),
    jobs=(RUN_IMPORT, TEST_CONNECTION),
    check=check,
    read=read,
    reach=reach,
)
