"""What the flags of an Unleash export become here. Pure.

A strategy is a condition set, its constraints and those of its segments are filters on person
properties of the same names, and `userId` is the distinct id. A strategy that cannot be said here
is left out, and said so: then fewer people are let in, never more.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.importers.foreign import (
    WHO,
    Draft,
    Drafts,
    Unsayable,
    any_of,
    as_payload,
    asks,
    condition,
    percentage,
    shares,
)
from hedgerow.importers.model import Reading
from hedgerow.importers.shapes import Item, listed, part, parts
from hedgerow.lib import jsonio

# Fields of a context that are no property of a person.
NO_PROPERTY = ("sessionId", "remoteAddress", "appName", "environment", "currentTime")
OPPOSITE = {
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
# Of these, who lacks the property is taken by the opposite, there and here.
TAKES_ABSENT = ("is_not", "exact", "not_regex")
COMPARING = {
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
TEXTUAL = {
    "STR_CONTAINS": "{}",
    "STR_STARTS_WITH": "^{}",
    "STR_ENDS_WITH": "{}$",
}
BY_SOMETHING_ELSE = "It counts by {}, which is by person here."


def environments(document: Item) -> list[str]:
    """Those that an export tells of."""
    items = [*parts(document, "featureEnvironments"), *parts(document, "featureStrategies")]
    names = [each.get("environment") for each in items]
    return sorted({name for name in names if isinstance(name, str)})


def understood(document: Any, environment: str | None) -> Reading:
    """The flags as they are in an environment, which must be named if there are several."""
    if not isinstance(document, Mapping) or not isinstance(document.get("features"), list):
        raise Invalid("This is no export of Unleash: it has no list of features.")
    known = environments(document)
    if environment is None and len(known) > 1:
        raise Invalid(f"Name one with --environment: {', '.join(known)}.")
    if environment is not None and known and environment not in known:
        raise Invalid(f"There is no environment {environment}. It has: {', '.join(known)}.")
    export = _Export(document, environment)
    drafts = Drafts()
    for number, feature in enumerate(parts(document, "features"), 1):
        name = str(feature.get("name") or "")
        if feature.get("archived") or feature.get("archivedAt"):
            drafts.lose(name, "It is archived.")
        else:
            drafts.draw(number, name, partial(export.draft, number, feature))
    return drafts.reading()


class _Export:
    def __init__(self, document: Item, environment: str | None) -> None:
        self._document = document
        self._environment = environment
        self._segments = {str(each.get("id")): each for each in parts(document, "segments")}
        self._numbers = {
            str(each.get("name")): number
            for number, each in enumerate(parts(document, "features"), 1)
        }

    def draft(self, number: int, feature: Item) -> Draft:
        name = str(feature.get("name") or "")
        state = self._state(name)
        draft = Draft(
            number=number,
            name=name,
            description=str(feature.get("description") or ""),
            active=bool(state.get("enabled", feature.get("enabled", False))),
            tags=self._tags(name),
        )
        strategies = self._strategies(name)
        usable = [each for each in strategies if not each.get("disabled")]
        self._vary(draft, usable, parts(state, "variants") or parts(feature, "variants"))
        if not strategies:
            draft.groups.append(condition([]))
        elif not usable:
            draft.groups.append(condition([], 0))
        for strategy in usable:
            self._add(draft, strategy)
        if not draft.groups:
            raise Unsayable(" ".join(draft.notes))
        self._depend(draft)
        return draft

    def _state(self, name: str) -> Item:
        for each in parts(self._document, "featureEnvironments"):
            if each.get("featureName", each.get("name")) == name and self._is_here(each):
                return each
        return {}

    def _strategies(self, name: str) -> list[Item]:
        return [
            each
            for each in parts(self._document, "featureStrategies")
            if each.get("featureName") == name and self._is_here(each)
        ]

    def _is_here(self, item: Item) -> bool:
        return self._environment is None or item.get("environment", self._environment) == (
            self._environment
        )

    def _tags(self, name: str) -> list[str]:
        return [
            str(each.get("tagValue"))
            for each in parts(self._document, "featureTags")
            if each.get("featureName") == name and each.get("tagValue")
        ]

    def _add(self, draft: Draft, strategy: Item) -> None:
        kind = str(strategy.get("name") or strategy.get("strategyName"))
        try:
            rollout, properties = _let_in(kind, part(strategy, "parameters"), draft.notes)
            for each in self._constraints(strategy):
                properties.append(_filter(each, draft.notes))
        except Unsayable as error:
            draft.notes.append(f"Without its strategy {kind}: {error}")
        else:
            draft.groups.append(condition(properties, rollout))

    def _constraints(self, strategy: Item) -> list[Any]:
        found = list(listed(strategy, "constraints"))
        ids = list(listed(strategy, "segments")) + [
            each.get("segmentId")
            for each in parts(self._document, "featureStrategySegments")
            if each.get("featureStrategyId") == strategy.get("id")
        ]
        for id in map(str, ids):
            if id not in self._segments:
                raise Unsayable(f"the export does not have its segment {id}.")
            found += listed(self._segments[id], "constraints")
        return found

    def _vary(self, draft: Draft, strategies: Sequence[Item], of_flag: Sequence[Any]) -> None:
        """Variants are the flag's here, so all strategies must have the same."""
        of_strategies = [parts(each, "variants") for each in strategies]
        first = next((each for each in of_strategies if each), of_flag)
        if any(each != first for each in of_strategies if each or first is not of_flag):
            raise Unsayable("Its strategies have different variants.")
        if not first:
            return
        weights = shares([each.get("weight") for each in first])
        draft.variants = [
            {"key": str(each.get("name")), "rollout_percentage": share}
            for each, share in zip(first, weights, strict=True)
        ]
        for each in first:
            if isinstance(each.get("payload"), Mapping):
                draft.payloads[str(each.get("name"))] = _payload(each["payload"])
            for override in parts(each, "overrides"):
                values = [str(value) for value in listed(override, "values")]
                key = _property(str(override.get("contextName")))
                draft.groups.append(
                    condition([asks(key, "exact", values)], 100, str(each.get("name")))
                )
                draft.notes.append(
                    f"Who is named for {each.get('name')} gets it whatever the strategies say."
                )

    def _depend(self, draft: Draft) -> None:
        for each in parts(self._document, "dependencies"):
            if each.get("feature") != draft.name:
                continue
            for parent in parts(each, "dependencies"):
                number = self._numbers.get(str(parent.get("feature")))
                if number is None:
                    raise Unsayable(f"It depends on {parent.get('feature')}, which is not there.")
                draft.needs.add(number)
                needed = {
                    "key": str(number),
                    "type": "flag",
                    "operator": "flag_evaluates_to",
                    "value": _needed_value(parent),
                }
                for group in draft.groups:
                    group["properties"].append(needed)


def _needed_value(parent: Item) -> bool | str:
    variants = listed(parent, "variants")
    if len(variants) > 1:
        raise Unsayable("It depends on one of several variants of another flag.")
    return str(variants[0]) if variants else bool(parent.get("enabled", True))


def _let_in(kind: str, parameters: Item, notes: list[str]) -> tuple[float, list[dict[str, Any]]]:
    """How many a strategy lets in, and by which filters, before its constraints."""
    match kind:
        case "default":
            return 100, []
        case "flexibleRollout":
            by = str(parameters.get("stickiness") or "default")
            if by not in ("default", "userId"):
                notes.append(BY_SOMETHING_ELSE.format(by))
            return percentage(parameters.get("rollout", 100)), []
        case "gradualRolloutUserId" | "gradualRolloutSessionId" | "gradualRolloutRandom":
            if kind != "gradualRolloutUserId":
                notes.append(BY_SOMETHING_ELSE.format(kind.removeprefix("gradualRollout")))
            return percentage(parameters.get("percentage", 0)), []
        case "userWithId":
            ids = [id.strip() for id in str(parameters.get("userIds") or "").split(",")]
            return 100, [asks(WHO, "exact", [id for id in ids if id])]
    raise Unsayable("there is nothing like it here.")


def _property(name: str) -> str:
    if name in NO_PROPERTY:
        raise Unsayable(f"it asks for {name}, which is no property of a person.")
    return WHO if name == "userId" else name


def _filter(constraint: Any, notes: list[str]) -> dict[str, Any]:
    if not isinstance(constraint, Mapping):
        raise Unsayable("a constraint cannot be read.")
    key = _property(str(constraint.get("contextName")))
    operator, value = _asked(constraint)
    if constraint.get("inverted"):
        if operator not in TAKES_ABSENT and operator != "regex":
            notes.append(f"Who has no {key} is taken there, and not here.")
        operator = OPPOSITE[operator]
    return asks(key, operator, value)


def _asked(constraint: Item) -> tuple[str, Any]:
    operator = str(constraint.get("operator"))
    values = [str(each) for each in listed(constraint, "values")]
    if operator in ("IN", "NOT_IN"):
        return ("exact" if operator == "IN" else "is_not"), values
    if operator in TEXTUAL:
        pattern = TEXTUAL[operator].format(any_of(values))
        return "regex", f"(?i){pattern}" if constraint.get("caseInsensitive") else pattern
    value = constraint.get("value")
    if operator == "NUM_EQ":
        return "between", [value, value]
    if operator in COMPARING:
        return COMPARING[operator], value
    raise Unsayable(f"there is no operator like {operator} here.")


def _payload(payload: Item) -> str:
    """As JSON: text that is JSON already, or a number, stays what it is."""
    text = str(payload.get("value"))
    if payload.get("type") in ("json", "number"):
        try:
            jsonio.parse(text.encode())
        except (jsonio.JsonError, UnicodeEncodeError):
            return as_payload(text)
        return text
    return as_payload(text)
