"""`hedgerow flags export` and `apply`: the flags of a project as a YAML file."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.config.as_code import (
    CheckOption,
    DocumentKind,
    FileArgument,
    OutputOption,
    Place,
    PlanReview,
    apply_document,
    build_request,
    export_document,
    read_document,
    review_plan,
    write_document,
)
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for
from hedgerow.cli.options import (
    DataOption,
    JsonOption,
    KeyOption,
    ProjectOption,
    ServerOption,
    YesOption,
)
from hedgerow.errors import OperatorError

if TYPE_CHECKING:
    from hedgerow.projects.as_code import ExportedDocument
    from hedgerow.settings import Settings

FLAGS = DocumentKind(
    name="flags",
    scope="feature_flag",
    open=lambda settings: commands.flags.open_environments(settings),
)

ProductOption = Annotated[
    str | None,
    typer.Option(
        "--product", metavar="NAME", help="Product, with the flags of all its environments."
    ),
]


def export_flags(
    project: ProjectOption = None,
    product: ProductOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
) -> None:
    """Write all flags of a project as YAML.

    The file names other flags by key, and cohorts and group types by name, so that you can apply
    it to another project. Flags with encrypted payloads and flags of surveys are not in it. With
    `--product`, it has what the environments of a product share, and their differences.
    """
    place = Place(project=project, data=data, server=server, key=key)
    if product is None:
        export_document(FLAGS, place, output)
        return
    _check_product(place)

    async def run(settings: Settings) -> tuple[str, ExportedDocument]:
        async with commands.flags.open_environments(settings) as opened:
            found = await opened.products.find_by_name(product)
            exported = await opened.documents.export_product(opened.list_environments(found))
            return f"product {json.dumps(found.name)}", exported

    source, exported = asyncio.run(run(place.load_settings()))
    write_document(source, exported, output)


def apply_flags(  # noqa: PLR0913 - the options of a command
    file: FileArgument,
    project: ProjectOption = None,
    product: ProductOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete flags that are not in the file.")
    ] = False,
    reason: BreakGlassOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a project's flags match a YAML file.

    Shows the changes, asks for confirmation and applies all of them or none. A flag is identified
    by its key. A field that the file leaves out gets its default. A flag that the file leaves out
    is kept, unless you use `--prune`. With `--product`, the file is applied to all environments of
    the product, with the values that it has for each.
    """
    place = Place(project=project, data=data, server=server, key=key)
    review = PlanReview(yes=yes, check=check, as_json=as_json)
    if product is None:
        apply_document(FLAGS, file, place, review, prune=prune, reason=reason)
        return
    _check_product(place)
    document = read_document(file)

    async def run(settings: Settings) -> None:
        async with commands.flags.open_environments(settings) as opened:
            found = opened.list_environments(await opened.products.find_by_name(product))
            targets = {each.name: each.project for each in found}, [each.name for each in found]
            request = build_request(document, prune=prune)
            await review_plan(opened.documents.plan_targets(targets, request), file, review)

    with break_glass_for(reason):
        asyncio.run(run(place.load_settings()))


def _check_product(place: Place) -> None:
    if place.project is not None:
        raise OperatorError("Choose --project or --product, not both.")
    if place.find_service(f"{FLAGS.scope}:read") is not None:
        raise OperatorError(
            "--product needs the database: choose it with --data. On a service, use --project for "
            "each environment."
        )
