"""Validate a flag: its key, its settings and its `filters`. Invalid names the exact path, such
as `filters.groups[1].properties[0].value`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.validate import (
    check_pattern_count,
    check_property_filter,
    is_pattern,
    raise_invalid,
)
from hedgerow.flags.evaluation.predicates import FLAG_OPERATOR
from hedgerow.flags.known_fields import FLAG_FILTERS
from hedgerow.flags.model import KEY_MAX_CHARS, SURVEY_PREFIX, Bucketing, Flag, FlagId
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.persons.behaviors.filters import (
    iterate_behavioral_filters,
    parse_behavioral_filter,
)
from hedgerow.persons.cohort_graph import CohortGraph, CohortTooLarge, collect_definitions
from hedgerow.persons.model import MAX_GROUP_TYPES, Cohort, CohortId
from hedgerow.projects.validation import check_known_fields, check_storable

MAX_FILTERS_BYTES = 512 * 1024
FILTER_TYPES = ("person", "cohort", "group", "flag")

_KEY = re.compile(r"[a-zA-Z0-9_-]+")


def check_key(key: str, others: Mapping[FlagId, Flag]) -> None:
    if len(key) > KEY_MAX_CHARS:
        raise Invalid(
            f"Ensure this field has no more than {KEY_MAX_CHARS} characters.",
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


def check_setting_conflicts(flag: Flag) -> None:
    """Reject settings that exclude each other."""
    by_device = flag.bucketing_identifier is Bucketing.DEVICE_ID
    if by_device and flag.ensure_experience_continuity:
        raise Invalid(
            "A flag with device bucketing cannot also persist across authentication.",
            attr="bucketing_identifier",
        )
    if flag.has_encrypted_payloads and not flag.is_remote_configuration:
        raise Invalid(
            "Only remote configuration flags can have encrypted payloads.",
            attr="has_encrypted_payloads",
        )
    if flag.archived and flag.active:
        raise Invalid("An active flag cannot be archived: disable it first.", attr="archived")


@dataclass(frozen=True, kw_only=True)
class ValidationContext:
    """The cohorts and other flags of the project, which filters can refer to. A definition can
    name the same cohort or flag many times: results are kept. Contexts of the same cohorts can
    share `supported_cohorts` and `known_graph`."""

    cohorts: Mapping[CohortId, Cohort]
    flags: Mapping[FlagId, Flag]
    own_id: FlagId | None
    supported_cohorts: set[CohortId] = field(default_factory=set)
    known_graph: CohortGraph | None = None

    @cached_property
    def graph(self) -> CohortGraph:
        return self.known_graph or CohortGraph(collect_definitions(self.cohorts.values()))

    @cached_property
    def dependants(self) -> set[FlagId]:
        """The flag itself, and the flags that depend on it, directly or through others."""
        if self.own_id is None:
            return set()
        return FlagDependencies(self.flags.values()).find_dependants((self.own_id,))


def check_filter_fields(filters: Any, place: str = "filters") -> None:
    """Reject unknown fields in filters that a client sends. A misspelled field would have no
    effect, and the flag would match more people than intended."""
    check_storable(filters, place)
    check_known_fields(filters, FLAG_FILTERS, place)
    for name in ("groups", "super_groups"):
        for number, group in enumerate(_groups(filters, name)):
            for index, filter in enumerate(_sequence(group.get("properties"))):
                if isinstance(filter, Mapping) and filter.get("negation"):
                    raise_invalid(
                        f"{place}.{name}[{number}].properties[{index}].negation",
                        "Flags do not support negation. Use the opposite operator, such as is_not.",
                        "not_supported",
                    )


def validate_filters(value: Any, context: ValidationContext, *, is_new: bool) -> dict[str, Any]:
    """Return the filters in the form to be stored. Raises Invalid. A new flag needs a condition;
    an existing one can lose all of them."""
    filters = dict(_check_object(value, "filters"))
    check_storable(filters, "filters")
    if len(jsonio.encode(filters)) > MAX_FILTERS_BYTES:
        raise_invalid(
            "filters", f"The filters can have at most {MAX_FILTERS_BYTES} bytes.", "max_length"
        )
    groups = _check_list(filters.get("groups"), "filters.groups")
    check_pattern_count(_count_patterns(filters), "filters.groups")
    if not groups and (is_new or filters.get("groups") is None):
        raise_invalid("filters.groups", "A flag needs at least one condition set.", "required")
    flag_index = _check_group_index(filters.get("aggregation_group_type_index"), "filters")
    variants = _validate_variants(filters.get("multivariate"))
    indexes = set()
    for number, group in enumerate(groups):
        place = f"filters.groups[{number}]"
        indexes.add(_check_group(group, place, flag_index, variants, context))
    if len(indexes) > 1:
        # Conditions with different group types cannot share one index.
        filters["groups"] = [
            {"aggregation_group_type_index": flag_index, **group} for group in groups
        ]
        filters["aggregation_group_type_index"] = None
    if filters.get("payloads") is not None:
        filters["payloads"] = _validate_payloads(filters["payloads"], variants)
    _check_super_groups(filters.get("super_groups"), variants, context)
    _check_holdout(filters.get("holdout"))
    _check_holdout_groups(filters.get("holdout_groups"))
    for name in ("feature_enrollment", "early_exit"):
        if not isinstance(filters.get(name), bool | None):
            raise_invalid(f"filters.{name}", "Must be a valid boolean.")
    return filters


def _count_patterns(filters: Any) -> int:
    groups = (*condition_sets(filters), *super_groups(filters))
    return sum(is_pattern(each) for group in groups for each in _sequence(group.get("properties")))


def _check_group(
    group: Any,
    place: str,
    flag_index: int | None,
    variants: Sequence[str],
    context: ValidationContext,
) -> int | None:
    """Check one condition set. Returns its group type, None for persons."""
    group = _check_object(group, place)
    index = flag_index
    if "aggregation_group_type_index" in group:
        index = _check_group_index(group["aggregation_group_type_index"], place)
    if group.get("rollout_percentage") is not None:
        _check_percentage(group["rollout_percentage"], f"{place}.rollout_percentage")
    variant = group.get("variant")
    if variant is not None and variant not in variants:
        raise_invalid(
            f"{place}.variant", f'"{truncate(variant)}" is not one of the flag\'s variants.'
        )
    properties = _check_list(group.get("properties"), f"{place}.properties")
    for number, filter in enumerate(properties):
        _check_filter(filter, f"{place}.properties[{number}]", index, context)
    return index


def _check_filter(filter: Any, place: str, index: int | None, context: ValidationContext) -> None:
    filter = _check_object(filter, place)
    kind = filter.get("type", "person")
    if kind not in FILTER_TYPES:
        raise_invalid(
            f"{place}.type", f'"{truncate(kind)}" is not a valid choice.', "invalid_choice"
        )
    if not isinstance(filter.get("key"), str) or not filter["key"]:
        raise_invalid(f"{place}.key", "This field is required.", "required")
    if index is None and kind == "group":
        raise_invalid(
            f"{place}.type", "A condition on persons supports person, cohort and flag filters only."
        )
    if index is not None and kind != "group":
        raise_invalid(f"{place}.type", "A condition on groups supports group filters only.")
    if index is not None and not jsonio.is_equal(filter.get("group_type_index", index), index):
        detail = f"A condition on groups supports filters on its own group type ({index}) only."
        raise_invalid(f"{place}.group_type_index", detail)
    match kind:
        case "cohort":
            _check_cohort(filter, place, context)
        case "flag":
            _check_dependency(filter, place, context)
        case _:
            check_property_filter(filter, place)


def _check_cohort(filter: Mapping[str, Any], place: str, context: ValidationContext) -> None:
    if filter.get("operator") not in (None, "in", "not_in", "exact"):
        raise_invalid(f"{place}.operator", "Expected one of: in, not_in.", "unsupported_operator")
    cohort = _find_cohort(filter.get("value"), context.cohorts)
    if cohort is None:
        detail = f"Cohort {truncate(filter.get('value'))} does not exist."
        raise_invalid(f"{place}.value", detail, "cohort_does_not_exist")
    if not cohort.is_static:
        _check_cohort_supported(cohort.id, f"{place}.value", context)


def _check_cohort_supported(id: CohortId, place: str, context: ValidationContext) -> None:
    """Reject cohorts that flags cannot evaluate."""
    if id in context.supported_cohorts:
        return
    try:
        order = context.graph.order(id)
    except CohortTooLarge as error:
        raise_invalid(place, error.detail, error.code)
    for each in order:
        outline = context.graph.outline(each)
        if outline is not None and outline.is_behavioral:
            _check_behaviors(context.cohorts[each], place)
        if each not in context.cohorts:
            detail = f"The cohort refers to cohort {each}, which does not exist."
            raise_invalid(place, detail, "cohort_does_not_exist")
    context.supported_cohorts.add(id)


def _check_behaviors(cohort: Cohort, place: str) -> None:
    """Reject behavioral filters that are older than their checks."""
    for filter in iterate_behavioral_filters(cohort.definition):
        try:
            parse_behavioral_filter(filter)
        except Invalid as error:
            detail = f"The cohort has a behavioral filter that cannot be used. {error.detail}"
            raise_invalid(place, detail, "behavioral_cohort_found")


def _find_cohort(value: Any, cohorts: Mapping[CohortId, Cohort]) -> Cohort | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    found = cohorts.get(CohortId(value))
    return None if found is None or found.deleted else found


def _check_dependency(filter: Mapping[str, Any], place: str, context: ValidationContext) -> None:
    if filter.get("operator", FLAG_OPERATOR) != FLAG_OPERATOR:
        raise_invalid(
            f"{place}.operator", f"Expected the operator `{FLAG_OPERATOR}`.", "unsupported_operator"
        )
    key = filter["key"]
    id = FlagId(int(key)) if key.isdecimal() and len(key) < 19 else FlagId(0)
    dependency = context.flags.get(id)
    if dependency is None or dependency.deleted or not dependency.active:
        raise_invalid(f"{place}.key", f"There is no active flag with the id {truncate(key)}.")
    if id in context.dependants:
        raise_invalid(f"{place}.key", "A flag cannot depend on itself, not even through others.")
    value = filter.get("value")
    if not isinstance(value, bool) and value not in variant_keys(dependency.filters):
        raise_invalid(f"{place}.value", "Expected true, false or a variant of that flag.")


class FlagDependencies:
    """Which flags depend on which."""

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._users: dict[FlagId, list[FlagId]] = {}
        for flag in flags:
            for each in referenced_flag_ids(flag.filters):
                self._users.setdefault(each, []).append(flag.id)

    def find_dependants(self, ids: Iterable[FlagId]) -> set[FlagId]:
        """Return the flags and those that depend on them, also through others."""
        found = set(ids)
        waiting = list(found)
        while waiting:
            new = set(self._users.get(waiting.pop(), ())) - found
            found |= new
            waiting += new
        return found


def referenced_flag_ids(filters: Mapping[str, Any]) -> set[FlagId]:
    """Return the flags that filters refer to, ignoring invalid parts."""
    return {FlagId(id) for id in _referenced_ids(filters, "flag", "key")}


def referenced_flag_values(filters: Mapping[str, Any], id: FlagId) -> set[str]:
    """Return the variants of a flag that filters compare with, ignoring invalid parts."""
    return {
        filter["value"]
        for group in (*condition_sets(filters), *super_groups(filters))
        for filter in _sequence(group.get("properties"))
        if isinstance(filter, Mapping)
        and (filter.get("type"), str(filter.get("key"))) == ("flag", str(id))
        and isinstance(filter.get("value"), str)
    }


def referenced_cohort_ids(filters: Mapping[str, Any]) -> set[CohortId]:
    """Return the cohorts that filters refer to, ignoring invalid parts."""
    return {CohortId(id) for id in _referenced_ids(filters, "cohort", "value")}


def _referenced_ids(filters: Any, kind: str, field: str) -> Iterator[int]:
    for group in (*condition_sets(filters), *super_groups(filters)):
        for filter in _sequence(group.get("properties")):
            if isinstance(filter, Mapping) and filter.get("type") == kind:
                text = str(filter.get(field))
                if text.isascii() and text.isdecimal() and len(text) < 19:
                    yield int(text)


def condition_sets(filters: Any) -> list[Mapping[str, Any]]:
    """Return the condition sets of stored filters, which may be invalid."""
    return _groups(filters, "groups")


def super_groups(filters: Any) -> list[Mapping[str, Any]]:
    """Return the legacy enrollment condition of stored filters, at most one."""
    return _groups(filters, "super_groups")[:1]


def _groups(filters: Any, name: str) -> list[Mapping[str, Any]]:
    groups = _sequence(filters.get(name) if isinstance(filters, Mapping) else None)
    return [group for group in groups if isinstance(group, Mapping)]


def get_variants(filters: Any) -> list[Mapping[str, Any]]:
    """Return the variants of stored filters, which may be invalid."""
    multivariate = filters.get("multivariate") if isinstance(filters, Mapping) else None
    variants = multivariate.get("variants") if isinstance(multivariate, Mapping) else None
    return [variant for variant in _sequence(variants) if isinstance(variant, Mapping)]


def variant_keys(filters: Any) -> list[str]:
    return [str(variant.get("key")) for variant in get_variants(filters)]


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _validate_variants(multivariate: Any) -> list[str]:
    if multivariate is None:
        return []
    place = "filters.multivariate"
    variants = _check_list(_check_object(multivariate, place).get("variants"), f"{place}.variants")
    keys: list[str] = []
    total = 0.0
    for number, variant in enumerate(variants):
        at = f"{place}.variants[{number}]"
        key = _check_object(variant, at).get("key")
        if not isinstance(key, str) or not key:
            raise_invalid(f"{at}.key", "This field is required.", "required")
        if key in keys:
            raise_invalid(f"{at}.key", "Two variants have this key.", "unique")
        keys.append(key)
        total += _check_percentage(variant.get("rollout_percentage"), f"{at}.rollout_percentage")
    if variants and not math.isclose(total, 100, abs_tol=1e-6):
        raise_invalid(
            f"{place}.variants",
            f"Variant rollout percentages must add up to 100, not {total:g}.",
        )
    return keys


def _validate_payloads(payloads: Any, variants: Sequence[str]) -> dict[str, Any]:
    """Return every payload as JSON text."""
    place = "filters.payloads"
    allowed = list(variants) or ["true"]
    result = {}
    for key, value in _check_object(payloads, place).items():
        at = f"{place}.{truncate(key)}"
        if key not in allowed:
            raise_invalid(at, f"Payloads are for {truncate(', '.join(allowed))} only.")
        if value is None:
            continue
        if isinstance(value, str):
            try:
                jsonio.parse(value.encode())
            except jsonio.JsonError:
                raise_invalid(at, "Payload value is not valid JSON.")
            result[key] = value
        else:
            result[key] = jsonio.encode(value).decode()
    return result


def _check_holdout(holdout: Any) -> None:
    if holdout is None:
        return
    place = "filters.holdout"
    if _check_object(holdout, place).get("id") is None:
        raise_invalid(f"{place}.id", "This field is required.", "required")
    _check_percentage(holdout.get("exclusion_percentage"), f"{place}.exclusion_percentage")


def _check_super_groups(groups: Any, variants: Sequence[str], context: ValidationContext) -> None:
    """Check the legacy form of enrollment; only the first group is used."""
    if not _check_list(groups, "filters.super_groups"):
        return
    place = "filters.super_groups[0]"
    if _check_group(groups[0], place, None, variants, context) is not None:
        detail = "Enrollment applies to persons, not to groups."
        raise_invalid(f"{place}.aggregation_group_type_index", detail)


def _check_holdout_groups(groups: Any) -> None:
    """Check the legacy form of a holdout; only the first group is used."""
    if not _check_list(groups, "filters.holdout_groups"):
        return
    place = "filters.holdout_groups[0]"
    group = _check_object(groups[0], place)
    _check_list(group.get("properties"), f"{place}.properties")
    if group.get("rollout_percentage") is not None:
        _check_percentage(group["rollout_percentage"], f"{place}.rollout_percentage")
    if not isinstance(group.get("variant"), str | None):
        raise_invalid(f"{place}.variant", "A text is required.")


def _check_object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise_invalid(place, f'Expected a dictionary of items but got type "{kind}".', "not_a_dict")
    return value


def _check_list(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        kind = type(value).__name__
        raise_invalid(place, f'Expected a list of items but got type "{kind}".', "not_a_list")
    return value


def _check_percentage(value: Any, place: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 100:
        raise_invalid(place, "A number from 0 to 100 is required.")
    return float(value)


def _check_group_index(value: Any, place: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_GROUP_TYPES:
        raise_invalid(
            f"{place}.aggregation_group_type_index",
            f"A whole number from 0 to {MAX_GROUP_TYPES - 1} is required.",
        )
    return value
