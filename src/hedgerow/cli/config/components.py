"""`hedgerow components`: the components that pipeline records can use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hedgerow.app import commands
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, print_warning
from hedgerow.cli.output import print_json, print_table

if TYPE_CHECKING:
    from hedgerow.pipelines.catalogue import Catalogue
    from hedgerow.settings import Settings


def components(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the components that pipeline records can use.

    Built-in components and those of installed packages. The `plugin` field of a record holds the
    id.
    """
    catalogue = asyncio.run(_load_catalogue(load_installation_settings(data)))
    listed = catalogue.list_components(None)
    if as_json:
        print_json([_to_json(each) for each in listed])
    else:
        print_table(
            ("id", "kind", "name", "version", "description"),
            [
                (
                    str(each.id),
                    each.component.family.value,
                    each.component.name,
                    each.component.version,
                    each.component.description,
                )
                for each in listed
            ],
        )
    for broken in catalogue.broken:
        print_warning(f"component {broken.name} cannot be loaded: {broken.reason}")


async def _load_catalogue(settings: Settings) -> Catalogue:
    async with commands.pipelines.open_pipelines(settings, needs_keys=False) as pipelines:
        return pipelines.catalogue


def _to_json(listed: Any) -> dict[str, Any]:
    component = listed.component
    return {
        "id": listed.id,
        "key": component.key,
        "kind": component.family.value,
        "name": component.name,
        "version": component.version,
        "settings": [field.key for field in component.settings],
        "jobs": [job.type for job in component.jobs],
    }
