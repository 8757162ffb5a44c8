"""Products: projects that are the environments of one product, such as development, staging and
production. Each keeps its own keys, persons and events; flags line up by key.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NewType, Protocol

from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.text import truncate
from hedgerow.projects.activity import Actor
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.validation import validate_text

ProductId = NewType("ProductId", int)

SCOPE = "Product"
MAX_PRODUCT_NAME_CHARS = 200
MAX_ENVIRONMENT_NAME_CHARS = 50
MAX_ENVIRONMENTS = 20
MAX_PRODUCTS = 1000
NEW = ProductId(0)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A project as an environment of a product. Changes of a protected one need an approval."""

    name: str
    project_id: ProjectId
    is_protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """`environments` are in the order in which changes are promoted."""

    id: ProductId
    name: str
    environments: Sequence[Environment]
    created_at: datetime
    updated_at: datetime

    def find(self, name: str) -> Environment | None:
        """Return the environment with this name or with the project of this id."""
        for each in self.environments:
            if name in (each.name, str(each.project_id)):
                return each
        return None


class ProductStore(Protocol):
    async def products(self) -> Sequence[Product]:
        """Return all products by name, without environments whose project is deleted."""
        ...

    async def add_product(self, product: Product, actor: Actor) -> Product: ...

    async def edit_product(
        self, id: ProductId, edit: Callable[[Product], Product], actor: Actor, now: datetime
    ) -> Product: ...

    async def remove_product(self, id: ProductId, actor: Actor, now: datetime) -> None: ...


class Products:
    def __init__(self, store: ProductStore, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    async def list_products(self) -> Sequence[Product]:
        return await self._store.products()

    async def find(self, id: ProductId) -> Product:
        return _choose(await self._store.products(), lambda each: each.id == id)

    async def find_by_name(self, name: str) -> Product:
        """Find a product by its name or id."""
        return _choose(await self._store.products(), lambda each: name in (each.name, str(each.id)))

    async def find_of_project(self, id: ProjectId) -> tuple[Product, Environment] | None:
        """Return the product of a project, and the environment that the project is."""
        for product in await self._store.products():
            for each in product.environments:
                if each.project_id == id:
                    return product, each
        return None

    async def create(
        self, name: str, environments: Sequence[Environment], actor: Actor, now: datetime
    ) -> Product:
        product = Product(
            id=NEW,
            name=validate_text("name", name, MAX_PRODUCT_NAME_CHARS),
            environments=self._checked(environments),
            created_at=now,
            updated_at=now,
        )
        return await self._store.add_product(product, actor)

    async def change(
        self,
        id: ProductId,
        actor: Actor,
        now: datetime,
        *,
        name: str | None = None,
        edit_environments: Callable[[Sequence[Environment]], Sequence[Environment]] | None = None,
    ) -> Product:
        """Rename a product, or replace its environments by those that `edit_environments` returns
        for the present ones."""

        def edit(before: Product) -> Product:
            after = before
            if name is not None:
                after = replace(after, name=validate_text("name", name, MAX_PRODUCT_NAME_CHARS))
            if edit_environments is not None:
                chosen = self._checked(edit_environments(before.environments))
                after = replace(after, environments=chosen)
            return after

        return await self._store.edit_product(id, edit, actor, now)

    async def remove(self, id: ProductId, actor: Actor, now: datetime) -> None:
        """Separate the projects of a product again. They keep everything else."""
        await self._store.remove_product(id, actor, now)

    def get_project(self, environment: Environment) -> Project:
        """Return the project of an environment. Raises NotFound if it was deleted just now."""
        project = self._directory.get_project(environment.project_id)
        if project is None:
            raise NotFound("Project not found.")
        return project

    def _checked(self, environments: Sequence[Environment]) -> tuple[Environment, ...]:
        if len(environments) > MAX_ENVIRONMENTS:
            raise Invalid(
                f"A product can have at most {MAX_ENVIRONMENTS} environments.",
                attr="environments",
                code="max_length",
            )
        names: set[str] = set()
        projects: set[ProjectId] = set()
        for number, each in enumerate(environments):
            place = f"environments__{number}"
            _check_name(each.name, f"{place}__name")
            if each.name in names:
                raise Invalid(
                    f"Two environments are called {each.name}.",
                    attr=f"{place}__name",
                    code="unique",
                )
            if each.project_id in projects:
                raise Invalid(
                    f"The project {each.project_id} is in the list twice.",
                    attr=f"{place}__project_id",
                    code="unique",
                )
            if self._directory.get_project(each.project_id) is None:
                raise Invalid(
                    f"There is no project with the id {each.project_id}.",
                    attr=f"{place}__project_id",
                    code="does_not_exist",
                )
            names.add(each.name)
            projects.add(each.project_id)
        return tuple(environments)


def _check_name(name: str, attr: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_ENVIRONMENT_NAME_CHARS:
        raise Invalid(
            f'"{truncate(name)}" is no name of an environment. Expected a letter and then letters, '
            f"digits, - and _, at most {MAX_ENVIRONMENT_NAME_CHARS} in all.",
            attr=attr,
        )


def _choose(products: Sequence[Product], is_wanted: Callable[[Product], bool]) -> Product:
    found = next(filter(is_wanted, products), None)
    if found is None:
        raise NotFound("Product not found.")
    return found


def get_audited_fields(product: Product | None) -> Mapping[str, Any]:
    if product is None:
        return {}
    return {
        "name": product.name,
        "environments": [asdict(each) for each in product.environments],
    }
