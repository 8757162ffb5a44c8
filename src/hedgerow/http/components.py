"""The catalogue of components: `/api/organizations/@current/plugins/`, and one list per family."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import NotFound
from hedgerow.http.access import Call, anywhere
from hedgerow.http.describe import describes
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.reply import JsonResponse
from hedgerow.pipelines.component import Component, JobOffer, SettingField
from hedgerow.pipelines.model import ComponentId, Family
from hedgerow.projects.model import Organization

router = APIRouter(tags=["Components"])

FAMILIES: dict[str, Family | None] = {
    "plugins": None,
    "pipeline_destinations": Family.DESTINATION,
    "pipeline_frontend_apps": Family.FRONTEND_APP,
    "pipeline_import_apps": Family.IMPORT_APP,
    "pipeline_transformations": Family.TRANSFORMATION,
}


class PluginItem(msgspec.Struct, kw_only=True):
    """A component. One that could not be loaded has no id, and `error` says why."""

    id: int | None
    plugin_type: str
    name: str
    description: str
    url: str
    icon: str
    config_schema: Sequence[Mapping[str, Any]]
    tag: str
    latest_tag: str
    is_global: bool
    organization_id: str | None
    organization_name: str | None
    capabilities: Mapping[str, Any]
    metrics: Mapping[str, Any]
    public_jobs: Mapping[str, Any]
    hog_function_migration_available: bool
    kind: str | None
    version: str
    error: str


def plugin_item(id: ComponentId, component: Component, organization: Organization) -> PluginItem:
    return PluginItem(
        id=id,
        plugin_type="inline",
        name=component.name,
        description=component.description,
        url=component.url,
        icon=component.icon,
        config_schema=[_setting(field, order) for order, field in enumerate(component.settings)],
        tag=component.version,
        latest_tag=component.version,
        is_global=True,
        organization_id=organization.id,
        organization_name=organization.name,
        capabilities=component.capabilities,
        metrics={},
        public_jobs={job.type: _job(job) for job in component.jobs},
        hog_function_migration_available=False,
        kind=component.family.value,
        version=component.version,
        error="",
    )


def _setting(field: SettingField, order: int) -> dict[str, Any]:
    return {
        "key": field.key,
        "name": field.name,
        "type": field.type.value,
        "default": field.default,
        "hint": field.hint,
        "required": field.required,
        "secret": field.secret,
        "site": field.site,
        "choices": list(field.choices),
        "order": order,
    }


def _job(job: JobOffer) -> dict[str, Any]:
    return {
        "title": job.title,
        "payload": {
            field.key: {
                "title": field.title,
                "type": field.type.value,
                "required": field.required,
                "default": field.default,
            }
            for field in job.payload
        },
    }


def _broken(name: str, reason: str) -> PluginItem:
    return PluginItem(
        id=None,
        plugin_type="inline",
        name=name,
        description="",
        url="",
        icon="",
        config_schema=(),
        tag="",
        latest_tag="",
        is_global=True,
        organization_id=None,
        organization_name=None,
        capabilities={},
        metrics={},
        public_jobs={},
        hog_function_migration_available=False,
        kind=None,
        version="",
        error=reason,
    )


@describes(answer=Page[PluginItem], query=WINDOW)
async def list_components(
    organization_id: str,
    call: Annotated[Call, anywhere("plugin:read", restricted_keys=True)],
) -> Response:
    """The components that records can link to."""
    organization = call.rooms.directory.user(call.key.user_id).organization
    if organization_id not in ("@current", organization.id):
        raise NotFound("Organization not found.")
    catalogue = call.rooms.catalogue
    family = FAMILIES[call.request.scope["path"].split("/")[4]]
    found = [
        plugin_item(listed.id, listed.component, organization)
        for listed in catalogue.of_family(family)
    ]
    if family is None:
        found += [_broken(broken.name, broken.reason) for broken in catalogue.broken]
    asked = call.window
    return JsonResponse(page(call.request, call.rooms.origins, asked, len(found), asked.of(found)))


for path in FAMILIES:
    router.get(f"/api/organizations/{{organization_id}}/{path}/")(list_components)
