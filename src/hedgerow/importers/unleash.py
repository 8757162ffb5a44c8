"""Convert the flags of an Unleash export. Pure.

A strategy becomes a condition set. Its constraints and those of its segments become filters on
person properties of the same names, and `userId` becomes the distinct id. A strategy that has no
equivalent is left out with a note: the flag then matches fewer people, never more.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.importers.documents import Item, get_list, get_object, get_objects
from hedgerow.importers.flag_drafts import (
    DISTINCT_ID_PROPERTY,
    FlagDraft,
    FlagDrafts,
    Unsupported,
    build_condition,
    build_filter,
    build_pattern,
    encode_payload,
    normalize_weights,
    parse_percentage,
)
from hedgerow.importers.model import ConversionResult
from hedgerow.importers.unknown_fields import note_unknown_fields
from hedgerow.lib import jsonio
from hedgerow.lib.shape import Shape

# Context fields that are not person properties.
CONTEXT_FIELDS_WITHOUT_PROPERTY = (
    "sessionId",
    "remoteAddress",
    "appName",
    "environment",
    "currentTime",
)
OPPOSITE_OPERATORS = {
    "exact": "is_not",
    "is_not": "exact",
    "regex": "not_regex",
    "gt": "lte",
    "gte": "lt",
    "lt": "gte",
    "lte": "gt",
    "between": "not_between",
    "is_date_after": "is_date_before",
    "is_date_before": "is_date_after",
    "semver_eq": "semver_neq",
    "semver_gt": "semver_lte",
    "semver_lt": "semver_gte",
}
# Operators whose opposite matches a person without the property, in Unleash and here.
OPERATORS_WITH_MATCHING_ABSENCE = ("is_not", "exact", "not_regex")
COMPARISON_OPERATORS = {
    "NUM_GT": "gt",
    "NUM_GTE": "gte",
    "NUM_LT": "lt",
    "NUM_LTE": "lte",
    "DATE_AFTER": "is_date_after",
    "DATE_BEFORE": "is_date_before",
    "SEMVER_EQ": "semver_eq",
    "SEMVER_GT": "semver_gt",
    "SEMVER_LT": "semver_lt",
}
TEXT_PATTERNS = {
    "STR_CONTAINS": "{}",
    "STR_STARTS_WITH": "^{}",
    "STR_ENDS_WITH": "{}$",
}
# The fields of an export of Unleash 4 to 7. Those in `unused` have no equivalent that matters.
_CONSTRAINT = Shape(
    "contextName", "operator", "values", "value", "inverted", unused=("caseInsensitive", "id")
)
_VARIANT = Shape(
    *("name", "weight", "payload"),
    overrides=Shape("contextName", "values"),
    unused=("weightType", "stickiness", "id"),
)
_STRATEGY = Shape(
    *("id", "name", "strategyName", "featureName", "environment", "segments", "disabled"),
    variants=_VARIANT,
    constraints=_CONSTRAINT,
    parameters=Shape(
        *("rollout", "stickiness", "percentage", "userIds"),
        # `IPs` and `hostNames` belong to strategies that are left out with a note.
        unused=("groupId", "IPs", "hostNames"),
    ),
    unused=("projectId", "sortOrder", "title", "createdAt", "milestoneId"),
)
# An environment of a feature. Its strategies are checked one by one.
_STATE = Shape(
    *("featureName", "name", "environment", "enabled", "strategies"),
    variants=_VARIANT,
    unused=(
        *("id", "type", "sortOrder", "lastSeenAt", "hasStrategies", "hasEnabledStrategies"),
        *("variantCount", "yes", "no"),
    ),
)
_FEATURE = Shape(
    *("name", "description", "enabled", "archived", "archivedAt"),
    variants=_VARIANT,
    strategies=_STRATEGY,
    dependencies=Shape("feature", "enabled", "variants"),
    unused=(
        *("type", "project", "stale", "potentiallyStale", "impressionData", "createdAt"),
        *("createdByUserId", "createdBy", "lastSeenAt", "favorite", "environments", "links"),
        *("dependencyType", "lifecycle", "collaborators", "children", "tags"),
    ),
)
BUCKETING_NOTE = "It buckets by {}; here it buckets by distinct id."


def list_environments(document: Item) -> list[str]:
    """Return the names of the environments in an export."""
    items = [
        *get_objects(document, "featureEnvironments"),
        *get_objects(document, "featureStrategies"),
    ]
    names = [each.get("environment") for each in items]
    if not items:
        for feature in get_objects(document, "features"):
            names += map(_get_environment_name, get_objects(feature, "environments"))
    return sorted({name for name in names if isinstance(name, str)})


def _get_environment_name(state: Item) -> Any:
    """Return the name of an environment inside of a feature, as the admin API writes it."""
    return state.get("environment", state.get("name"))


def convert_unleash(document: Any, environment: str | None) -> ConversionResult:
    """Convert the flags of one environment, which must be named if there are several."""
    if not isinstance(document, Mapping) or not isinstance(document.get("features"), list):
        raise Invalid("This is not an Unleash export: it has no list of features.")
    known = list_environments(document)
    if environment is None and len(known) > 1:
        raise Invalid(
            "The export has several environments. Choose one with --environment: "
            f"{', '.join(known)}."
        )
    if environment is not None and known and environment not in known:
        raise Invalid(
            f"There is no environment {environment}. Expected one of: {', '.join(known)}."
        )
    export = _ExportConverter(document, environment)
    drafts = FlagDrafts()
    for number, feature in enumerate(get_objects(document, "features"), 1):
        name = str(feature.get("name") or "")
        if feature.get("archived") or feature.get("archivedAt"):
            drafts.skip(name, "It is archived.")
        else:
            drafts.add(number, name, partial(export.convert, number, feature))
    return drafts.build_result()


class _ExportConverter:
    def __init__(self, document: Item, environment: str | None) -> None:
        self._document = document
        self._environment = environment
        self._segments = {str(each.get("id")): each for each in get_objects(document, "segments")}
        self._ids = {
            str(each.get("name")): number
            for number, each in enumerate(get_objects(document, "features"), 1)
        }

    def convert(self, number: int, feature: Item) -> FlagDraft:
        name = str(feature.get("name") or "")
        state = self._find_environment_state(feature)
        draft = FlagDraft(
            number=number,
            name=name,
            description=str(feature.get("description") or ""),
            active=bool(state.get("enabled", feature.get("enabled", False))),
            tags=self._list_tags(name),
        )
        strategies = self._list_strategies(feature, state)
        usable = [each for each in strategies if not each.get("disabled")]
        note_unknown_fields(feature, _FEATURE, "", draft.notes.append)
        note_unknown_fields(state, _STATE, "environment", draft.notes.append)
        self._set_variants(
            draft, usable, get_objects(state, "variants") or get_objects(feature, "variants")
        )
        if not strategies:
            draft.groups.append(build_condition([]))
        elif not usable:
            draft.groups.append(build_condition([], 0))
        for strategy in usable:
            self._add_strategy(draft, strategy)
        if not draft.groups:
            raise Unsupported(" ".join(draft.notes))
        self._add_dependencies(draft, feature)
        return draft

    def _find_environment_state(self, feature: Item) -> Item:
        name = feature.get("name")
        for each in get_objects(self._document, "featureEnvironments"):
            if each.get("featureName", each.get("name")) == name and self._is_in_environment(each):
                return each
        for each in get_objects(feature, "environments"):
            if self._environment in (None, _get_environment_name(each)):
                return each
        return {}

    def _list_strategies(self, feature: Item, state: Item) -> list[Item]:
        """Return the strategies of a feature. They are inside of its environment in responses of
        the admin API, and inside of the feature in exports of Unleash 3 and in responses of the
        client API."""
        listed = [
            each
            for each in get_objects(self._document, "featureStrategies")
            if each.get("featureName") == feature.get("name") and self._is_in_environment(each)
        ]
        inner = get_objects(state, "strategies")
        return listed or inner or get_objects(feature, "strategies")

    def _is_in_environment(self, item: Item) -> bool:
        return self._environment is None or item.get("environment", self._environment) == (
            self._environment
        )

    def _list_tags(self, name: str) -> list[str]:
        return [
            str(each.get("tagValue"))
            for each in get_objects(self._document, "featureTags")
            if each.get("featureName") == name and each.get("tagValue")
        ]

    def _add_strategy(self, draft: FlagDraft, strategy: Item) -> None:
        kind = str(strategy.get("name") or strategy.get("strategyName"))
        note_unknown_fields(strategy, _STRATEGY, f"strategy {kind}", draft.notes.append)
        try:
            rollout, properties = _convert_strategy(
                kind, get_object(strategy, "parameters"), draft.notes
            )
            for each in self._list_constraints(strategy):
                properties.append(_convert_constraint(each, draft.notes))
        except Unsupported as error:
            draft.notes.append(f"Imported without its strategy {kind}: {error}")
        else:
            draft.groups.append(build_condition(properties, rollout))

    def _list_constraints(self, strategy: Item) -> list[Any]:
        found = list(get_list(strategy, "constraints"))
        ids = list(get_list(strategy, "segments")) + [
            each.get("segmentId")
            for each in get_objects(self._document, "featureStrategySegments")
            if each.get("featureStrategyId") == strategy.get("id")
        ]
        for id in map(str, ids):
            if id not in self._segments:
                raise Unsupported(f"the export lacks its segment {id}.")
            found += get_list(self._segments[id], "constraints")
        return found

    def _set_variants(
        self, draft: FlagDraft, strategies: Sequence[Item], flag_variants: Sequence[Any]
    ) -> None:
        """Variants belong to the flag here, so all strategies must have the same ones."""
        strategy_variants = [get_objects(each, "variants") for each in strategies]
        first = next((each for each in strategy_variants if each), flag_variants)
        if any(each != first for each in strategy_variants if each or first is not flag_variants):
            raise Unsupported("Its strategies have different variants.")
        if not first:
            return
        weights = normalize_weights([each.get("weight") for each in first])
        draft.variants = [
            {"key": str(each.get("name")), "rollout_percentage": share}
            for each, share in zip(first, weights, strict=True)
        ]
        for each in first:
            if isinstance(each.get("payload"), Mapping):
                draft.payloads[str(each.get("name"))] = _convert_payload(each["payload"])
            for override in get_objects(each, "overrides"):
                values = [str(value) for value in get_list(override, "values")]
                key = _map_property(str(override.get("contextName")))
                draft.groups.append(
                    build_condition(
                        [build_filter(key, "exact", values)], 100, str(each.get("name"))
                    )
                )
                draft.notes.append(
                    f"The override for {each.get('name')} applies before the strategies."
                )

    def _add_dependencies(self, draft: FlagDraft, feature: Item) -> None:
        for parent in self._list_parents(feature):
            number = self._ids.get(str(parent.get("feature")))
            if number is None:
                raise Unsupported(
                    f"It depends on {parent.get('feature')}, which is not in the export."
                )
            draft.dependencies.add(number)
            needed = {
                "key": str(number),
                "type": "flag",
                "operator": "flag_evaluates_to",
                "value": _parse_required_value(parent),
            }
            for group in draft.groups:
                group["properties"].append(needed)

    def _list_parents(self, feature: Item) -> list[Item]:
        listed = [
            parent
            for each in get_objects(self._document, "dependencies")
            if each.get("feature") == feature.get("name")
            for parent in get_objects(each, "dependencies")
        ]
        return listed or get_objects(feature, "dependencies")


def _parse_required_value(parent: Item) -> bool | str:
    variants = get_list(parent, "variants")
    if len(variants) > 1:
        raise Unsupported("It depends on one of several variants of another flag.")
    return str(variants[0]) if variants else bool(parent.get("enabled", True))


def _convert_strategy(
    kind: str, parameters: Item, notes: list[str]
) -> tuple[float, list[dict[str, Any]]]:
    """Return the rollout percentage and the filters of a strategy, without its constraints."""
    match kind:
        case "default":
            return 100, []
        case "flexibleRollout":
            by = str(parameters.get("stickiness") or "default")
            if by not in ("default", "userId"):
                notes.append(BUCKETING_NOTE.format(by))
            return parse_percentage(parameters.get("rollout", 100)), []
        case "gradualRolloutUserId" | "gradualRolloutSessionId" | "gradualRolloutRandom":
            if kind != "gradualRolloutUserId":
                notes.append(BUCKETING_NOTE.format(kind.removeprefix("gradualRollout")))
            return parse_percentage(parameters.get("percentage", 0)), []
        case "userWithId":
            ids = [id.strip() for id in str(parameters.get("userIds") or "").split(",")]
            return 100, [build_filter(DISTINCT_ID_PROPERTY, "exact", [id for id in ids if id])]
    raise Unsupported("it has no equivalent here.")


def _map_property(name: str) -> str:
    if name in CONTEXT_FIELDS_WITHOUT_PROPERTY:
        raise Unsupported(f"it uses {name}, which is not a person property.")
    return DISTINCT_ID_PROPERTY if name == "userId" else name


def _convert_constraint(constraint: Any, notes: list[str]) -> dict[str, Any]:
    if not isinstance(constraint, Mapping):
        raise Unsupported("a constraint is not a JSON object.")
    key = _map_property(str(constraint.get("contextName")))
    operator, value = _convert_operator(constraint)
    if constraint.get("inverted"):
        if operator not in OPERATORS_WITH_MATCHING_ABSENCE and operator != "regex":
            notes.append(f"Persons without {key} match in Unleash and do not match here.")
        operator = OPPOSITE_OPERATORS[operator]
    return build_filter(key, operator, value)


def _convert_operator(constraint: Item) -> tuple[str, Any]:
    operator = str(constraint.get("operator"))
    values = [str(each) for each in get_list(constraint, "values")]
    if operator in ("IN", "NOT_IN"):
        return ("exact" if operator == "IN" else "is_not"), values
    if operator in TEXT_PATTERNS:
        pattern = TEXT_PATTERNS[operator].format(build_pattern(values))
        return "regex", f"(?i){pattern}" if constraint.get("caseInsensitive") else pattern
    value = constraint.get("value")
    if operator == "NUM_EQ":
        return "between", [value, value]
    if operator in COMPARISON_OPERATORS:
        return COMPARISON_OPERATORS[operator], value
    raise Unsupported(f"the operator {operator} has no equivalent here.")


def _convert_payload(payload: Item) -> str:
    """Return a payload as JSON. Valid JSON and numbers stay as they are."""
    text = str(payload.get("value"))
    if payload.get("type") in ("json", "number"):
        try:
            jsonio.parse(text.encode())
        except (jsonio.JsonError, UnicodeEncodeError):
            return encode_payload(text)
        return text
    return encode_payload(text)
