"""What can be done with flags: make, change, delete, restore."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import FlagCache
from hedgerow.flags.edits import NEW, FlagFields, Seen, changed_since, checked, shown
from hedgerow.flags.model import Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.payloads import Sealer, payload_in_the_clear, sealed
from hedgerow.flags.rules import (
    condition_sets,
    needed_ids,
    variant_keys,
    variants_of,
)
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import Project

SCOPE = "FeatureFlag"
STALE = "STALE"
STALE_AFTER = timedelta(days=30)
TYPES = ("boolean", "multivariant", "experiment", "remote_config")

AUDITED = (
    "key",
    "name",
    "filters",
    "active",
    "deleted",
    "archived",
    "ensure_experience_continuity",
    "is_remote_configuration",
    "has_encrypted_payloads",
    "evaluation_runtime",
    "bucketing_identifier",
    "evaluation_contexts",
    "tags",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFilter:
    """Which flags to list; None means any. `type` is one of TYPES; `experimental` are those with an
    experiment; `stale_at` asks for those that are of no use at that moment."""

    search: str = ""
    active: bool | None = None
    type: str | None = None
    experimental: Set[FlagId] = frozenset()
    stale_at: datetime | None = None

    def takes(self, flag: Flag) -> bool:
        needle = self.search.lower()
        return (
            (needle in flag.key.lower() or needle in flag.name.lower())
            and self.active in (None, flag.active)
            and self._is_of_type(flag)
            and (self.stale_at is None or status_of(flag, self.stale_at)[0] == STALE)
        )

    def _is_of_type(self, flag: Flag) -> bool:
        if self.type == "experiment":
            return flag.id in self.experimental
        return self.type in (None, type_of(flag))


def type_of(flag: Flag) -> str:
    if flag.is_remote_configuration:
        return "remote_config"
    return "multivariant" if variant_keys(flag.filters) else "boolean"


class Flags:
    def __init__(self, store: FlagStore, board: FlagCache, sealer: Sealer) -> None:
        self._store = store
        self._board = board
        self._sealer = sealer

    async def listing(self, project: Project, wanted: FlagFilter) -> list[Flag]:
        """The flags that a filter lets through, newest first."""
        snapshot = await self._board.refreshed(project)
        found = [flag for flag in snapshot.definitions.flags if wanted.takes(flag)]
        return sorted(found, key=lambda flag: (flag.created_at, flag.id), reverse=True)

    def payload(self, flag: Flag) -> Any:
        """What a remote configuration holds, in the clear."""
        return payload_in_the_clear(flag, self._sealer)

    async def find(self, project: Project, id_or_key: str, *, deleted_too: bool = False) -> Flag:
        """By id, else by key; the id of a deleted flag comes last."""
        flag = None
        if id_or_key.isascii() and id_or_key.isdecimal() and len(id_or_key) < 19:
            flag = await self._store.flag(project.id, FlagId(int(id_or_key)))
        if flag is None or flag.deleted:
            snapshot = await self._board.refreshed(project)
            compiled = snapshot.of(id_or_key)
            flag = compiled.flag if compiled else flag
        if flag is None or (flag.deleted and not deleted_too):
            raise NotFound
        return flag

    async def refresh(self, project: Project) -> None:
        """See what somebody has just changed, so that whoever changed it finds it changed."""
        await self._board.refreshed(project)

    async def create(
        self, project: Project, fields: FlagFields, actor: Actor, now: datetime
    ) -> Flag:
        if fields.key is None:
            raise Invalid("This field is required.", attr="key", code="required")
        if fields.deleted:
            raise Invalid("A flag is made before it is deleted.", attr="deleted")

        def decide(definitions: Definitions, _: Callable[[FlagId], Flag | None]) -> FlagWrite:
            blank = blank_flag(project, actor, now)
            flag = sealed(blank, checked(blank, fields, definitions), self._sealer)
            return FlagWrite(flag=flag, tell=lambda made: entry_of("created", None, made, actor))

        return await self._stored(project, decide, now)

    async def change(
        self,
        project: Project,
        id: FlagId,
        fields: FlagFields,
        *,
        seen: Seen | None,
        actor: Actor,
        now: datetime,
    ) -> Flag:
        def decide(definitions: Definitions, find: Callable[[FlagId], Flag | None]) -> FlagWrite:
            before = find(id)
            if before is None:
                raise NotFound
            wanted = fields if seen is None else changed_since(before, fields, seen)
            if before.deleted and wanted.deleted is not False:
                raise NotFound
            after = sealed(before, checked(before, wanted, definitions), self._sealer)
            if after == before:
                return FlagWrite(flag=before, tell=lambda _: None)
            after = replace(
                after, version=before.version + 1, updated_at=now, last_modified_by=person_of(actor)
            )
            verb = _verb(before, after)
            return FlagWrite(flag=after, tell=lambda _: entry_of(verb, before, after, actor))

        return await self._stored(project, decide, now)

    async def dependent(self, project: Project, id: FlagId) -> list[Flag]:
        """The flags that ask about this one."""
        snapshot = await self._board.refreshed(project)
        return [flag for flag in snapshot.definitions.flags if id in needed_ids(flag.filters)]

    async def calls(self, flag: Flag) -> Mapping[str, int]:
        """How often apps said that they asked for it, by what it answered."""
        return await self._store.call_counts(flag.project_id, flag.key)

    async def _stored(
        self,
        project: Project,
        decide: Callable[[Definitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        flag = await self._store.write(project.id, decide, now)
        await self._board.refreshed(project)
        return flag


def blank_flag(project: Project, actor: Actor, now: datetime) -> Flag:
    return Flag(
        id=NEW,
        project_id=project.id,
        key="",
        name="",
        filters={},
        active=True,
        deleted=False,
        archived=False,
        version=1,
        ensure_experience_continuity=False,
        is_remote_configuration=False,
        has_encrypted_payloads=False,
        evaluation_runtime=Runtime.ALL,
        bucketing_identifier=Bucketing.DISTINCT_ID,
        evaluation_contexts=(),
        tags=(),
        created_by=person_of(actor),
        last_modified_by=person_of(actor),
        created_at=now,
        updated_at=now,
        last_called_at=None,
    )


def _verb(before: Flag, after: Flag) -> str:
    if after.deleted != before.deleted:
        return "deleted" if after.deleted else "restored"
    return "updated"


def person_of(actor: Actor) -> str:
    return actor.email or actor.name


def entry_of(verb: str, before: Flag | None, after: Flag, actor: Actor) -> Entry:
    return Entry(
        scope=SCOPE,
        item_id=str(after.id),
        item_name=after.key,
        activity=verb,
        actor=actor,
        project_id=after.project_id,
        changes=differences(SCOPE, _audited(before), _audited(after)),
    )


def _audited(flag: Flag | None) -> dict[str, Any]:
    if flag is None:
        return {}
    return {name: shown(flag, name) for name in AUDITED}


def status_of(flag: Flag, now: datetime) -> tuple[str, str]:
    """ACTIVE, STALE or DELETED, and why."""
    if flag.deleted:
        return "DELETED", "Flag has been deleted"
    if flag.last_called_at is not None:
        if now - flag.last_called_at >= STALE_AFTER:
            days = (now - flag.last_called_at).days
            return STALE, f"Flag has not been called in {days} days"
        return "ACTIVE", "Flag is called"
    if now - flag.created_at >= STALE_AFTER and gives_everybody_the_same(flag):
        return STALE, "Flag is fully rolled out and gives everybody the same value"
    return "ACTIVE", "Flag is not fully rolled out and may still be in use"


def gives_everybody_the_same(flag: Flag) -> bool:
    whole = [
        group
        for group in condition_sets(flag.filters)
        if not group.get("properties") and group.get("rollout_percentage") in (None, 100)
    ]
    variants = variants_of(flag.filters)
    if not whole or not variants:
        return bool(whole)
    keys = variant_keys(flag.filters)
    return any(group.get("variant") in keys for group in whole) or any(
        variant.get("rollout_percentage") == 100 for variant in variants
    )
