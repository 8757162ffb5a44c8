"""`hedgerow components`: what pipelines can be made of."""

import json

import uvloop

from hedgerow.app.pipelines import opened_pipelines
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.cli.tables import show, table
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.settings import Settings


def components(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the components that pipeline records can use, built in or from packages.

    The id is what a record's `plugin` field names.
    """
    catalogue = uvloop.run(_catalogue(prepared_settings(data)))
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "id": listed.id,
                        "key": listed.component.key,
                        "kind": listed.component.family.value,
                        "name": listed.component.name,
                        "version": listed.component.version,
                        "settings": [field.key for field in listed.component.settings],
                        "jobs": [job.type for job in listed.component.jobs],
                    }
                    for listed in catalogue.of_family(None)
                ]
            )
        )
        return
    rows = table("id", "kind", "name", "version", "description")
    for listed in catalogue.of_family(None):
        component = listed.component
        rows.add_row(
            str(listed.id),
            component.family.value,
            component.name,
            component.version,
            component.description,
        )
    show(rows)
    for broken in catalogue.broken:
        print(f"cannot be loaded: {broken.name}: {broken.reason}")


async def _catalogue(settings: Settings) -> Catalogue:
    async with opened_pipelines(settings, seals=False) as (_, pipelines):
        return pipelines.catalogue
