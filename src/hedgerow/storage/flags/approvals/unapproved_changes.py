"""Changes that policies by consequence let pass. Each counts together with later ones, so that many
small changes are not a way around a policy."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from hedgerow.flags.approvals.policies import COUNTED_HOURS
from hedgerow.flags.model import Bucketing, Flag, FlagId
from hedgerow.flags.validate import referenced_cohort_ids, referenced_flag_ids
from hedgerow.lib.dates import EPOCH
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.tables import unapproved_changes as table

# Changes of one object within this time have one row, so that an object has few.
ROW_TIME = timedelta(minutes=15)
FLAG, COHORT = "flag", "cohort"
_FLAG_FIELDS = ("key", "filters", "active", "deleted", "ensure_experience_continuity")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedVersion:
    """What an object was before a change. `object_id` is 0 if the change created the flag: `name`,
    the key, identifies it then."""

    project_id: ProjectId
    kind: str
    object_id: int
    name: str
    before: Mapping[str, Any]

    def is_of(self, flag: Flag) -> bool:
        """A flag that replaces another one of the same key is the same one."""
        is_same_id = self.object_id != 0 and self.object_id == flag.id
        return self.kind == FLAG and (is_same_id or self.name == flag.key)

    def rebuild_flag(self, like: Flag, id: FlagId) -> Flag:
        """Return the flag, as far as evaluation depends on it."""
        fields = dict(self.before)
        bucketing = Bucketing(fields.pop("bucketing_identifier"))
        return replace(like, id=id, bucketing_identifier=bucketing, **fields)

    def rebuild_cohort(self) -> Cohort:
        return Cohort(
            id=CohortId(self.object_id),
            project_id=self.project_id,
            name=self.name,
            description="",
            deleted=False,
            created_by="",
            created_at=EPOCH,
            updated_at=EPOCH,
            **self.before,
        )


def describe_replaced_flag(before: Flag | None, after: Flag) -> ReplacedVersion:
    flag = before or replace(after, deleted=True)
    fields = {name: getattr(flag, name) for name in _FLAG_FIELDS}
    return ReplacedVersion(
        project_id=flag.project_id,
        kind=FLAG,
        object_id=before.id if before else 0,
        name=flag.key,
        before={**fields, "bucketing_identifier": flag.bucketing_identifier.value},
    )


def describe_replaced_cohort(before: Cohort) -> ReplacedVersion:
    return ReplacedVersion(
        project_id=before.project_id,
        kind=COHORT,
        object_id=before.id,
        name=before.name,
        before={"definition": dict(before.definition), "is_static": before.is_static},
    )


def list_counted(
    connection: Connection, project_id: ProjectId, policy_id: str, now: datetime
) -> list[ReplacedVersion]:
    """Return what objects were before their changes that count for a policy, the oldest of each."""
    own = (table.c.project_id == project_id) & (table.c.counts_until > now)
    found: dict[tuple[str, Any], ReplacedVersion] = {}
    for row in connection.execute(select(table).where(own).order_by(table.c.id)):
        if policy_id in row.approved_by:
            continue
        identity = row.name if row.kind == FLAG else row.object_id
        found.setdefault(
            (row.kind, identity),
            ReplacedVersion(
                project_id=project_id,
                kind=row.kind,
                object_id=row.object_id,
                name=row.name,
                before=row.before,
            ),
        )
    return list(found.values())


def count_change(
    connection: Connection,
    version: ReplacedVersion,
    policy_ids: Collection[str],
    approved_by: Collection[str],
    now: datetime,
) -> None:
    """Store what an object was before a change, for those of the policies that did not approve it.
    An approval ends the count of earlier changes."""
    connection.execute(
        delete(table).where(
            (table.c.project_id == version.project_id) & (table.c.counts_until <= now)
        )
    )
    own = _is_same_object(version)
    if set(policy_ids) <= set(approved_by):
        connection.execute(delete(table).where(own))
        return
    rows = connection.execute(select(table).where(own).order_by(table.c.id)).all()
    if approved_by:
        for row in rows:
            all_ids = sorted({*row.approved_by, *approved_by})
            changed = update(table).where(table.c.id == row.id)
            connection.execute(changed.values(approved_by=all_ids))
        rows = []
    counts_until = _end_row(now) + timedelta(hours=COUNTED_HOURS)
    if any(row.counts_until == counts_until and not row.approved_by for row in rows):
        return
    values = {
        "project_id": version.project_id,
        "kind": version.kind,
        "object_id": version.object_id,
        "name": version.name,
        "before": dict(version.before),
        "approved_by": sorted(approved_by),
        "counts_until": counts_until,
    }
    connection.execute(insert(table), values)


def _is_same_object(version: ReplacedVersion) -> ColumnElement[bool]:
    own: ColumnElement[bool] = table.c.object_id == version.object_id
    if version.kind == FLAG:
        own = (table.c.name == version.name) | (own & (table.c.object_id != 0))
    return (table.c.project_id == version.project_id) & (table.c.kind == version.kind) & own


def _end_row(now: datetime) -> datetime:
    return EPOCH + ((now - EPOCH) // ROW_TIME + 1) * ROW_TIME


def select_used(
    versions: Iterable[ReplacedVersion], users: Iterable[Flag], flags: Sequence[Flag]
) -> list[Flag | Cohort]:
    """Return the earlier versions of what these flags depend on, also through others. `flags` are
    those of the project."""
    versions = list(versions)
    by_id = {each.id: each for each in flags}
    ids = {each.key: each.id for each in flags}
    earlier: dict[FlagId, Flag] = {}
    waiting = list(users)
    for each in versions:
        id = FlagId(each.object_id) or ids.get(each.name)
        if each.kind == FLAG and id:
            earlier[id] = each.rebuild_flag(waiting[0], id)
    found: dict[FlagId, Flag] = {}
    seen: set[FlagId] = set()
    uses_cohorts = False
    while waiting:
        flag = waiting.pop()
        uses_cohorts |= bool(referenced_cohort_ids(flag.filters))
        for id in referenced_flag_ids(flag.filters) - seen:
            seen.add(id)
            waiting += [each for each in (by_id.get(id), earlier.get(id)) if each]
            if id in earlier:
                found[id] = earlier[id]
    cohorts = [each.rebuild_cohort() for each in versions if each.kind == COHORT]
    return [*found.values(), *(cohorts if uses_cohorts else ())]
