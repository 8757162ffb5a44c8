"""`hedgerow pipelines`: the pipeline records of a project as a YAML file, and their secrets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import (
    CheckOption,
    DocumentJsonOption,
    DocumentKind,
    FileArgument,
    OutputOption,
    Place,
    PlanReview,
    apply_document,
    export_document,
)
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import (
    DataOption,
    JsonOption,
    KeyOption,
    ProjectOption,
    ServerOption,
    YesOption,
)
from hedgerow.cli.output import print_json

if TYPE_CHECKING:
    from hedgerow.settings import Settings


def _describe_kind(*, needs_keys: bool) -> DocumentKind:
    return DocumentKind(
        name="pipelines",
        scope="plugin",
        open=lambda settings: commands.pipelines.open_pipelines(settings, needs_keys=needs_keys),
    )


def export_pipelines(
    project: ProjectOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: DocumentJsonOption = False,
) -> None:
    """Write all pipeline records of a project as YAML.

    The file contains no secrets: it has `!env NAME` for each, and `apply` reads the variable NAME.
    If that variable is not set, the stored secret stays.
    """

    place = Place(project=project, data=data, server=server, key=key)
    export_document(_describe_kind(needs_keys=False), place, output, as_json=as_json)


def apply_pipelines(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete records that are not in the file.")
    ] = False,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's pipeline records match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A record is
    identified by its name, and the records get the order of the file. A setting that the file
    leaves out is cleared. Sections and records that the file leaves out are kept, unless you use
    `--prune` for the records.
    """
    place = Place(project=project, data=data, server=server, key=key)
    review = PlanReview(yes=yes, check=check, as_json=as_json)
    apply_document(_describe_kind(needs_keys=True), file, place, review, prune=prune)


def re_encrypt(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Encrypt all stored secrets with the newest key.

    Afterwards you can remove the older keys. Before it, put the new key first and restart all
    processes of the service.
    """

    async def run(settings: Settings) -> int:
        async with commands.pipelines.open_pipelines(settings, needs_keys=True) as pipelines:
            return await pipelines.re_encrypt()

    count = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json({"records": count})
    else:
        print(f"Encrypted the secrets of {count} record(s) with the newest key.")
