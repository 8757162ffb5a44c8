"""Operations on flags: create, change, delete, restore."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.edits import (
    NEW,
    EditBase,
    FlagFields,
    apply_fields,
    drop_unchanged_filters,
    public_value,
    rebase_edit,
)
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, Runtime
from hedgerow.flags.payloads import decrypt_payload, encrypt_payloads
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.flags.validate import (
    condition_sets,
    get_variants,
    referenced_cohort_ids,
    referenced_flag_ids,
    variant_keys,
)
from hedgerow.lib.encryption import Cipher
from hedgerow.persons.cohorts import referenced_cohorts
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
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
    "owners",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFilter:
    """Which flags to list; None means any. `type` is one of TYPES. `experimental` are the flags
    with an experiment. `stale_at` selects flags that are stale at that time, `tags` flags with one
    of these tags."""

    search: str = ""
    active: bool | None = None
    archived: bool | None = None
    created_by: str | None = None
    owner: str | None = None
    type: str | None = None
    experimental: Set[FlagId] = frozenset()
    stale_at: datetime | None = None
    tags: Set[str] = frozenset()

    def matches(self, flag: Flag) -> bool:
        needle = self.search.lower()
        return (
            (needle in flag.key.lower() or needle in flag.name.lower())
            and self.active in (None, flag.active)
            and self.archived in (None, flag.archived)
            and self.created_by in (None, flag.created_by)
            and (self.owner is None or self.owner in flag.owners)
            and self._is_of_type(flag)
            and (not self.tags or not self.tags.isdisjoint(flag.tags))
            and (self.stale_at is None or get_flag_status(flag, self.stale_at)[0] == STALE)
        )

    def _is_of_type(self, flag: Flag) -> bool:
        if self.type == "experiment":
            return flag.id in self.experimental
        return self.type in (None, get_flag_type(flag))


def get_flag_type(flag: Flag) -> str:
    if flag.is_remote_configuration:
        return "remote_config"
    return "multivariant" if variant_keys(flag.filters) else "boolean"


class Flags:
    def __init__(self, store: FlagStore, flag_cache: FlagCache, cipher: Cipher) -> None:
        self._store = store
        self._flag_cache = flag_cache
        self._cipher = cipher

    async def list_flags(self, project: Project, filter: FlagFilter) -> list[Flag]:
        """Return the flags that match a filter, newest first."""
        snapshot = await self._flag_cache.refresh(project)
        found = [flag for flag in snapshot.definitions.flags if filter.matches(flag)]
        return sorted(found, key=lambda flag: (flag.created_at, flag.id), reverse=True)

    def decrypt_payload(self, flag: Flag) -> Any:
        """Return the decrypted payload of a remote configuration."""
        return decrypt_payload(flag, self._cipher)

    async def find(self, project: Project, id_or_key: str, *, deleted_too: bool = False) -> Flag:
        """Find a flag by id, or else by key. A deleted flag is found by its id only."""
        flag = None
        if id_or_key.isascii() and id_or_key.isdecimal() and len(id_or_key) < 19:
            flag = await self._store.flag(project.id, FlagId(int(id_or_key)))
        if flag is None or flag.deleted:
            snapshot = await self._flag_cache.refresh(project)
            compiled = snapshot.get(id_or_key)
            flag = compiled.flag if compiled else flag
        if flag is None or (flag.deleted and not deleted_too):
            raise NotFound
        return flag

    async def refresh(self, project: Project) -> None:
        """Load the latest definitions, so that a client sees its own change."""
        await self._flag_cache.refresh(project)

    async def create(
        self, project: Project, fields: FlagFields, actor: Actor, now: datetime
    ) -> Flag:
        if fields.key is None:
            raise Invalid("This field is required.", attr="key", code="required")
        if fields.deleted:
            raise Invalid("A new flag cannot be deleted.", attr="deleted")

        def decide(definitions: FlagDefinitions, _: Callable[[FlagId], Flag | None]) -> FlagWrite:
            blank = new_flag(project, actor, now)
            sent = drop_unchanged_filters(blank, fields)
            flag = encrypt_payloads(blank, apply_fields(blank, sent, definitions), self._cipher)
            return FlagWrite(
                flag=flag, build_entry=lambda made: build_flag_entry("created", None, made, actor)
            )

        return await self._write(project, decide, now)

    async def change(
        self,
        project: Project,
        id: FlagId,
        fields: FlagFields,
        *,
        seen: EditBase | None,
        actor: Actor,
        now: datetime,
    ) -> Flag:
        def decide(
            definitions: FlagDefinitions, find: Callable[[FlagId], Flag | None]
        ) -> FlagWrite:
            before = find(id)
            if before is None:
                raise NotFound
            changed = fields if seen is None else rebase_edit(before, fields, seen)
            if before.deleted and changed.deleted is not False:
                raise NotFound
            by = Authorship(actor=actor, at=now)
            return build_change(before, changed, definitions, self._cipher, by)

        return await self._write(project, decide, now)

    async def list_dependents(self, project: Project, id: FlagId) -> list[Flag]:
        """Return the flags that depend on this one."""
        snapshot = await self._flag_cache.refresh(project)
        return [
            flag for flag in snapshot.definitions.flags if id in referenced_flag_ids(flag.filters)
        ]

    async def list_users_of_cohort(
        self, project: Project, id: CohortId
    ) -> tuple[list[Flag], list[Cohort]]:
        """Return the flags and the cohorts whose filters name a cohort."""
        definitions = (await self._flag_cache.refresh(project)).definitions
        flags = [each for each in definitions.flags if id in referenced_cohort_ids(each.filters)]
        cohorts = [
            each for each in definitions.cohorts if id in referenced_cohorts(each.definition)
        ]
        return flags, cohorts

    async def count_calls(self, flag: Flag) -> Mapping[str, int]:
        """Return how often SDKs reported calls of the flag, by its value."""
        return await self._store.call_counts(flag.project_id, flag.key)

    async def _write(
        self,
        project: Project,
        decide: Callable[[FlagDefinitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        flag = await self._store.write(project.id, decide, now)
        await self._flag_cache.refresh(project)
        return flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorship:
    """Who changes a flag, and when. `detail` adds to the activity entry."""

    actor: Actor
    at: datetime
    detail: Mapping[str, Any] = field(default_factory=dict)


def build_change(
    before: Flag,
    fields: FlagFields,
    definitions: FlagDefinitions,
    cipher: Cipher,
    by: Authorship,
) -> FlagWrite:
    """Return the changed flag to store. Raises Invalid if the flag cannot be changed so."""
    changed = drop_unchanged_filters(before, fields)
    after = encrypt_payloads(before, apply_fields(before, changed, definitions), cipher)
    if after == before:
        return FlagWrite(flag=before, build_entry=lambda _: None)
    after = replace(
        after,
        version=before.version + 1,
        updated_at=by.at,
        last_modified_by=describe_actor(by.actor),
    )
    activity = _activity_name(before, after)
    entry = replace(build_flag_entry(activity, before, after, by.actor), detail=by.detail)
    return FlagWrite(flag=after, build_entry=lambda _: entry)


def new_flag(project: Project, actor: Actor, now: datetime) -> Flag:
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
        created_by=describe_actor(actor),
        last_modified_by=describe_actor(actor),
        created_at=now,
        updated_at=now,
        last_called_at=None,
    )


def _activity_name(before: Flag, after: Flag) -> str:
    if after.deleted != before.deleted:
        return "deleted" if after.deleted else "restored"
    return "updated"


def describe_actor(actor: Actor) -> str:
    return actor.email or actor.name


def build_flag_entry(
    activity: str, before: Flag | None, after: Flag, actor: Actor
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(after.id),
        item_name=after.key,
        activity=activity,
        actor=actor,
        project_id=after.project_id,
        changes=diff_fields(SCOPE, _audited_fields(before), _audited_fields(after)),
    )


def _audited_fields(flag: Flag | None) -> dict[str, Any]:
    if flag is None:
        return {}
    return {name: public_value(flag, name) for name in AUDITED}


def get_flag_status(flag: Flag, now: datetime) -> tuple[str, str]:
    """Return ACTIVE, STALE or DELETED, and the reason."""
    if flag.deleted:
        return "DELETED", "Flag has been deleted"
    if not flag.active:  # as in PostHog's flag_status.py
        return "ACTIVE", "Flag is disabled and not checked for staleness"
    if flag.last_called_at is not None:
        if now - flag.last_called_at >= STALE_AFTER:
            days = (now - flag.last_called_at).days
            return STALE, f"Flag has not been called in {days} days"
        return "ACTIVE", "Flag is called"
    if now - flag.created_at >= STALE_AFTER and is_fully_rolled_out(flag):
        return STALE, "Flag is fully rolled out and gives everybody the same value"
    return "ACTIVE", "Flag is not fully rolled out and may still be in use"


def is_fully_rolled_out(flag: Flag) -> bool:
    whole = [
        group
        for group in condition_sets(flag.filters)
        if not group.get("properties") and group.get("rollout_percentage") in (None, 100)
    ]
    variants = get_variants(flag.filters)
    if not whole or not variants:
        return bool(whole)
    keys = variant_keys(flag.filters)
    return any(group.get("variant") in keys for group in whole) or any(
        variant.get("rollout_percentage") == 100 for variant in variants
    )
