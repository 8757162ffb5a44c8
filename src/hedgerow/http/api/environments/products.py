"""Products: projects that are the environments of one product."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from annotated_types import MaxLen
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from hedgerow.errors import Conflict, NotFound
from hedgerow.http.api.projects import ORGANIZATION, check_organization
from hedgerow.http.auth.access import anywhere
from hedgerow.http.call import Call
from hedgerow.http.endpoint import endpoint
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Boolean, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.lib.shape import Shape, find_unknown_fields
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId
from hedgerow.projects.products import (
    MAX_ENVIRONMENTS,
    MAX_PRODUCT_NAME_CHARS,
    Environment,
    Product,
    ProductId,
    Products,
)

PRODUCTS = f"{ORGANIZATION}products/"
PRODUCT = PRODUCTS + "{product_id}/"
SEARCH = Parameter("search", "Only products whose name contains this text.")

READ = anywhere("project:read", restricted_keys=True)
WRITE = anywhere("project:write")

RETURNED_FIELDS = frozenset(("id", "created_at", "updated_at"))
_ENVIRONMENT_SHAPE = Shape("name", "project_id", "is_protected", unused=("project_name",))


class EnvironmentItem(msgspec.Struct, kw_only=True):
    """A project as an environment. Changes of the flags of a protected one need an approval."""

    name: str
    project_id: int
    project_name: str
    is_protected: bool


class ProductItem(msgspec.Struct, kw_only=True):
    """A product. Its environments are in the order in which changes are promoted. Those that the
    caller may not see are left out."""

    id: int
    name: str
    environments: Sequence[EnvironmentItem]
    created_at: str
    updated_at: str


def _check_environment(value: Any) -> Any:
    for found in find_unknown_fields(value, _ENVIRONMENT_SHAPE, ""):
        context = {"detail": found.detail, "code": "unknown_field", "path": found.path}
        raise PydanticCustomError("unknown_field", "{detail}", context)
    return value


class EnvironmentFields(Fields):
    """The name of an environment begins with a letter: letters, digits, - and _."""

    name: Annotated[str, Text(MAX_PRODUCT_NAME_CHARS)]
    project_id: Annotated[int, Between(1, INT64_MAX)]
    is_protected: Boolean = False

    def to_environment(self) -> Environment:
        return Environment(
            name=self.name, project_id=ProjectId(self.project_id), is_protected=self.is_protected
        )


ProductName = Annotated[str, Text(MAX_PRODUCT_NAME_CHARS)]
EnvironmentList = Annotated[
    list[Annotated[EnvironmentFields, BeforeValidator(_check_environment)]],
    MaxLen(MAX_ENVIRONMENTS),
]


class NewProduct(Fields):
    """`environments` are in the order in which changes are promoted, such as development, staging,
    production."""

    ignored_fields = RETURNED_FIELDS

    name: ProductName
    environments: EnvironmentList = Field(default_factory=list)


class ProductChange(Fields):
    """`environments` replaces all of them. `expected_environments` are those that the caller has
    read: the request is refused if the product has others now."""

    ignored_fields = RETURNED_FIELDS

    name: ProductName = OMITTED
    environments: EnvironmentList = OMITTED
    expected_environments: EnvironmentList | None = None

    def edit_environments(self, present: Sequence[Environment]) -> Sequence[Environment]:
        expected = self.expected_environments
        if expected is not None and [each.to_environment() for each in expected] != list(present):
            raise Conflict("The environments have changed since they were read. Read them again.")
        return [each.to_environment() for each in self.environments]


class ProductFinder:
    """Finds the product of a path, and what the caller may see of it."""

    def __init__(self, products: Products, directory: Directory) -> None:
        self._products = products
        self._directory = directory

    async def list_visible(self, call: Call) -> list[Product]:
        check_organization(call)
        return [each for each in await self._products.list_products() if _is_visible(call, each)]

    async def find(self, call: Call) -> Product:
        """Find the product with the id in the path. Raises NotFound for one without any environment
        that the caller may see."""
        check_organization(call)
        text = call.path_param("product_id")
        number = parse_positive(text) if text.isdecimal() else None
        if number is None or number > INT64_MAX:
            raise NotFound
        product = await self._products.find(ProductId(number))
        if not _is_visible(call, product):
            raise NotFound
        return product

    def render(self, call: Call, product: Product) -> ProductItem:
        return ProductItem(
            id=product.id,
            name=product.name,
            environments=[
                EnvironmentItem(
                    name=each.name,
                    project_id=each.project_id,
                    project_name=project.name,
                    is_protected=each.is_protected,
                )
                for each in product.environments
                if call.caller.may_see(each.project_id)
                and (project := self._directory.get_project(each.project_id)) is not None
            ],
            created_at=format_iso(product.created_at),
            updated_at=format_iso(product.updated_at),
        )


def _is_visible(call: Call, product: Product) -> bool:
    if call.caller.is_unrestricted:
        return True
    return any(call.caller.may_see(each.project_id) for each in product.environments)


class ProductEndpoints:
    tag = "Environments"

    def __init__(self, products: Products, finder: ProductFinder) -> None:
        self._products = products
        self._finder = finder

    @endpoint(
        "GET",
        PRODUCTS,
        access=READ,
        response=Page[ProductItem],
        query=(*PAGE_PARAMETERS, SEARCH),
    )
    async def list_products(self, call: Call) -> Response:
        """List the products with the environments that the caller may see, by name."""
        wanted = parse_text(call.query_param("search"), "search").strip().casefold()
        visible = [
            each for each in await self._finder.list_visible(call) if wanted in each.name.casefold()
        ]
        items = [self._finder.render(call, each) for each in call.window.of(visible)]
        return JsonResponse(call.page(len(visible), items))

    @endpoint("POST", PRODUCTS, access=WRITE, response=ProductItem, status=201, body=NewProduct)
    async def create_product(self, call: Call) -> Response:
        """Join projects as the environments of a product. A project belongs to one product at most.
        For owners."""
        check_organization(call)
        body = await call.body(NewProduct)
        environments = [each.to_environment() for each in body.environments]
        product = await self._products.create(body.name, environments, call.actor, call.now)
        return JsonResponse(self._finder.render(call, product), status_code=201)

    @endpoint("GET", PRODUCT, access=READ, response=ProductItem)
    async def retrieve_product(self, call: Call) -> Response:
        """Retrieve a product."""
        return JsonResponse(self._finder.render(call, await self._finder.find(call)))

    @endpoint("PATCH", PRODUCT, access=WRITE, response=ProductItem, body=ProductChange)
    async def change_product(self, call: Call) -> Response:
        """Rename a product, or change its environments, their order and their protection. For
        owners."""
        found = await self._finder.find(call)
        body = await call.body(ProductChange)
        is_edit = "environments" in body.model_fields_set
        product = await self._products.change(
            found.id,
            call.actor,
            call.now,
            name=body.name,
            edit_environments=body.edit_environments if is_edit else None,
        )
        return JsonResponse(self._finder.render(call, product))

    @endpoint("DELETE", PRODUCT, access=WRITE, status=204)
    async def delete_product(self, call: Call) -> Response:
        """Separate the projects of a product. They keep their flags and everything else. For
        owners."""
        found = await self._finder.find(call)
        await self._products.remove(found.id, call.actor, call.now)
        return no_content()
