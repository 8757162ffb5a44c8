"""Products and their environments. Every change is audited."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.flags.approvals.permit import BreakGlass, current_break_glass
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import ProjectId
from hedgerow.projects.products import (
    MAX_PRODUCTS,
    SCOPE,
    Environment,
    Product,
    ProductId,
    ProductStore,
    get_audited_fields,
)
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.projects import activity
from hedgerow.storage.projects.deletions import is_deleted
from hedgerow.storage.tables import environments, organizations, products


class SqlProductStore(ProductStore):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def products(self) -> Sequence[Product]:
        return await self._database.read(_read_products)

    async def add_product(self, product: Product, actor: Actor) -> Product:
        now = product.created_at

        def change(connection: Connection) -> Product:
            _lock_products(connection)
            if connection.execute(select(func.count()).select_from(products)).scalar_one() >= (
                MAX_PRODUCTS
            ):
                raise Invalid(f"An organization can have at most {MAX_PRODUCTS} products.")
            _check_unique(connection, product)
            id = connection.execute(
                insert(products)
                .values(
                    organization_id=select(organizations.c.id).limit(1).scalar_subquery(),
                    name=product.name,
                    created_at=now,
                    updated_at=now,
                )
                .returning(products.c.id)
            ).scalar_one()
            stored = replace(product, id=ProductId(id))
            _write_environments(connection, stored)
            _record(connection, "created", None, stored, actor, now)
            return stored

        return await self._write(change)

    async def edit_product(
        self, id: ProductId, edit: Callable[[Product], Product], actor: Actor, now: datetime
    ) -> Product:
        permit = current_break_glass.get()

        def change(connection: Connection) -> Product:
            before = _lock_product(connection, id)
            after = edit(before)
            if after == before:
                return before
            _check_unique(connection, after)
            _check_protection(connection, before, after, permit, now)
            after = replace(after, updated_at=now)
            own = products.c.id == id
            changed = update(products).where(own).values(name=after.name, updated_at=now)
            connection.execute(changed)
            _write_environments(connection, after)
            _record(connection, "updated", before, after, actor, now)
            return after

        return await self._write(change)

    async def remove_product(self, id: ProductId, actor: Actor, now: datetime) -> None:
        permit = current_break_glass.get()

        def change(connection: Connection) -> None:
            before = _lock_product(connection, id)
            _check_protection(connection, before, None, permit, now)
            connection.execute(delete(environments).where(environments.c.product_id == id))
            connection.execute(delete(products).where(products.c.id == id))
            _record(connection, "deleted", before, None, actor, now)

        await self._database.write(change)

    async def _write(self, change: Callable[[Connection], Product]) -> Product:
        try:
            return await self._database.write(change)
        except IntegrityError:
            raise Conflict("Another request has changed the products. Send this one again.") from (
                None
            )


def _check_protection(
    connection: Connection,
    before: Product,
    after: Product | None,
    permit: BreakGlass | None,
    now: datetime,
) -> None:
    """Raise ApprovalRequired for an environment that would not be protected any more."""
    kept = {each.project_id for each in (after.environments if after else ()) if each.is_protected}
    gate = WriteGate(permit=permit, measured={}, list_flags=lambda *_: ())
    for each in before.environments:
        if each.is_protected and each.project_id not in kept:
            gate.check_protection(connection, each.project_id, each.name, now)


def _read_products(connection: Connection) -> list[Product]:
    rows = connection.execute(
        select(environments)
        .where(~is_deleted(environments.c.project_id))
        .order_by(environments.c.position, environments.c.project_id)
    )
    found = defaultdict[int, list[Environment]](list)
    for row in rows:
        found[row.product_id].append(
            Environment(
                name=row.name, project_id=ProjectId(row.project_id), is_protected=row.is_protected
            )
        )
    return [
        Product(
            id=ProductId(row.id),
            name=row.name,
            environments=tuple(found[row.id]),
            created_at=row.created_at,
            updated_at=row.updated_at,
        )
        for row in connection.execute(select(products).order_by(products.c.name, products.c.id))
    ]


def _lock_products(connection: Connection) -> None:
    """Serialize changes of products: a project is in at most one of them."""
    connection.execute(select(organizations.c.id).with_for_update(key_share=True)).all()


def _lock_product(connection: Connection, id: ProductId) -> Product:
    _lock_products(connection)
    found = next((each for each in _read_products(connection) if each.id == id), None)
    if found is None:
        raise NotFound("Product not found.")
    return found


def _check_unique(connection: Connection, product: Product) -> None:
    """Raise Invalid if another product has the name, or one of the projects."""
    others = [each for each in _read_products(connection) if each.id != product.id]
    if any(each.name == product.name for each in others):
        raise Invalid("There is a product with this name already.", attr="name", code="unique")
    taken = {each.project_id: other.name for other in others for each in other.environments}
    for number, environment in enumerate(product.environments):
        if environment.project_id in taken:
            raise Invalid(
                f"The project {environment.project_id} belongs to the product "
                f"{taken[environment.project_id]!r} already. A project belongs to one product.",
                attr=f"environments__{number}__project_id",
                code="unique",
            )


def _write_environments(connection: Connection, product: Product) -> None:
    connection.execute(delete(environments).where(environments.c.product_id == product.id))
    rows = [
        {
            "project_id": each.project_id,
            "product_id": product.id,
            "name": each.name,
            "position": number,
            "is_protected": each.is_protected,
        }
        for number, each in enumerate(product.environments)
    ]
    if rows:
        connection.execute(insert(environments), rows)


def _record(
    connection: Connection,
    what: str,
    before: Product | None,
    after: Product | None,
    actor: Actor,
    now: datetime,
) -> None:
    product = after or before
    assert product is not None
    entry = ActivityEntry(
        scope=SCOPE,
        item_id=str(product.id),
        item_name=product.name,
        activity=what,
        actor=actor,
        project_id=None,
        changes=diff_fields(SCOPE, get_audited_fields(before), get_audited_fields(after)),
    )
    activity.record(connection, entry, now)
