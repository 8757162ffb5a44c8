"""Undo changes of flags and cohorts, entry by entry of the activity log. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from hedgerow.flags.edits import public_value
from hedgerow.flags.flags import SCOPE as FLAG_SCOPE
from hedgerow.flags.model import Bucketing, Flag, FlagId, Runtime
from hedgerow.lib import jsonio
from hedgerow.persons.cohorts import SCOPE as COHORT_SCOPE
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import RecordedActivity

SCOPES = (FLAG_SCOPE, COHORT_SCOPE)
_COHORT_FIELDS = {
    "name": "name",
    "description": "description",
    "filters": "definition",
    "deleted": "deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDefinitions:
    """The flags and cohorts of one moment, with those that were deleted then. `changes` counts the
    later changes of each flag, `created_later` are the flags that did not exist. `gaps` has the
    scope and id of what changed without an entry in the activity log, with the field."""

    flags: Mapping[FlagId, Flag]
    cohorts: Mapping[CohortId, Cohort]
    changes: Mapping[FlagId, int]
    created_later: Mapping[FlagId, Flag]
    gaps: Mapping[tuple[str, int], str]
    # Those that are counted now.
    behaviors: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Rewinder:
    """Starts with the present flags and cohorts, deleted ones included. `undo` takes the entries
    newest first."""

    to: datetime
    flags: dict[FlagId, Flag]
    cohorts: dict[CohortId, Cohort]
    changes: dict[FlagId, int] = field(default_factory=dict)
    created_later: dict[FlagId, Flag] = field(default_factory=dict)
    gaps: dict[tuple[str, int], str] = field(default_factory=dict)

    def undo(self, recorded: RecordedActivity) -> None:
        if recorded.created_at <= self.to or not recorded.entry.item_id.isdecimal():
            return
        id = int(recorded.entry.item_id)
        if recorded.entry.scope == COHORT_SCOPE:
            self._undo_cohort(CohortId(id), recorded)
        elif FlagId(id) in self.flags:
            self._undo_flag(FlagId(id), recorded)

    def _undo_flag(self, id: FlagId, recorded: RecordedActivity) -> None:
        flag = self.flags[id]
        if recorded.entry.activity == "created":
            self.created_later[id] = self.flags.pop(id)
            return
        if not recorded.entry.changes:  # a report, such as that of a stale flag
            return
        self.changes[id] = self.changes.get(id, 0) + 1
        for change in recorded.entry.changes:
            if change.field not in _FLAG_FIELDS:
                continue
            if not jsonio.is_equal(public_value(flag, change.field), change.after):
                self.gaps.setdefault((FLAG_SCOPE, id), change.field)
            flag = replace(flag, **{change.field: _FLAG_FIELDS[change.field](change.before)})
        self.flags[id] = flag

    def _undo_cohort(self, id: CohortId, recorded: RecordedActivity) -> None:
        cohort = self.cohorts.get(id)
        if cohort is None:
            return
        if recorded.entry.activity == "created":
            del self.cohorts[id]
            return
        for change in recorded.entry.changes:
            name = _COHORT_FIELDS.get(change.field)
            if name is None:
                continue
            if not jsonio.is_equal(getattr(cohort, name), change.after):
                self.gaps.setdefault((COHORT_SCOPE, id), change.field)
            cohort = replace(cohort, **{name: change.before})
        self.cohorts[id] = cohort

    def finish(self) -> PastDefinitions:
        """Return the result. A flag or cohort without an entry of its creation has a date."""
        for id, flag in list(self.flags.items()):
            if flag.created_at > self.to:
                self.created_later[id] = self.flags.pop(id)
        return PastDefinitions(
            flags=self.flags,
            cohorts={id: each for id, each in self.cohorts.items() if each.created_at <= self.to},
            changes=self.changes,
            created_later=self.created_later,
            gaps=self.gaps,
        )


def _keep(value: Any) -> Any:
    return value


def _to_texts(value: Any) -> tuple[str, ...]:
    return tuple(value or ())


_FLAG_FIELDS = {
    "key": _keep,
    "name": _keep,
    "filters": _keep,
    "active": _keep,
    "deleted": _keep,
    "archived": _keep,
    "ensure_experience_continuity": _keep,
    "is_remote_configuration": _keep,
    "has_encrypted_payloads": _keep,
    "evaluation_runtime": Runtime,
    "bucketing_identifier": Bucketing,
    "evaluation_contexts": _to_texts,
    "tags": _to_texts,
    "owners": _to_texts,
}
