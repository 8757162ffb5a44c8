"""What a flag may be called, which settings go together, and what its `filters` may hold. Invalid
names the exact place, such as `filters.groups[1].properties[0].value`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.rules import check_property, refuse
from hedgerow.flags.model import KEY_MAX, SURVEY_PREFIX, Bucketing, Flag, FlagId
from hedgerow.flags.questions import FLAG_OPERATOR
from hedgerow.lib import jsonio
from hedgerow.lib.text import cut_short
from hedgerow.persons.model import MAX_GROUP_TYPES, Cohort, CohortId
from hedgerow.persons.nesting import MAX_LEVELS, asked_cohort, asked_within, asks_behaviour
from hedgerow.projects.text import check_storable

MAX_BYTES = 512 * 1024
KINDS = ("person", "cohort", "group", "flag")

_KEY = re.compile(r"[a-zA-Z0-9_-]+")


def check_key(key: str, others: Mapping[FlagId, Flag]) -> None:
    if len(key) > KEY_MAX:
        raise Invalid(
            f"Ensure this field has no more than {KEY_MAX} characters.",
            attr="key",
            code="max_length",
        )
    if not _KEY.fullmatch(key):
        raise Invalid(
            "Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
            attr="key",
            code="invalid_key",
        )
    if any(flag.key == key for flag in others.values()):
        raise Invalid("There is already a feature flag with this key.", attr="key", code="unique")


def check_not_reserved(key: str) -> None:
    if key.startswith(SURVEY_PREFIX):
        raise Invalid(
            f'Keys that begin with "{SURVEY_PREFIX}" are kept for the flags that surveys make: '
            "such flags are not listed, exported or evaluated locally. Choose another key.",
            attr="key",
            code="reserved_key",
        )


def check_together(flag: Flag) -> None:
    """Settings that exclude each other."""
    by_device = flag.bucketing_identifier is Bucketing.DEVICE_ID
    if by_device and flag.ensure_experience_continuity:
        raise Invalid(
            "A flag that counts by device cannot also persist across authentication.",
            attr="bucketing_identifier",
        )
    if flag.has_encrypted_payloads and not flag.is_remote_configuration:
        raise Invalid(
            "Only remote configuration flags can have encrypted payloads.",
            attr="has_encrypted_payloads",
        )
    if flag.archived and flag.active:
        raise Invalid("An active flag cannot be archived: disable it first.", attr="archived")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a definition may refer to: the project's cohorts and its other flags."""

    cohorts: Mapping[CohortId, Cohort]
    flags: Mapping[FlagId, Flag]
    own_id: FlagId | None


def checked_filters(given: Any, around: Surroundings, *, is_new: bool) -> dict[str, Any]:
    """The filters as they are stored, or Invalid. A new flag needs a condition; one that is there
    may lose them all."""
    filters = dict(_object(given, "filters"))
    check_storable(filters, "filters")
    if len(jsonio.encode(filters)) > MAX_BYTES:
        refuse("filters", f"Filters may have {MAX_BYTES} bytes at most.", "max_length")
    groups = _list(filters.get("groups"), "filters.groups")
    if not groups and (is_new or filters.get("groups") is None):
        refuse("filters.groups", "A flag needs at least one condition set.", "required")
    flag_index = _group_index(filters.get("aggregation_group_type_index"), "filters")
    variants = _checked_variants(filters.get("multivariate"))
    indexes = set()
    for number, group in enumerate(groups):
        place = f"filters.groups[{number}]"
        indexes.add(_check_group(group, place, flag_index, variants, around))
    if len(indexes) > 1:
        # Conditions that count by different things cannot share one index.
        filters["groups"] = [
            {"aggregation_group_type_index": flag_index, **group} for group in groups
        ]
        filters["aggregation_group_type_index"] = None
    if filters.get("payloads") is not None:
        filters["payloads"] = _checked_payloads(filters["payloads"], variants)
    _check_super_groups(filters.get("super_groups"), variants, around)
    _check_holdout(filters.get("holdout"))
    _check_holdout_groups(filters.get("holdout_groups"))
    for name in ("feature_enrollment", "early_exit"):
        if not isinstance(filters.get(name), bool | None):
            refuse(f"filters.{name}", "Must be a valid boolean.")
    return filters


def _check_group(
    group: Any,
    place: str,
    flag_index: int | None,
    variants: Sequence[str],
    around: Surroundings,
) -> int | None:
    """One condition set; returns the group type that it counts by, None for persons."""
    group = _object(group, place)
    index = flag_index
    if "aggregation_group_type_index" in group:
        index = _group_index(group["aggregation_group_type_index"], place)
    if group.get("rollout_percentage") is not None:
        _percentage(group["rollout_percentage"], f"{place}.rollout_percentage")
    variant = group.get("variant")
    if variant is not None and variant not in variants:
        refuse(f"{place}.variant", f'"{cut_short(variant)}" is not one of the flag\'s variants.')
    properties = _list(group.get("properties"), f"{place}.properties")
    for number, filter in enumerate(properties):
        _check_filter(filter, f"{place}.properties[{number}]", index, around)
    return index


def _check_filter(filter: Any, place: str, index: int | None, around: Surroundings) -> None:
    filter = _object(filter, place)
    kind = filter.get("type", "person")
    if kind not in KINDS:
        refuse(f"{place}.type", f'"{cut_short(kind)}" is not a valid choice.', "invalid_choice")
    if not isinstance(filter.get("key"), str) or not filter["key"]:
        refuse(f"{place}.key", "This field is required.", "required")
    if index is None and kind == "group":
        refuse(f"{place}.type", "A condition on persons takes person, cohort and flag filters.")
    if index is not None and kind != "group":
        refuse(f"{place}.type", "A condition on groups takes group filters only.")
    if index is not None and not jsonio.same(filter.get("group_type_index", index), index):
        detail = f"A condition on groups takes filters of its own group type ({index}) only."
        refuse(f"{place}.group_type_index", detail)
    match kind:
        case "cohort":
            _check_cohort(filter, place, around)
        case "flag":
            _check_dependency(filter, place, around)
        case _:
            check_property(filter, place)


def _check_cohort(filter: Mapping[str, Any], place: str, around: Surroundings) -> None:
    if filter.get("operator") not in (None, "in", "not_in", "exact"):
        refuse(f"{place}.operator", "A cohort filter is in or not_in.", "unsupported_operator")
    cohort = _cohort(filter.get("value"), around.cohorts)
    if cohort is None:
        detail = f"Cohort {cut_short(filter.get('value'))} does not exist."
        refuse(f"{place}.value", detail, "cohort_does_not_exist")
    if not cohort.is_static:
        _check_asked(cohort, f"{place}.value", around.cohorts)


def _check_asked(cohort: Cohort, place: str, cohorts: Mapping[CohortId, Cohort]) -> None:
    """What a cohort asks must be something that flags can know."""
    asked = asked_within(cohort.definition, cohorts)
    if asked is None:
        detail = f"This cohort asks for others too deeply: {MAX_LEVELS} levels are possible."
        refuse(place, detail, "nested_too_deep")
    if asks_behaviour(asked):
        detail = "This cohort asks what people did, which flags cannot know."
        refuse(place, detail, "behavioral_cohort_found")
    missing = {asked_cohort(node) for node in asked} - cohorts.keys() - {None}
    if missing:
        detail = f"This cohort asks for cohort {missing.pop()}, which does not exist."
        refuse(place, detail, "cohort_does_not_exist")


def _cohort(value: Any, cohorts: Mapping[CohortId, Cohort]) -> Cohort | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    found = cohorts.get(CohortId(value))
    return None if found is None or found.deleted else found


def _check_dependency(filter: Mapping[str, Any], place: str, around: Surroundings) -> None:
    if filter.get("operator", FLAG_OPERATOR) != FLAG_OPERATOR:
        refuse(f"{place}.operator", f"A flag filter is {FLAG_OPERATOR}.", "unsupported_operator")
    key = filter["key"]
    id = FlagId(int(key)) if key.isdecimal() and len(key) < 19 else FlagId(0)
    needed = around.flags.get(id)
    if needed is None or needed.deleted or not needed.active:
        refuse(f"{place}.key", f"There is no active flag with the id {cut_short(key)}.")
    if id == around.own_id or around.own_id in _all_needed(id, around.flags):
        refuse(f"{place}.key", "A flag cannot depend on itself, not even through others.")
    value = filter.get("value")
    if not isinstance(value, bool) and value not in variant_keys(needed.filters):
        refuse(f"{place}.value", "True, false or a variant of that flag is required.")


def _all_needed(id: FlagId, flags: Mapping[FlagId, Flag]) -> set[FlagId]:
    found: set[FlagId] = set()
    waiting = [id]
    while waiting:
        flag = flags.get(waiting.pop())
        new = needed_ids(flag.filters) - found if flag else set()
        found |= new
        waiting += new
    return found


def needed_ids(filters: Mapping[str, Any]) -> set[FlagId]:
    """The flags that a definition asks about, as far as it can be read."""
    return {FlagId(id) for id in _named(filters, "flag", "key")}


def needed_cohorts(filters: Mapping[str, Any]) -> set[CohortId]:
    """The cohorts that a definition asks for, as far as it can be read."""
    return {CohortId(id) for id in _named(filters, "cohort", "value")}


def _named(filters: Any, kind: str, field: str) -> Iterator[int]:
    for group in (*condition_sets(filters), *super_groups(filters)):
        for filter in _sequence(group.get("properties")):
            if isinstance(filter, Mapping) and filter.get("type") == kind:
                text = str(filter.get(field))
                if text.isascii() and text.isdecimal() and len(text) < 19:
                    yield int(text)


def condition_sets(filters: Any) -> list[Mapping[str, Any]]:
    """The condition sets of whatever was stored."""
    return _groups(filters, "groups")


def super_groups(filters: Any) -> list[Mapping[str, Any]]:
    """The older form of enrolment, in whatever was stored: one at most."""
    return _groups(filters, "super_groups")[:1]


def _groups(filters: Any, name: str) -> list[Mapping[str, Any]]:
    groups = _sequence(filters.get(name) if isinstance(filters, Mapping) else None)
    return [group for group in groups if isinstance(group, Mapping)]


def variants_of(filters: Any) -> list[Mapping[str, Any]]:
    """The variants of whatever was stored."""
    multivariate = filters.get("multivariate") if isinstance(filters, Mapping) else None
    variants = multivariate.get("variants") if isinstance(multivariate, Mapping) else None
    return [variant for variant in _sequence(variants) if isinstance(variant, Mapping)]


def variant_keys(filters: Any) -> list[str]:
    return [str(variant.get("key")) for variant in variants_of(filters)]


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _checked_variants(multivariate: Any) -> list[str]:
    if multivariate is None:
        return []
    place = "filters.multivariate"
    variants = _list(_object(multivariate, place).get("variants"), f"{place}.variants")
    keys: list[str] = []
    total = 0.0
    for number, variant in enumerate(variants):
        at = f"{place}.variants[{number}]"
        key = _object(variant, at).get("key")
        if not isinstance(key, str) or not key:
            refuse(f"{at}.key", "This field is required.", "required")
        if key in keys:
            refuse(f"{at}.key", "Two variants have this key.", "unique")
        keys.append(key)
        total += _percentage(variant.get("rollout_percentage"), f"{at}.rollout_percentage")
    if variants and not math.isclose(total, 100, abs_tol=1e-6):
        refuse(
            f"{place}.variants",
            f"Variant rollout percentages must add up to 100, not {total:g}.",
        )
    return keys


def _checked_payloads(payloads: Any, variants: Sequence[str]) -> dict[str, Any]:
    """Every payload as JSON in a text."""
    place = "filters.payloads"
    allowed = list(variants) or ["true"]
    result = {}
    for key, value in _object(payloads, place).items():
        at = f"{place}.{cut_short(key)}"
        if key not in allowed:
            refuse(at, f"Payloads are for {cut_short(', '.join(allowed))} only.")
        if value is None:
            continue
        if isinstance(value, str):
            try:
                jsonio.parse(value.encode())
            except jsonio.JsonError:
                refuse(at, "Payload value is not valid JSON.")
            result[key] = value
        else:
            result[key] = jsonio.encode(value).decode()
    return result


def _check_holdout(holdout: Any) -> None:
    if holdout is None:
        return
    place = "filters.holdout"
    if _object(holdout, place).get("id") is None:
        refuse(f"{place}.id", "This field is required.", "required")
    _percentage(holdout.get("exclusion_percentage"), f"{place}.exclusion_percentage")


def _check_super_groups(groups: Any, variants: Sequence[str], around: Surroundings) -> None:
    """The older form of enrolment, of which the first alone counts."""
    if not _list(groups, "filters.super_groups"):
        return
    place = "filters.super_groups[0]"
    if _check_group(groups[0], place, None, variants, around) is not None:
        detail = "Enrolment is about persons, not about groups."
        refuse(f"{place}.aggregation_group_type_index", detail)


def _check_holdout_groups(groups: Any) -> None:
    """The older form of a holdout, of which the first alone counts."""
    if not _list(groups, "filters.holdout_groups"):
        return
    place = "filters.holdout_groups[0]"
    group = _object(groups[0], place)
    _list(group.get("properties"), f"{place}.properties")
    if group.get("rollout_percentage") is not None:
        _percentage(group["rollout_percentage"], f"{place}.rollout_percentage")
    if not isinstance(group.get("variant"), str | None):
        refuse(f"{place}.variant", "A text is required.")


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        refuse(place, f'Expected a dictionary of items but got type "{kind}".', "not_a_dict")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        kind = type(value).__name__
        refuse(place, f'Expected a list of items but got type "{kind}".', "not_a_list")
    return value


def _percentage(value: Any, place: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 100:
        refuse(place, "A number from 0 to 100 is required.")
    return float(value)


def _group_index(value: Any, place: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_GROUP_TYPES:
        refuse(
            f"{place}.aggregation_group_type_index",
            f"A whole number from 0 to {MAX_GROUP_TYPES - 1} is required.",
        )
    return value
