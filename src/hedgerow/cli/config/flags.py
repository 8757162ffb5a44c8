"""`hedgerow flags export` and `apply`: the flags of a project as a YAML file."""

from __future__ import annotations

import asyncio
import json
from functools import partial
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
    apply_on_service,
    build_request,
    export_document,
    read_document,
    read_exported,
    review_plan,
    write_document,
)
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for, build_headers
from hedgerow.cli.config.environments import PRODUCTS, find_product
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
    from hedgerow.cli.service_client import ServiceClient
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


def export_flags(  # noqa: PLR0913 - the options of a command
    project: ProjectOption = None,
    product: ProductOption = None,
    output: OutputOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: DocumentJsonOption = False,
) -> None:
    """Write all flags of a project as YAML.

    The file names other flags by key, and cohorts and group types by name, so that you can apply
    it to another project. Flags with encrypted payloads and flags of surveys are not in it. With
    `--product`, it has what the environments of a product share, and their differences.
    """
    place = Place(project=project, data=data, server=server, key=key)
    if product is None:
        export_document(FLAGS, place, output, as_json=as_json)
        return
    _check_product(place)

    async def run(settings: Settings) -> tuple[str, ExportedDocument]:
        async with commands.flags.open_environments(settings) as opened:
            found = await opened.products.find_by_name(product)
            return found.name, await opened.documents.export_product(
                opened.list_environments(found)
            )

    service = place.find_service(f"{FLAGS.scope}:read")
    if service is not None:
        answer = service.request_root("GET", _find_path(service, product))
        name, exported = answer["product_name"], read_exported(answer)
    else:
        name, exported = asyncio.run(run(place.load_settings()))
    write_document(f"product {json.dumps(name)}", exported, output, as_json=as_json)


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
            request = build_request(document, prune=prune)
            await review_plan(opened.documents.plan_environments(found, request), file, review)

    service = place.find_service(f"{FLAGS.scope}:write")
    if service is not None:
        path = _find_path(service, product)
        send = partial(service.request_root, "POST", path, headers=build_headers(reason))
        apply_on_service(send, file, document, review, prune=prune)
        return
    with break_glass_for(reason):
        asyncio.run(run(place.load_settings()))


def _check_product(place: Place) -> None:
    if place.project is not None:
        raise OperatorError("Choose --project or --product, not both.")


def _find_path(service: ServiceClient, product: str) -> str:
    return f"{PRODUCTS}{find_product(service, product)['id']}/documents/flags/"
