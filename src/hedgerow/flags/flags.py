"""What can be done with flags: make, change, delete, restore."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from hedgerow.errors import Conflict, Invalid, NotFound
from hedgerow.flags.board import Board
from hedgerow.flags.model import MAX_FLAGS, REDACTED, Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.rules import (
    Surroundings,
    check_key,
    check_together,
    checked_filters,
    condition_sets,
    needed_ids,
    variant_keys,
    variants_of,
)
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.kit.sealing import CannotUnseal
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import Project

SCOPE = "FeatureFlag"
STALE_AFTER = timedelta(days=30)
NEW = FlagId(0)
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
class FlagFields:
    """The writable fields; None leaves one as it is, or at its default on a new flag."""

    key: str | None = None
    name: str | None = None
    filters: Any = None
    active: bool | None = None
    deleted: bool | None = None
    archived: bool | None = None
    ensure_experience_continuity: bool | None = None
    is_remote_configuration: bool | None = None
    has_encrypted_payloads: bool | None = None
    evaluation_runtime: Runtime | None = None
    bucketing_identifier: Bucketing | None = None
    evaluation_contexts: Sequence[str] | None = None
    tags: Sequence[str] | None = None

    def given(self) -> dict[str, Any]:
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an editor saw before editing: the version, and the flag's fields if they were sent."""

    version: int
    fields: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFilter:
    """Which flags to list; None means any. `type` is one of TYPES."""

    search: str = ""
    active: bool | None = None
    type: str | None = None

    def takes(self, flag: Flag) -> bool:
        needle = self.search.lower()
        return (
            (needle in flag.key.lower() or needle in flag.name.lower())
            and self.active in (None, flag.active)
            and self.type in (None, type_of(flag))
        )


def type_of(flag: Flag) -> str:
    if flag.is_remote_configuration:
        return "remote_config"
    return "multivariant" if variant_keys(flag.filters) else "boolean"


class Sealer(Protocol):
    def seal(self, value: Any) -> str: ...
    def unseal(self, sealed: str) -> Any: ...


class Flags:
    def __init__(self, store: FlagStore, board: Board, sealer: Sealer) -> None:
        self._store = store
        self._board = board
        self._sealer = sealer

    async def listing(self, project: Project, wanted: FlagFilter) -> list[Flag]:
        """The flags that a filter lets through, newest first."""
        snapshot = await self._board.refreshed(project)
        found = [flag for flag in snapshot.definitions.flags if wanted.takes(flag)]
        return sorted(found, key=lambda flag: (flag.created_at, flag.id), reverse=True)

    def shown_filters(self, flag: Flag) -> Mapping[str, Any]:
        """The definition as it may be shown: sealed payloads are not."""
        return with_payloads(flag.filters, lambda _: REDACTED) if _is_sealed(flag) else flag.filters

    def payload(self, flag: Flag) -> Any:
        """What a remote configuration holds, in the clear."""
        payload = (flag.filters.get("payloads") or {}).get("true")
        if payload is None or not _is_sealed(flag):
            return payload
        try:
            return self._sealer.unseal(payload)
        except CannotUnseal:
            raise Conflict(
                "This payload was sealed with a key that is not here. Bring the key back."
            ) from None

    async def find(self, project: Project, id_or_key: str, *, deleted_too: bool = False) -> Flag:
        """By id, else by key."""
        flag = None
        if id_or_key.isascii() and id_or_key.isdecimal() and len(id_or_key) < 19:
            flag = await self._store.flag(project.id, FlagId(int(id_or_key)))
        if flag is None:
            snapshot = await self._board.refreshed(project)
            compiled = snapshot.of(id_or_key)
            flag = compiled.flag if compiled else None
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

        def decide(definitions: Definitions, _: Callable[[FlagId], Flag | None]) -> FlagWrite:
            if len(definitions.flags) >= MAX_FLAGS:
                raise Invalid(f"A project may have {MAX_FLAGS} flags at most.")
            blank = blank_flag(project, actor, now)
            flag = _checked(blank, replace(blank, **fields.given()), fields, definitions)
            flag = self._sealed(blank, flag)
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
            if before is None or (before.deleted and fields.deleted is not False):
                raise NotFound
            if seen is not None:
                _check_conflict(before, fields, seen)
            after = _checked(before, replace(before, **fields.given()), fields, definitions)
            after = self._sealed(before, after)
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

    def _sealed(self, before: Flag, after: Flag) -> Flag:
        """With encrypted payloads sealed; one that is shown as redacted and sent back stays."""
        if not _is_sealed(after):
            return after
        stored = (before.filters.get("payloads") or {}) if _is_sealed(before) else {}

        def seal(name: str) -> str:
            payload = after.filters["payloads"][name]
            if payload == REDACTED or payload == stored.get(name):
                return str(stored.get(name, payload))
            return self._sealer.seal(payload)

        return replace(after, filters=with_payloads(after.filters, seal))

    async def _stored(
        self,
        project: Project,
        decide: Callable[[Definitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        flag = await self._store.write(project.id, decide, now)
        await self._board.refreshed(project)
        return flag


def _is_sealed(flag: Flag) -> bool:
    return flag.has_encrypted_payloads


def with_payloads(filters: Any, change: Callable[[str], str]) -> Any:
    payloads = filters.get("payloads") if isinstance(filters, Mapping) else None
    if not isinstance(payloads, Mapping):
        return filters
    return {**filters, "payloads": {name: change(name) for name in payloads}}


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


def _checked(before: Flag, after: Flag, fields: FlagFields, definitions: Definitions) -> Flag:
    """The flag as it may be stored, or Invalid."""
    others = {flag.id: flag for flag in definitions.flags if flag.id != before.id}
    if after.deleted:
        _check_not_needed(after, others, "deleted")
        return replace(after, active=False)
    check_key(after.key, others)
    is_switched_on = after.active and not before.active
    if fields.filters is not None or before.id == NEW or before.deleted or is_switched_on:
        around = Surroundings(
            cohorts={cohort.id: cohort for cohort in definitions.cohorts},
            flags=others,
            own_id=None if before.id == NEW else before.id,
        )
        payloads = {}
        filters = after.filters
        if fields.filters is None and "payloads" in filters:
            # Stored payloads were checked when they came, and may be sealed by now.
            payloads = {"payloads": filters["payloads"]}
            filters = {name: part for name, part in filters.items() if name != "payloads"}
        after = replace(after, filters={**checked_filters(filters, around), **payloads})
    if before.active and not after.active:
        _check_not_needed(after, others, "disabled")
    check_together(after)
    return after


def _check_not_needed(flag: Flag, others: Mapping[FlagId, Flag], verb: str) -> None:
    needing = [
        other.key
        for other in others.values()
        if other.active and flag.id in needed_ids(other.filters)
    ]
    if needing:
        raise Invalid(f"Cannot be {verb}: other flags depend on it ({', '.join(needing[:5])}).")


def _check_conflict(before: Flag, fields: FlagFields, seen: Seen) -> None:
    """Somebody else's change since then is in the way only where both changed the same field."""
    if seen.version == before.version:
        return
    for name, value in fields.given().items():
        stored = _plain(getattr(before, name))
        untouched = seen.fields is not None and seen.fields.get(name) == stored
        if not untouched and _plain(value) != stored:
            raise Conflict(
                "The feature flag was updated by somebody else since you began editing it. "
                "Please refresh and try again."
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
    audited = {name: _plain(getattr(flag, name)) for name in AUDITED}
    if _is_sealed(flag):
        audited["filters"] = with_payloads(flag.filters, lambda _: REDACTED)
    return audited


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def status_of(flag: Flag, now: datetime) -> tuple[str, str]:
    """ACTIVE, STALE or DELETED, and why."""
    if flag.deleted:
        return "DELETED", "Flag has been deleted"
    if flag.last_called_at is not None:
        if now - flag.last_called_at >= STALE_AFTER:
            days = (now - flag.last_called_at).days
            return "STALE", f"Flag has not been called in {days} days"
        return "ACTIVE", "Flag is called"
    if now - flag.created_at >= STALE_AFTER and gives_everybody_the_same(flag):
        return "STALE", "Flag is fully rolled out and gives everybody the same value"
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
