"""`hedgerow components`: the components that pipeline records can use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption, print_warning
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import find_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hedgerow.pipelines.catalogue import Catalogue
    from hedgerow.settings import Settings

# What --json prints.
FIELDS = ("id", "key", "kind", "name", "version", "settings", "jobs")


def components(
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the components that pipeline records can use.

    Built-in components and those of installed packages. The `plugin` field of a record holds the
    id.
    """
    service = find_service(data, server, key, None, "plugin:read")
    if service is not None:
        found = list(service.list_root("/api/organizations/@current/plugins/"))
        listed = [_from_service(each) for each in found if not each["error"]]
        broken = [(each["name"], each["error"]) for each in found if each["error"]]
    else:
        catalogue = asyncio.run(_load_catalogue(load_installation_settings(data)))
        listed = [_to_json(each) for each in catalogue.list_components(None)]
        broken = [(each.name, each.reason) for each in catalogue.broken]
    if as_json:
        print_json([{name: each[name] for name in FIELDS} for each in listed])
    else:
        columns = ("id", "kind", "name", "version", "description")
        print_table(columns, [[str(each[name]) for name in columns] for each in listed])
    for name, reason in broken:
        print_warning(f"component {name} cannot be loaded: {reason}")


async def _load_catalogue(settings: Settings) -> Catalogue:
    async with commands.pipelines.open_pipelines(settings, needs_keys=False) as pipelines:
        return pipelines.catalogue


def _from_service(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **item,
        "settings": [field["key"] for field in item["config_schema"]],
        "jobs": list(item["public_jobs"]),
    }


def _to_json(listed: Any) -> dict[str, Any]:
    component = listed.component
    return {
        "id": listed.id,
        "key": component.key,
        "kind": component.family.value,
        "name": component.name,
        "version": component.version,
        "description": component.description,
        "settings": [field.key for field in component.settings],
        "jobs": [job.type for job in component.jobs],
    }
