"""What can be done with pipeline records: make, change, delete, restore, rearrange, migrate."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.lib.tokens import random_token
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.arrange import dense
from hedgerow.pipelines.audit import Audit
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component, Origin
from hedgerow.pipelines.config import Sealer
from hedgerow.pipelines.filters import check_settings
from hedgerow.pipelines.model import (
    WEB_TOKEN_BITS,
    ComponentId,
    Family,
    Record,
    RecordDraft,
    RecordId,
)
from hedgerow.pipelines.store import Edited, Place, RecordQuery, RecordStore
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

TELLING = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """The writable fields; None leaves one as it is, or at its default on a new record."""

    component_id: ComponentId | None = None
    enabled: bool | None = None
    order: int | None = None
    name: str | None = None
    description: str | None = None
    deleted: bool | None = None


class Records:
    def __init__(self, store: RecordStore, catalogue: Catalogue, sealer: Sealer) -> None:
        self._store = store
        self._catalogue = catalogue
        self._sealer = sealer
        self._audit = Audit(catalogue)

    def component(self, record: Record) -> Component | None:
        """The record's component; None when its package is no longer installed."""
        return self._catalogue.component(record.component_id)

    def settings(self, record: Record) -> Mapping[str, Any]:
        """The record's settings in the clear, for the component's own code and the terminal."""
        return settings.unsealed(self._present(record), record.config, self._sealer)

    def usable_settings(self, record: Record) -> Mapping[str, Any]:
        """The same, or Invalid for the first that cannot be used."""
        check_settings(self._present(record), record.config, self._sealer)
        return self.settings(record)

    async def listing(self, query: RecordQuery) -> tuple[list[Record], int]:
        if query.search:
            needle = query.search.lower()
            listed = self._catalogue.of_family(query.family)
            query = replace(
                query,
                named_alike=[each.id for each in listed if needle in each.component.name.lower()],
                described_alike=[
                    each.id for each in listed if needle in each.component.description.lower()
                ],
            )
        return await self._store.records(query)

    async def generation(self, project_id: ProjectId) -> int:
        """A number that moves with every change of the project's records."""
        return await self._store.generation(project_id)

    async def find(self, place: Place, *, deleted_too: bool = False) -> Record:
        record = await self._store.record(place)
        if record is None or (record.deleted and not deleted_too):
            raise NotFound
        return record

    async def create(
        self,
        project_id: ProjectId,
        family: Family,
        fields: RecordFields,
        *,
        idempotency_key: str | None,
        actor: Actor,
        now: datetime,
    ) -> Record:
        if fields.component_id is None:
            raise Invalid("This field is required.", attr="plugin", code="required")
        component = self._of_family(fields.component_id, family)
        draft = RecordDraft(
            project_id=project_id,
            family=family,
            component_id=fields.component_id,
            component_version=component.version,
            enabled=bool(fields.enabled) and not fields.deleted,
            order=fields.order,
            name=fields.name or "",
            description=fields.description or "",
            deleted=bool(fields.deleted),
            web_token=random_token("", WEB_TOKEN_BITS),
        )
        return await self._store.add(draft, self._audit.teller(actor), idempotency_key, now)

    async def change(
        self, place: Place, fields: RecordFields, actor: Actor, now: datetime
    ) -> Record:
        if fields.component_id is not None:
            self._of_family(fields.component_id, place.family)

        def edit(before: Record) -> Edited:
            if before.deleted and fields.deleted is not False:
                raise NotFound
            after = self._with(before, fields)
            return Edited(record=after, entry=self._audit.change(before, after, actor))

        return await self._store.edit(place, edit, self._audit.teller(actor), now)

    async def delete(self, place: Place, actor: Actor, now: datetime) -> None:
        await self.change(place, RecordFields(deleted=True), actor, now)

    async def set_config(
        self,
        place: Place,
        given: Mapping[str, Any],
        *,
        whole: bool,
        actor: Actor,
        now: datetime,
    ) -> Record:
        def edit(before: Record) -> Edited:
            if before.deleted:
                raise NotFound
            component = self._present(before)
            merge = settings.replaced if whole else settings.changed
            stored = merge(component, before.config, given, self._sealer)
            check_settings(component, stored, self._sealer)
            after = replace(before, config=stored)
            return Edited(record=after, entry=self._audit.change(before, after, actor))

        return await self._store.edit(place, edit, self._audit.teller(actor), now)

    async def migrate(
        self, place: Place, to: ComponentId | None, actor: Actor, now: datetime
    ) -> Record:
        """Move to the component's newest version, or to another component of the family."""
        if to is not None:
            self._of_family(to, place.family)

        def edit(before: Record) -> Edited:
            if before.deleted:
                raise NotFound
            target_id = before.component_id if to is None else to
            target = self._of_family(target_id, place.family)
            config = self._adopted(before, target)
            after = replace(
                before,
                component_id=target_id,
                component_version=target.version,
                config=config,
                # What still lacks a setting cannot work: somebody must look at it first.
                enabled=before.enabled and settings.is_complete(target, config),
            )
            return Edited(record=after, entry=self._audit.change(before, after, actor, "migrated"))

        return await self._store.edit(place, edit, self._audit.teller(actor), now)

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        wanted: Mapping[RecordId, int],
        actor: Actor,
        now: datetime,
    ) -> list[Record]:
        """Move the named records where they were asked to be: all of them, or none and say why."""

        def plan(current: Mapping[RecordId, int]) -> Mapping[RecordId, int]:
            for id in wanted:
                if id not in current:
                    raise Invalid(
                        f'Invalid pk "{id}" - object does not exist.',
                        attr="orders",
                        code="does_not_exist",
                    )
            return dense(current, wanted) if wanted else current

        return await self._store.rearrange(project_id, family, plan, self._audit.teller(actor), now)

    async def move_component(
        self,
        project_id: ProjectId,
        family: Family,
        component_id: ComponentId,
        order: int,
        actor: Actor,
        now: datetime,
    ) -> list[Record]:
        """The other form of rearrange: the record that uses a component goes to a place."""
        self._of_family(component_id, family)
        found, _ = await self._store.records(
            RecordQuery(project_id=project_id, family=family, component_id=component_id, limit=2)
        )
        if len(found) != 1:
            reason = "No record uses" if not found else "Several records use"
            raise Invalid(f"{reason} this component: name one in orders.", attr="plugin")
        return await self.rearrange(project_id, family, {found[0].id: order}, actor, now)

    def _of_family(self, id: ComponentId, family: Family) -> Component:
        component = self._catalogue.component(id)
        if component is None:
            raise Invalid(
                f'Invalid pk "{id}" - object does not exist.', attr="plugin", code="does_not_exist"
            )
        if component.family is not family:
            kind = family.value.replace("_", " ")
            raise Invalid(f"{component.name} is no component for a {kind}.", attr="plugin")
        return component

    def _present(self, record: Record) -> Component:
        component = self.component(record)
        if component is None:
            raise Invalid("The component of this record is not installed.", attr="plugin")
        return component

    def _with(self, before: Record, fields: RecordFields) -> Record:
        after = replace(
            before,
            enabled=before.enabled if fields.enabled is None else fields.enabled,
            order=before.order if fields.order is None else fields.order,
            name=before.name if fields.name is None else fields.name,
            description=before.description if fields.description is None else fields.description,
            deleted=before.deleted if fields.deleted is None else fields.deleted,
        )
        if fields.component_id is not None and fields.component_id != before.component_id:
            component = self._of_family(fields.component_id, before.family)
            after = replace(
                after,
                component_id=fields.component_id,
                component_version=component.version,
                config=self._matching(before, component),
            )
        return replace(after, enabled=after.enabled and not after.deleted)

    def _matching(self, record: Record, target: Component) -> Mapping[str, Any]:
        """The settings that both components have; a secret stays a secret or goes."""
        return {
            field.key: record.config[field.key]
            for field in target.settings
            if field.key in record.config
            and field.secret == settings.is_sealed(record.config[field.key])
        }

    def _adopted(self, record: Record, target: Component) -> Mapping[str, Any]:
        source = self.component(record)
        origin = Origin(key=source.key if source else "", version=record.component_version)
        if origin == Origin(key=target.key, version=target.version):
            return record.config
        if target.adopt is None:
            if origin.key != target.key:
                was = source.name if source else "a component that is not installed"
                raise Invalid(
                    f"No migration available for this plugin: {target.name} "
                    f"has no rule for the settings of {was}."
                )
            return self._matching(record, target)
        plain = settings.unsealed(source, record.config, self._sealer) if source else {}
        try:
            adopted = dict(target.adopt(origin, plain))
        except Exception as reason:  # noqa: BLE001 - somebody else's rule may raise anything
            said = f": {reason}" if isinstance(reason, ValueError) else ""
            raise Invalid(f"No migration available for this plugin{said}") from None
        given = {key: value for key, value in adopted.items() if value is not None}
        secrets = {
            text for key in (source.secret_keys if source else ()) for text in _texts(plain[key])
        }
        for key, value in given.items():
            if key not in target.secret_keys and any(
                _tells(text, secrets) for text in _texts(value)
            ):
                raise Invalid(f"No migration available for this plugin: {key} would be no secret.")
        return settings.changed(target, {}, given, self._sealer)


def _tells(text: str, secrets: Collection[str]) -> bool:
    """Whether a text is a secret or holds one. A short one is in many texts by chance."""
    return text in secrets or any(len(each) >= TELLING and each in text for each in secrets)


def _texts(value: Any) -> Iterator[str]:
    """Every text inside a value that is not empty."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
