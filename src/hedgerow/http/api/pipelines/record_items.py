"""Paths, lookup and rendering shared by the endpoints of pipeline records."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from hedgerow.errors import NotFound
from hedgerow.http.api.pipelines.components import render_component
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import project_paths
from hedgerow.http.parameters import Parameter, parse_positive
from hedgerow.http.payload.fields import INT64_MAX
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.deliveries.destination_health import DestinationHealthCache
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.store import RecordKey
from hedgerow.plugin.component import Component, Family
from hedgerow.projects.model import Organization

TRANSFORMATIONS = "pipeline_transformation_configs"
FAMILIES = {
    "pipeline_destination_configs": Family.DESTINATION,
    "pipeline_frontend_apps_configs": Family.FRONTEND_APP,
    "pipeline_import_apps_configs": Family.IMPORT_APP,
    TRANSFORMATIONS: Family.TRANSFORMATION,
}
# Paths beside the ids of records, with their methods.
RESERVED = {"rearrange": "PATCH", "health": "GET, HEAD"}
# Not a field of the body: clients send records back as they read them.
SEEN = Parameter(
    "if_updated_at",
    "The `updated_at` of the record as you read it. 409 if someone changed the record since then.",
)
NOT_TRANSFORMATIONS = FAMILIES.keys() - {TRANSFORMATIONS}


class RecordItem(msgspec.Struct, kw_only=True):
    """A pipeline record, with the fields, order and types of the specification."""

    id: int
    plugin: int
    enabled: bool
    order: int
    config: str
    error: str
    team_id: int
    plugin_info: str
    delivery_rate_24h: str
    created_at: str
    updated_at: str
    name: str
    description: str
    deleted: bool


def family_paths(path: str, families: Collection[str] = FAMILIES.keys()) -> list[str]:
    """Return the paths below the records of all or some families, under both roots."""
    return project_paths(*(f"{family}/{path}" for family in FAMILIES if family in families))


def parse_family(call: ProjectCall) -> Family:
    """The family in the path: /api/environments/1/<family>/…"""
    return FAMILIES[call.request.scope["path"].split("/")[4]]


def parse_record_key(call: ProjectCall) -> RecordKey:
    record_id = call.path_param("record_id", RESERVED)
    number = parse_positive(record_id) if record_id.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return RecordKey(project_id=call.project.id, family=parse_family(call), id=RecordId(number))


def check_activity_access(call: ProjectCall, *, has_activity: bool) -> None:
    """Raise Forbidden if a caller would read or send the activity log, and may not read it."""
    if has_activity:
        check_scope(call.caller, "activity_log:read", call.project)


class RecordRenderer:
    """Renders records with the health of their destination. Secrets are masked."""

    def __init__(self, records: Records, destination_health: DestinationHealthCache) -> None:
        self._records = records
        self._destination_health = destination_health

    def render(self, call: ProjectCall, record: Record) -> RecordItem:
        component = self._records.component(record)
        shown = settings.mask_settings(component, record.config) if component else {}
        health = self._destination_health.get(record.id)
        return RecordItem(
            id=record.id,
            plugin=record.component_id,
            enabled=record.enabled,
            order=record.order,
            config=_encode_text(shown),
            error=health.error if component else "The component of this record is not installed.",
            team_id=record.project_id,
            plugin_info=self._encode_component_of(call, record),
            delivery_rate_24h=health.delivery_rate,
            created_at=format_iso(record.created_at),
            updated_at=format_iso(record.updated_at),
            name=record.name or (component.name if component else ""),
            description=record.description or (component.description if component else ""),
            deleted=record.deleted,
        )

    def render_all(self, call: ProjectCall, records: Sequence[Record]) -> list[RecordItem]:
        return [self.render(call, record) for record in records]

    def _encode_component_of(self, call: ProjectCall, record: Record) -> str:
        component = self._records.component(record)
        if component is None:
            return "{}"
        return _encode_component(record.component_id, component, call.owner.organization)


@lru_cache(maxsize=1000)
def _encode_component(id: ComponentId, component: Component, organization: Organization) -> str:
    """Encode the component once: it is the same for all its records and longer than the record."""
    return _encode_text(render_component(id, component, organization))


def _encode_text(value: Any) -> str:
    return jsonio.encode(value).decode()
