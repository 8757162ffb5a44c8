"""Apply the edit of a client to a stored flag, and validate the result. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.model import (
    MAX_FLAGS,
    MAX_PROJECT_BYTES,
    TOO_MANY_FLAGS,
    Bucketing,
    Flag,
    FlagDefinitions,
    FlagId,
    Runtime,
)
from hedgerow.flags.payloads import get_payloads, redact_filters
from hedgerow.flags.validate import (
    ValidationContext,
    check_filter_fields,
    check_key,
    check_not_reserved,
    check_setting_conflicts,
    referenced_flag_ids,
    referenced_flag_values,
    validate_filters,
    variant_keys,
)
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.projects.validation import check_storable

NEW = FlagId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFields:
    """The writable fields. None leaves a field unchanged, or at its default for a new flag."""

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
    owners: Sequence[str] | None = None

    def as_changes(self) -> dict[str, Any]:
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EditBase:
    """The state that a client edited: the version, and the fields of the flag if the client sent
    them."""

    version: int
    fields: Mapping[str, Any] | None

    def has_value(self, name: str, value: Any) -> bool:
        fields = self.fields or {}
        return name in fields and jsonio.is_equal(fields[name], value)


def rebase_edit(before: Flag, fields: FlagFields, seen: EditBase) -> FlagFields:
    """Return the fields that the client has changed; unchanged fields keep their stored values.
    Raises Conflict if another client has changed the same field."""
    if seen.version == before.version:
        return fields
    changed = {}
    check_storable(fields.filters, "filters")  # unstorable text cannot be compared
    for name, value in fields.as_changes().items():
        if seen.has_value(name, to_json_value(value)):
            continue
        stored = public_value(before, name)
        if not seen.has_value(name, stored) and not jsonio.is_equal(to_json_value(value), stored):
            raise Conflict(
                "The feature flag was updated by somebody else since you began editing it. "
                "Please refresh and try again."
            )
        changed[name] = value
    return FlagFields(**changed)


def drop_unchanged_filters(before: Flag, fields: FlagFields) -> FlagFields:
    """Return the fields without filters that a client sends back as they are: stored filters can be
    older than the checks. Raises Invalid for an unknown field in other filters."""
    if fields.filters is None:
        return fields
    if before.id != NEW and jsonio.is_equal(fields.filters, public_value(before, "filters")):
        return replace(fields, filters=None)
    check_filter_fields(fields.filters)
    return fields


def public_value(flag: Flag, name: str) -> Any:
    """Return a field as JSON, with redacted payloads."""
    return redact_filters(flag) if name == "filters" else to_json_value(getattr(flag, name))


def to_json_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def apply_fields(
    before: Flag, fields: FlagFields, definitions: FlagDefinitions, *, for_survey: bool = False
) -> Flag:
    """Return the flag with these fields. Raises Invalid if it cannot be stored. Only surveys can
    assign a key with the reserved prefix."""
    after = replace(before, **fields.as_changes())
    others = {flag.id: flag for flag in definitions.flags if flag.id != before.id}
    if after.deleted:
        _check_no_dependents(after, others, "deleted")
        after = replace(after, active=False)
        if fields == FlagFields(deleted=True):
            return after  # an invalid flag can be deleted too
    check_key(after.key, others)
    if after.key != before.key and not for_survey:
        check_not_reserved(after.key)
    is_added = before.id == NEW or before.deleted
    if is_added and len(others) >= MAX_FLAGS:
        raise Invalid(TOO_MANY_FLAGS)
    is_switched_on = after.active and not before.active
    if fields.filters is not None or is_added or is_switched_on:
        after = replace(after, filters=_checked_filters(after, fields, definitions, others))
        _check_total_size(before, after, others)
        _check_variants_unused(before, after, others)
    if before.active and not after.active and not after.deleted:
        _check_no_dependents(after, others, "disabled")
    check_setting_conflicts(after)
    return after


def _check_total_size(before: Flag, after: Flag, others: Mapping[FlagId, Flag]) -> None:
    """Every process that evaluates flags holds all filters of a project in memory."""
    size_bytes = len(jsonio.encode(after.filters))
    is_small = size_bytes <= MAX_PROJECT_BYTES // MAX_FLAGS
    if is_small or size_bytes <= len(jsonio.encode(before.filters)):
        return
    total_bytes = size_bytes + sum(len(jsonio.encode(each.filters)) for each in others.values())
    if total_bytes > MAX_PROJECT_BYTES:
        limit = MAX_PROJECT_BYTES >> 20
        detail = f"The flags of a project can have at most {limit} MiB of filters in total."
        raise Invalid(detail, attr="filters", code="max_length")


def _checked_filters(
    after: Flag, fields: FlagFields, definitions: FlagDefinitions, others: Mapping[FlagId, Flag]
) -> dict[str, Any]:
    is_new = after.id == NEW
    context = ValidationContext(
        cohorts={cohort.id: cohort for cohort in definitions.cohorts},
        flags=others,
        own_id=None if is_new else after.id,
    )
    filters = after.filters
    stored_payloads = {}
    if fields.filters is None and get_payloads(filters):
        # Stored payloads have been validated before, and may be encrypted.
        stored_payloads = {"payloads": filters["payloads"]}
        filters = {name: part for name, part in filters.items() if name != "payloads"}
    return {**validate_filters(filters, context, is_new=is_new), **stored_payloads}


def _check_no_dependents(flag: Flag, others: Mapping[FlagId, Flag], action: str) -> None:
    dependents = [
        other.key
        for other in others.values()
        if other.active and flag.id in referenced_flag_ids(other.filters)
    ]
    if dependents:
        raise Invalid(
            f"Cannot be {action}: other flags depend on it ({', '.join(dependents[:5])})."
        )


def _check_variants_unused(before: Flag, after: Flag, others: Mapping[FlagId, Flag]) -> None:
    """Raise Invalid if a variant is removed that an active flag depends on: its condition would
    match no one, or could no longer be stored."""
    removed = {*variant_keys(before.filters)} - {*variant_keys(after.filters)}
    if not removed:
        return
    for other in others.values():
        wanted = referenced_flag_values(other.filters, before.id) if other.active else set()
        if used := removed & wanted:
            variant = truncate(min(used))
            raise Invalid(
                f"The variant {variant!r} cannot be removed: the flag {other.key} depends on it.",
                attr="filters.multivariate.variants",
            )
