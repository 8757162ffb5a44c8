"""What somebody wants to change in a flag, laid over what is stored, or refused. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.model import MAX_FLAGS, TOO_MANY, Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.payloads import payloads_of, shown_filters
from hedgerow.flags.rules import (
    Surroundings,
    check_key,
    check_not_reserved,
    check_together,
    checked_filters,
    needed_ids,
)
from hedgerow.lib import jsonio
from hedgerow.projects.text import check_storable

NEW = FlagId(0)


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

    def had(self, name: str, value: Any) -> bool:
        fields = self.fields or {}
        return name in fields and jsonio.same(fields[name], value)


def changed_since(before: Flag, fields: FlagFields, seen: Seen) -> FlagFields:
    """The fields that the editor changed; what was sent back as it was seen stays as it is stored.
    Somebody else's change since then is in the way only where both changed the same field."""
    if seen.version == before.version:
        return fields
    changed = {}
    check_storable(fields.filters, "filters")  # else it cannot even be compared
    for name, value in fields.given().items():
        if seen.had(name, plain(value)):
            continue
        stored = shown(before, name)
        if not seen.had(name, stored) and not jsonio.same(plain(value), stored):
            raise Conflict(
                "The feature flag was updated by somebody else since you began editing it. "
                "Please refresh and try again."
            )
        changed[name] = value
    return FlagFields(**changed)


def shown(flag: Flag, name: str) -> Any:
    """A field as everybody may see it, in the types of JSON."""
    return shown_filters(flag) if name == "filters" else plain(getattr(flag, name))


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def checked(
    before: Flag, fields: FlagFields, definitions: Definitions, *, for_survey: bool = False
) -> Flag:
    """The flag with these fields, as it may be stored, or Invalid. A flag that has a key of surveys
    keeps it, but only they give such keys."""
    after = replace(before, **fields.given())
    others = {flag.id: flag for flag in definitions.flags if flag.id != before.id}
    if after.deleted:
        _check_not_needed(after, others, "deleted")
        after = replace(after, active=False)
        if fields == FlagFields(deleted=True):
            return after  # also one that breaks every rule can be deleted
    check_key(after.key, others)
    if after.key != before.key and not for_survey:
        check_not_reserved(after.key)
    is_added = before.id == NEW or before.deleted
    if is_added and len(others) >= MAX_FLAGS:
        raise Invalid(TOO_MANY)
    is_switched_on = after.active and not before.active
    if fields.filters is not None or is_added or is_switched_on:
        after = replace(after, filters=_checked_filters(after, fields, definitions, others))
    if before.active and not after.active and not after.deleted:
        _check_not_needed(after, others, "disabled")
    check_together(after)
    return after


def _checked_filters(
    after: Flag, fields: FlagFields, definitions: Definitions, others: Mapping[FlagId, Flag]
) -> dict[str, Any]:
    is_new = after.id == NEW
    around = Surroundings(
        cohorts={cohort.id: cohort for cohort in definitions.cohorts},
        flags=others,
        own_id=None if is_new else after.id,
    )
    filters = after.filters
    kept = {}
    if fields.filters is None and payloads_of(filters):
        # Stored payloads were checked when they came, and may be sealed by now.
        kept = {"payloads": filters["payloads"]}
        filters = {name: part for name, part in filters.items() if name != "payloads"}
    return {**checked_filters(filters, around, is_new=is_new), **kept}


def _check_not_needed(flag: Flag, others: Mapping[FlagId, Flag], verb: str) -> None:
    needing = [
        other.key
        for other in others.values()
        if other.active and flag.id in needed_ids(other.filters)
    ]
    if needing:
        raise Invalid(f"Cannot be {verb}: other flags depend on it ({', '.join(needing[:5])}).")
