"""The catalogue of installed components, in one list and in one list per pipeline family."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from hedgerow.http.api.projects import check_organization
from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.server.response import JsonResponse
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import ComponentId
from hedgerow.plugin.component import Component, Family, JobOffer, SettingField
from hedgerow.projects.model import Organization

FAMILIES: dict[str, Family | None] = {
    "plugins": None,
    "pipeline_destinations": Family.DESTINATION,
    "pipeline_frontend_apps": Family.FRONTEND_APP,
    "pipeline_import_apps": Family.IMPORT_APP,
    "pipeline_transformations": Family.TRANSFORMATION,
}
PATHS = tuple(f"/api/organizations/{{organization_id}}/{name}/" for name in FAMILIES)


class ComponentItem(msgspec.Struct, kw_only=True):
    """A component. A component that failed to load has no id, and `error` says why."""

    id: int | None
    key: str | None
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


def render_component(
    id: ComponentId, component: Component, organization: Organization
) -> ComponentItem:
    return ComponentItem(
        id=id,
        key=component.key,
        plugin_type="inline",
        name=component.name,
        description=component.description,
        url=component.url,
        icon=component.icon,
        config_schema=[
            _render_setting(field, order) for order, field in enumerate(component.settings)
        ],
        tag=component.version,
        latest_tag=component.version,
        is_global=True,
        organization_id=organization.id,
        organization_name=organization.name,
        capabilities=component.capabilities,
        metrics={},
        public_jobs={job.type: _render_job(job) for job in component.jobs},
        hog_function_migration_available=False,
        kind=component.family.value,
        version=component.version,
        error="",
    )


def _render_setting(field: SettingField, order: int) -> dict[str, Any]:
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


def _render_job(job: JobOffer) -> dict[str, Any]:
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


def _render_broken(name: str, reason: str) -> ComponentItem:
    return ComponentItem(
        id=None,
        key=None,
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


class ComponentEndpoints:
    tag = "Components"

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @endpoint(
        "GET",
        *PATHS,
        access=anywhere("plugin:read", restricted_keys=True),
        response=Page[ComponentItem],
        query=PAGE_PARAMETERS,
    )
    async def list_components(self, call: Call) -> Response:
        """List the installed components."""
        check_organization(call)
        organization = call.owner.organization
        catalogue = self._catalogue
        family = FAMILIES[call.request.scope["path"].split("/")[4]]
        components = [
            render_component(listed.id, listed.component, organization)
            for listed in catalogue.list_components(family)
        ]
        if family is None:
            components += [
                _render_broken(broken.name, broken.reason) for broken in catalogue.broken
            ]
        window = call.window
        return JsonResponse(call.page(len(components), window.of(components)))
