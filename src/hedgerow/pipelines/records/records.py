"""Operations on pipeline records: create, change, delete, restore, rearrange, migrate."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.lib.clock import format_iso
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.tokens import generate_token
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.event_filters import check_filter_fields, check_settings
from hedgerow.pipelines.model import WEB_TOKEN_BITS, ComponentId, Record, RecordDraft, RecordId
from hedgerow.pipelines.records.audit import RecordAudit
from hedgerow.pipelines.records.ordering import renumber
from hedgerow.pipelines.secret_addresses import check_secrets_sent_again
from hedgerow.pipelines.store import RecordEdit, RecordKey, RecordQuery, RecordStore
from hedgerow.plugin.component import Component, Family, SettingsOrigin
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

MIN_SECRET_LENGTH = 8


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
    def __init__(self, store: RecordStore, catalogue: Catalogue, cipher: Cipher) -> None:
        self._store = store
        self._catalogue = catalogue
        self._cipher = cipher
        self._audit = RecordAudit(catalogue)

    def component(self, record: Record) -> Component | None:
        """The record's component; None when its package is no longer installed."""
        return self._catalogue.component(record.component_id)

    def settings(self, record: Record) -> Mapping[str, Any]:
        """Return the decrypted settings, for the component and the command line."""
        return settings.decrypt_settings(
            self._require_component(record), record.config, self._cipher
        )

    def usable_settings(self, record: Record) -> Mapping[str, Any]:
        """Return the decrypted settings, or raise Invalid for the first unusable one."""
        check_settings(self._require_component(record), record.config, self._cipher)
        return self.settings(record)

    async def list_records(self, query: RecordQuery) -> tuple[list[Record], int]:
        if query.search:
            needle = query.search.lower()
            listed = self._catalogue.list_components(query.family)
            query = replace(
                query,
                components_by_name=[
                    each.id for each in listed if needle in each.component.name.lower()
                ],
                components_by_description=[
                    each.id for each in listed if needle in each.component.description.lower()
                ],
            )
        return await self._store.records(query)

    async def generation(self, project_id: ProjectId) -> int:
        """Return a number that changes with the project's records."""
        return await self._store.generation(project_id)

    async def find(self, key: RecordKey, *, include_deleted: bool = False) -> Record:
        record = await self._store.record(key)
        if record is None or (record.deleted and not include_deleted):
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
        component = self._check_family(fields.component_id, family)
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
            web_token=generate_token("", WEB_TOKEN_BITS),
        )
        return await self._store.add(draft, self._audit.entry_builder(actor), idempotency_key, now)

    async def change(
        self,
        key: RecordKey,
        fields: RecordFields,
        actor: Actor,
        now: datetime,
        *,
        seen: str | None = None,
    ) -> Record:
        """Change a record. Raises Conflict if it was changed after `seen`, its `updated_at`."""
        if fields.component_id is not None:
            self._check_family(fields.component_id, key.family)

        def edit(before: Record) -> RecordEdit:
            if before.deleted and fields.deleted is not False:
                raise NotFound
            _check_unchanged(before, seen)
            after = self._apply_fields(before, fields)
            return RecordEdit(record=after, entry=self._audit.build_change(before, after, actor))

        return await self._store.edit(key, edit, self._audit.entry_builder(actor), now)

    async def delete(self, key: RecordKey, actor: Actor, now: datetime) -> None:
        await self.change(key, RecordFields(deleted=True), actor, now)

    async def set_config(
        self,
        key: RecordKey,
        given: Mapping[str, Any],
        *,
        whole: bool,
        actor: Actor,
        now: datetime,
        seen: str | None = None,
    ) -> Record:
        """Change settings. Raises Conflict if the record was changed after `seen`."""

        def edit(before: Record) -> RecordEdit:
            if before.deleted:
                raise NotFound
            _check_unchanged(before, seen)
            after = self.apply_settings(before, given, whole=whole)
            return RecordEdit(record=after, entry=self._audit.build_change(before, after, actor))

        return await self._store.edit(key, edit, self._audit.entry_builder(actor), now)

    def apply_settings(self, before: Record, given: Mapping[str, Any], *, whole: bool) -> Record:
        """Return the record with changed settings, or raise Invalid. Nothing is stored."""
        component = self._require_component(before)
        merge = settings.replace_settings if whole else settings.merge_settings
        stored = merge(component, before.config, given, self._cipher)
        check_filter_fields(component, stored, before.config)
        check_secrets_sent_again(component, before.config, stored, given)
        check_settings(component, stored, self._cipher)
        return replace(before, config=stored)

    async def migrate(
        self, key: RecordKey, to: ComponentId | None, actor: Actor, now: datetime
    ) -> Record:
        """Migrate to the installed version of the component, or to another one of the family."""
        if to is not None:
            self._check_family(to, key.family)

        def edit(before: Record) -> RecordEdit:
            if before.deleted:
                raise NotFound
            target_id = before.component_id if to is None else to
            target = self._check_family(target_id, key.family)
            config = self._migrate_settings(before, target)
            after = replace(
                before,
                component_id=target_id,
                component_version=target.version,
                config=config,
                # A record that now lacks a required setting is disabled until it is complete.
                enabled=before.enabled
                and (config is before.config or settings.is_complete(target, config)),
            )
            return RecordEdit(
                record=after, entry=self._audit.build_change(before, after, actor, "migrated")
            )

        return await self._store.edit(key, edit, self._audit.entry_builder(actor), now)

    async def rearrange(
        self,
        project_id: ProjectId,
        family: Family,
        orders: Mapping[RecordId, int],
        actor: Actor,
        now: datetime,
    ) -> list[Record]:
        """Move all named records to the given orders, or raise Invalid and move none."""

        def plan(current: Mapping[RecordId, int]) -> Mapping[RecordId, int]:
            for id in orders:
                if id not in current:
                    raise Invalid(
                        f'Invalid pk "{id}" - object does not exist.',
                        attr="orders",
                        code="does_not_exist",
                    )
            return renumber(current, orders) if orders else current

        return await self._store.rearrange(
            project_id, family, plan, self._audit.entry_builder(actor), now
        )

    async def move_component(
        self,
        project_id: ProjectId,
        family: Family,
        component_id: ComponentId,
        order: int,
        actor: Actor,
        now: datetime,
    ) -> list[Record]:
        """Move the oldest record that uses a component to an order, so that a repeated call changes
        nothing. Without a record, nothing moves."""
        self._check_family(component_id, family)
        ids = [
            record.id
            for record in await self._store.all_records(project_id)
            if record.family is family and record.component_id == component_id
        ]
        orders = {min(ids): order} if ids else {}
        return await self.rearrange(project_id, family, orders, actor, now)

    def _check_family(self, id: ComponentId, family: Family) -> Component:
        component = self._catalogue.component(id)
        if component is None:
            raise Invalid(
                f'Invalid pk "{id}" - object does not exist.', attr="plugin", code="does_not_exist"
            )
        if component.family is not family:
            kind = family.value.replace("_", " ")
            raise Invalid(f"{component.name} is not a component for {kind}s.", attr="plugin")
        return component

    def _require_component(self, record: Record) -> Component:
        component = self.component(record)
        if component is None:
            raise Invalid("The component of this record is not installed.", attr="plugin")
        return component

    def _apply_fields(self, before: Record, fields: RecordFields) -> Record:
        after = replace(
            before,
            enabled=before.enabled if fields.enabled is None else fields.enabled,
            order=before.order if fields.order is None else fields.order,
            name=before.name if fields.name is None else fields.name,
            description=before.description if fields.description is None else fields.description,
            deleted=before.deleted if fields.deleted is None else fields.deleted,
        )
        if fields.component_id is not None and fields.component_id != before.component_id:
            component = self._check_family(fields.component_id, before.family)
            after = replace(
                after,
                component_id=fields.component_id,
                component_version=component.version,
                config=self._public_settings(before, component),
            )
        return replace(after, enabled=after.enabled and not after.deleted)

    def _public_settings(self, record: Record, target: Component) -> Mapping[str, Any]:
        """Return the settings that both components have, without secrets: the other component may
        send them elsewhere."""
        shared = self._shared_settings(record, target)
        return {key: value for key, value in shared.items() if key not in target.secret_keys}

    def _shared_settings(self, record: Record, target: Component) -> Mapping[str, Any]:
        """Return the settings that both components have. A secret is kept only as a secret."""
        return {
            field.key: record.config[field.key]
            for field in target.settings
            if field.key in record.config
            and field.secret == settings.is_encrypted(record.config[field.key])
        }

    def _migrate_settings(self, record: Record, target: Component) -> Mapping[str, Any]:
        source = self.component(record)
        origin = SettingsOrigin(key=source.key if source else "", version=record.component_version)
        if origin == SettingsOrigin(key=target.key, version=target.version):
            return record.config
        if target.migrate_settings is None:
            if origin.key != target.key:
                was = source.name if source else "a component that is not installed"
                raise Invalid(
                    f"No migration available for this plugin: {target.name} "
                    f"cannot migrate the settings of {was}."
                )
            return self._shared_settings(record, target)
        plain = settings.decrypt_settings(source, record.config, self._cipher) if source else {}
        try:
            migrated = dict(target.migrate_settings(origin, plain))
        except Exception as reason:  # noqa: BLE001 - a package's migration may raise anything
            detail = f": {reason}" if isinstance(reason, ValueError) else ""
            raise Invalid(f"No migration available for this plugin{detail}") from None
        given = {key: value for key, value in migrated.items() if value is not None}
        secrets = {
            text
            for key in (source.secret_keys if source else ())
            for text in _iterate_texts(plain[key])
        }
        for key, value in given.items():
            if key not in target.secret_keys and any(
                _contains_secret(text, secrets) for text in _iterate_texts(value)
            ):
                raise Invalid(
                    f"No migration available for this plugin: {key} would expose a secret."
                )
        return settings.merge_settings(target, {}, given, self._cipher)


def _check_unchanged(record: Record, seen: str | None) -> None:
    if seen is not None and seen != format_iso(record.updated_at):
        raise Conflict(
            "The record was changed by somebody else since you began editing it. "
            "Load it again and repeat your change."
        )


def _contains_secret(text: str, secrets: Collection[str]) -> bool:
    """Whether a text is a secret or contains one. Short secrets occur in many texts by chance."""
    return text in secrets or any(
        len(each) >= MIN_SECRET_LENGTH and each in text for each in secrets
    )


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield every non-empty text inside a value."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _iterate_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_texts(inner)
