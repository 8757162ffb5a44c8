"""`hedgerow environments`: join projects as the environments of a product."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, YesOption
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import ProjectId
from hedgerow.projects.products import Environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hedgerow.app.commands.flags import Environments
    from hedgerow.projects.products import Product
    from hedgerow.settings import Settings

ProductArgument = Annotated[
    str, typer.Argument(metavar="PRODUCT", help="Name or id of the product.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment.")]


def list_products(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List products with their environments.

    Environments are in the order in which changes are promoted.
    """

    async def run(settings: Settings) -> Sequence[Product]:
        async with commands.flags.open_environments(settings) as environments:
            return await environments.products.list_products()

    products = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json([_to_json(each) for each in products])
        return
    rows = [
        (product.name, each.name, str(each.project_id), "protected" if each.is_protected else "")
        for product in products
        for each in product.environments
    ]
    rows += [(each.name, "none", "", "") for each in products if not each.environments]
    print_table(("product", "environment", "project", ""), rows, empty="No products.")


def create_product(
    product: Annotated[str, typer.Argument(metavar="PRODUCT", help="Name of the product.")],
    environments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=PROJECT", help="Environments, such as staging=2, in order."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a product from projects, which become its environments.

    Example: hedgerow environments create Shop development=1 staging=2 production=3
    """
    chosen = [parse_environment(each) for each in environments or ()]

    async def work(opened: Environments) -> Product:
        return await opened.products.create(product, chosen, COMMAND_LINE, utc_now())

    _run(data, work, as_json, "Created")


def add_environment(
    product: ProductArgument,
    environment: Annotated[
        str, typer.Argument(metavar="NAME=PROJECT", help="Environment, such as staging=2.")
    ],
    before: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Put it before this environment, not at the end."),
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a project to a product as an environment."""
    new = parse_environment(environment)

    def edit(present: Sequence[Environment]) -> list[Environment]:
        names = [each.name for each in present]
        place = len(names) if before is None else names.index(_check_name(before, names))
        return [*present[:place], new, *present[place:]]

    _edit(product, edit, data, as_json)


def protect_environment(
    product: ProductArgument,
    name: NameArgument,
    off: Annotated[bool, typer.Option("--off", help="End the protection.")] = False,
    reason: BreakGlassOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Protect an environment: changes of its flags need an approval."""

    def edit(present: Sequence[Environment]) -> list[Environment]:
        _check_name(name, [each.name for each in present])
        return [
            replace(each, is_protected=not off) if each.name == name else each for each in present
        ]

    with break_glass_for(reason):
        _edit(product, edit, data, as_json)


def remove_environment(
    product: ProductArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the environment. Default: the product."),
    ] = None,
    yes: YesOption = False,
    reason: BreakGlassOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an environment out of a product, or remove the product.

    The projects stay, with their flags and everything else.
    """
    if not yes:
        confirm(f"Remove {product if name is None else f'{name} from {product}'}?")

    def edit(present: Sequence[Environment]) -> list[Environment]:
        _check_name(name or "", [each.name for each in present])
        return [each for each in present if each.name != name]

    if name is not None:
        with break_glass_for(reason):
            _edit(product, edit, data, as_json)
        return

    async def work(opened: Environments) -> Product:
        found = await opened.products.find_by_name(product)
        await opened.products.remove(found.id, COMMAND_LINE, utc_now())
        return replace(found, environments=())

    with break_glass_for(reason):
        _run(data, work, as_json, "Removed")


def parse_environment(text: str) -> Environment:
    """Parse such as staging=2."""
    name, _, project = text.rpartition("=")
    if not name or not (project.isascii() and project.isdecimal() and len(project) < 19):
        raise OperatorError(f"{text}: expected a name and the id of a project, such as staging=2.")
    return Environment(name=name, project_id=ProjectId(int(project)))


def _check_name(name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise OperatorError(f"There is no environment {name}. Expected one of: {', '.join(known)}.")
    return name


def _edit(
    product: str,
    edit: Callable[[Sequence[Environment]], Sequence[Environment]],
    data: Any,
    as_json: bool,
) -> None:
    async def work(opened: Environments) -> Product:
        found = await opened.products.find_by_name(product)
        return await opened.products.change(
            found.id, COMMAND_LINE, utc_now(), edit_environments=edit
        )

    _run(data, work, as_json, "Changed")


def _run(
    data: Any, work: Callable[[Environments], Awaitable[Product]], as_json: bool, verb: str
) -> None:
    async def run(settings: Settings) -> Product:
        async with commands.flags.open_environments(settings) as opened:
            return await work(opened)

    product = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        print_json(_to_json(product))
        return
    names = ", ".join(
        f"{each.name} (project {each.project_id}{', protected' if each.is_protected else ''})"
        for each in product.environments
    )
    print(f"{verb} {product.name!r}{f': {names}' if names else ''}.")


def _to_json(product: Product) -> dict[str, Any]:
    return {
        "id": product.id,
        "name": product.name,
        "environments": [
            {
                "name": each.name,
                "project_id": each.project_id,
                "is_protected": each.is_protected,
            }
            for each in product.environments
        ],
    }
