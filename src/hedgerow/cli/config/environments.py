"""`hedgerow environments`: join projects as the environments of a product."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.break_glass import BreakGlassOption, break_glass_for, build_headers
from hedgerow.cli.existing_installation import load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ServerOption, YesOption
from hedgerow.cli.output import confirm, print_json, print_table
from hedgerow.cli.service_client import find_service
from hedgerow.errors import NotFound, OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import ProjectId
from hedgerow.projects.products import Environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from hedgerow.app.commands.flags import Environments
    from hedgerow.cli.service_client import ServiceClient
    from hedgerow.projects.products import Product
    from hedgerow.settings import Settings

Json = dict[str, Any]

PRODUCTS = "/api/organizations/@current/products/"

ProductArgument = Annotated[
    str, typer.Argument(metavar="PRODUCT", help="Name or id of the product.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a command works, and why it may do without approvals."""

    server: str | None
    key: str | None
    data: Path | None
    reason: str | None = None


def list_products(
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List products with their environments.

    Environments are in the order in which changes are promoted.
    """

    async def run(settings: Settings) -> Sequence[Product]:
        async with commands.flags.open_environments(settings) as environments:
            return await environments.products.list_products()

    service = find_service(data, server, key, None, "project:read")
    if service is not None:
        products = [_select_fields(each) for each in service.list_root(PRODUCTS)]
    else:
        products = [_to_json(each) for each in asyncio.run(run(load_installation_settings(data)))]
    if as_json:
        print_json(products)
        return
    rows = [
        (product["name"], each["name"], str(each["project_id"]), _describe_protection(each))
        for product in products
        for each in product["environments"]
    ]
    rows += [(each["name"], "none", "", "") for each in products if not each["environments"]]
    print_table(("product", "environment", "project", ""), rows, empty="No products.")


def create_product(
    product: Annotated[str, typer.Argument(metavar="PRODUCT", help="Name of the product.")],
    environments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=PROJECT", help="Environments, such as staging=2, in order."),
    ] = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a product from projects, which become its environments.

    Example: hedgerow environments create Shop development=1 staging=2 production=3
    """
    chosen = [parse_environment(each) for each in environments or ()]

    async def work(opened: Environments) -> Product:
        return await opened.products.create(product, chosen, COMMAND_LINE, utc_now())

    def send(service: ServiceClient) -> Json:
        body = {"name": product, "environments": [asdict(each) for each in chosen]}
        created: Json = service.request_root("POST", PRODUCTS, body)
        return created

    _run(Target(server=server, key=key, data=data), work, send, as_json, "Created")


def add_environment(  # noqa: PLR0913 - the options of a command
    product: ProductArgument,
    environment: Annotated[
        str, typer.Argument(metavar="NAME=PROJECT", help="Environment, such as staging=2.")
    ],
    before: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Put it before this environment, not at the end."),
    ] = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a project to a product as an environment."""
    new = parse_environment(environment)

    def edit(present: Sequence[Environment]) -> list[Environment]:
        names = [each.name for each in present]
        place = len(names) if before is None else names.index(_check_name(before, names))
        return [*present[:place], new, *present[place:]]

    _edit(product, edit, Target(server=server, key=key, data=data), as_json)


def protect_environment(  # noqa: PLR0913 - the options of a command
    product: ProductArgument,
    name: NameArgument,
    off: Annotated[bool, typer.Option("--off", help="End the protection.")] = False,
    reason: BreakGlassOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Protect an environment: changes of its flags need an approval."""

    def edit(present: Sequence[Environment]) -> list[Environment]:
        _check_name(name, [each.name for each in present])
        return [
            replace(each, is_protected=not off) if each.name == name else each for each in present
        ]

    target = Target(server=server, key=key, data=data, reason=reason)
    _edit(product, edit, target, as_json)


def remove_environment(  # noqa: PLR0913 - the options of a command
    product: ProductArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the environment. Default: the product."),
    ] = None,
    yes: YesOption = False,
    reason: BreakGlassOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
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

    target = Target(server=server, key=key, data=data, reason=reason)
    if name is not None:
        _edit(product, edit, target, as_json)
        return

    async def work(opened: Environments) -> Product:
        found = await opened.products.find_by_name(product)
        await opened.products.remove(found.id, COMMAND_LINE, utc_now())
        return replace(found, environments=())

    def send(service: ServiceClient) -> Json:
        found = find_product(service, product)
        service.request_root("DELETE", f"{PRODUCTS}{found['id']}/", None, build_headers(reason))
        return {**found, "environments": []}

    _run(target, work, send, as_json, "Removed")


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
    target: Target,
    as_json: bool,
) -> None:
    async def work(opened: Environments) -> Product:
        found = await opened.products.find_by_name(product)
        return await opened.products.change(
            found.id, COMMAND_LINE, utc_now(), edit_environments=edit
        )

    def send(service: ServiceClient) -> Json:
        found = find_product(service, product)
        present = found["environments"]
        chosen = edit([Environment(**each) for each in present])
        body = {
            "environments": [asdict(each) for each in chosen],
            "expected_environments": present,
        }
        path, headers = f"{PRODUCTS}{found['id']}/", build_headers(target.reason)
        changed: Json = service.request_root("PATCH", path, body, headers)
        return changed

    _run(target, work, send, as_json, "Changed")


def _run(
    target: Target,
    work: Callable[[Environments], Awaitable[Product]],
    send: Callable[[ServiceClient], Json],
    as_json: bool,
    verb: str,
) -> None:
    async def run(settings: Settings) -> Product:
        async with commands.flags.open_environments(settings) as opened:
            return await work(opened)

    service = find_service(target.data, target.server, target.key, None, "project:write")
    if service is not None:
        product = _select_fields(send(service))
    else:
        with break_glass_for(target.reason):
            product = _to_json(asyncio.run(run(load_installation_settings(target.data))))
    if as_json:
        print_json(product)
        return
    names = ", ".join(
        f"{each['name']} (project {each['project_id']}"
        f"{', protected' if each['is_protected'] else ''})"
        for each in product["environments"]
    )
    print(f"{verb} {product['name']!r}{f': {names}' if names else ''}.")


def find_product(service: ServiceClient, name: str) -> Json:
    """Find a product of a service by its name or id."""
    for each in service.list_root(PRODUCTS):
        if name in (each["name"], str(each["id"])):
            return _select_fields(each)
    raise NotFound("Product not found.")


def _describe_protection(environment: Json) -> str:
    return "protected" if environment["is_protected"] else ""


def _to_json(product: Product) -> Json:
    environments = [asdict(each) for each in product.environments]
    return {"id": product.id, "name": product.name, "environments": environments}


def _select_fields(item: Json) -> Json:
    """Return a product of the API, which has more fields, as `_to_json` does."""
    environments = [
        {name: each[name] for name in ("name", "project_id", "is_protected")}
        for each in item["environments"]
    ]
    return {"id": item["id"], "name": item["name"], "environments": environments}
