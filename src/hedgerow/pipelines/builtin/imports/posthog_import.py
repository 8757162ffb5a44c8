"""Another instance: imports events from a PostHog-compatible service."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.imports.instance import PostHogInstance, is_instance_url
from hedgerow.pipelines.imports.instance_events import read_events, read_page_in_worker
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.plugin.component import Component, Family, SettingField, Settings
from hedgerow.plugin.imports import ImportBatch, ImportContext
from hedgerow.plugin.presets import IMPORT_JOB, SCHEDULE_SETTING, TEST_CONNECTION_JOB
from hedgerow.projects.validation import parse_date_parameter


def check(settings: Settings) -> None:
    check_schedule(settings.get("schedule") or "")
    if not is_instance_url(settings["host"]):
        detail = "An http:// or https:// URL without user and password is required."
        raise Invalid(detail, attr="config__host")
    if not settings["project_id"].isalnum():
        raise Invalid("A project id is required.", attr="config__project_id")
    if date_from := settings.get("date_from"):
        parse_date_parameter(date_from, datetime(2026, 1, 1, tzinfo=UTC), UTC, "config__date_from")


def read(
    settings: Mapping[str, Any], cursor: Any, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    instance = _build_instance(settings, ctx)
    read_page = partial(read_page_in_worker, instance, ctx)
    return read_events(instance, settings["date_from"], cursor, ctx.clock, read_page)


async def check_connection(settings: Mapping[str, Any], ctx: ImportContext) -> None:
    instance = _build_instance(settings, ctx)
    await read_page_in_worker(instance, ctx, instance.url("events/", limit=1))


def _build_instance(settings: Mapping[str, Any], ctx: ImportContext) -> PostHogInstance:
    return PostHogInstance(
        settings["host"],
        settings["personal_key"],
        settings["project_id"],
        http=ctx.http,
        sleep=ctx.sleep,
    )


COMPONENT = Component(
    key="hedgerow/posthog-import",
    family=Family.IMPORT_APP,
    name="Another PostHog-compatible instance",
    description="Imports the events of a project from another Hedgerow or PostHog.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="personal_key", name="Personal key", required=True, secret=True),
        SettingField(key="project_id", name="Project id", required=True),
        SettingField(
            key="date_from", name="From", default="", hint="ISO time. Empty: from the first event."
        ),
        SCHEDULE_SETTING,
    ),
    jobs=(IMPORT_JOB, TEST_CONNECTION_JOB),
    check=check,
    read=read,
    check_connection=check_connection,
)
