"""What the flags of a Flagsmith export become here. Pure.

Two documents are read: the export of features, a list, and the document of an environment, which
tells of segments too. A value is the payload. A flag of several values has a variant for each, and
`control` is the value of whoever gets none of them.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.importers.foreign import (
    Draft,
    Drafts,
    Unsayable,
    any_of,
    as_payload,
    asks,
    condition,
    is_there,
    percentage,
)
from hedgerow.importers.model import Reading
from hedgerow.importers.shapes import Item, listed, part, parts

CONTROL = "control"
# So many condition sets may be needed to say what one segment says.
MAX_SETS = 20
SEMVER = ":semver"
OPERATORS = {
    "EQUAL": "exact",
    "NOT_EQUAL": "is_not",
    "GREATER_THAN": "gt",
    "GREATER_THAN_INCLUSIVE": "gte",
    "LESS_THAN": "lt",
    "LESS_THAN_INCLUSIVE": "lte",
    "IS_SET": "is_set",
    "IS_NOT_SET": "is_not_set",
}
SEMVERS = {
    "exact": "semver_eq",
    "is_not": "semver_neq",
    "gt": "semver_gt",
    "gte": "semver_gte",
    "lt": "semver_lt",
    "lte": "semver_lte",
}
OPPOSITE = {
    "exact": "is_not",
    "is_not": "exact",
    "regex": "not_regex",
    "not_regex": "regex",
    "semver_eq": "semver_neq",
    "semver_neq": "semver_eq",
    "is_set": "is_not_set",
    "is_not_set": "is_set",
}
# Here they hold for whoever lacks the property, there only for those who have it.
OF_LACK = frozenset(("is_not", "not_regex", "semver_neq"))

# Filters that must all hold, and how many of those for whom they do.
Set = tuple[list[dict[str, Any]], float]


def understood(document: Any) -> Reading:
    drafts = Drafts()
    if isinstance(document, list):
        for number, item in enumerate(document, 1):
            _draw(drafts, number, item, _exported)
    elif isinstance(document, Mapping) and isinstance(document.get("feature_states"), list):
        overrides = _Overrides(document)
        for number, item in enumerate(document["feature_states"], 1):
            _draw(drafts, number, item, overrides.draft)
    else:
        raise Invalid(
            "This is no export of Flagsmith: a list of features is wanted, or the document of an "
            "environment."
        )
    return drafts.reading()


def _draw(drafts: Drafts, number: int, item: Any, make: Any) -> None:
    if not isinstance(item, Mapping):
        drafts.lose(f"number {number}", "It cannot be read.")
        return
    name = str(item.get("name") or part(item, "feature").get("name") or "")
    drafts.draw(number, name, lambda: make(number, name, item))


def _exported(number: int, name: str, item: Item) -> Draft:
    draft = Draft(number=number, name=name, active=bool(item.get("enabled")))
    options = [
        (each.get("value"), each.get("percentage_allocation"))
        for each in parts(item, "multivariate")
    ]
    _value(draft, item.get("value"), options)
    draft.groups.append(condition([]))
    if item.get("is_server_key_only"):
        draft.notes.append("It was for servers only: see evaluation_runtime.")
    return draft


def _value(draft: Draft, value: Any, options: Sequence[tuple[Any, Any]]) -> None:
    others = [(each, percentage(share)) for each, share in options]
    others = [(each, share) for each, share in others if share > 0]
    if not others:
        if value not in (None, ""):
            draft.payloads["true"] = as_payload(value)
        return
    left = 100 - sum(share for _, share in others)
    if left < -1e-6:
        raise Unsayable("The percentages of its values add up to more than 100.")
    keys = [CONTROL]
    for each, _ in others:
        keys.append(_variant_key(each, keys))
    values = [(value, round(max(left, 0), 6)), *others]
    draft.variants = [
        {"key": key, "rollout_percentage": share}
        for key, (_, share) in zip(keys, values, strict=True)
    ]
    draft.payloads = {key: as_payload(each) for key, (each, _) in zip(keys, values, strict=True)}


def _variant_key(value: Any, taken: Sequence[str]) -> str:
    text = str(value)
    if re.fullmatch(r"[a-zA-Z0-9_.-]{1,40}", text) and text not in taken:
        return text
    return f"option-{len(taken)}"


class _Overrides:
    """The document of an environment: its flags, and what segments and identities get instead."""

    def __init__(self, document: Item) -> None:
        self._segments = parts(part(document, "project"), "segments")
        self._named = {
            part(state, "feature").get("name")
            for each in parts(document, "identity_overrides")
            for state in parts(each, "identity_features")
        }

    def draft(self, number: int, name: str, state: Item) -> Draft:
        draft = Draft(number=number, name=name)
        options = [
            (
                part(each, "multivariate_feature_option").get("value"),
                each.get("percentage_allocation"),
            )
            for each in parts(state, "multivariate_feature_state_values")
        ]
        value = state.get("feature_state_value")
        _value(draft, value, options)
        is_on = bool(state.get("enabled"))
        for segment, own in self._of(name):
            self._add(draft, segment, own, value, is_on=is_on)
        if is_on:
            draft.groups.append(condition([]))
        elif not draft.groups:
            draft.active = False
            draft.groups.append(condition([]))
        if name in self._named:
            draft.notes.append("Some identities get another answer there: not copied.")
        return draft

    def _of(self, name: str) -> list[tuple[Item, Item]]:
        """The segments that have a say about a flag, the first in line first."""
        found = [
            (segment, state)
            for segment in self._segments
            for state in parts(segment, "feature_states")
            if part(state, "feature").get("name") == name
        ]
        return sorted(found, key=lambda pair: _priority(pair[1]))

    def _add(self, draft: Draft, segment: Item, own: Item, value: Any, *, is_on: bool) -> None:
        name = segment.get("name")
        if not own.get("enabled"):
            if is_on:
                raise Unsayable(f"Segment {name} turns it off, which no condition here can.")
            return
        if own.get("multivariate_feature_state_values"):
            raise Unsayable(f"Segment {name} has percentages of its own.")
        if own.get("feature_state_value") != value:
            raise Unsayable(f"Segment {name} gets another value.")
        try:
            sets = _all_of([_rule(each) for each in listed(segment, "rules")])
        except Unsayable as error:
            raise Unsayable(f"Segment {name}: {error}") from None
        draft.groups += [condition(properties, rollout) for properties, rollout in sets]


def _priority(state: Item) -> float:
    said = part(state, "feature_segment").get("priority")
    return said if isinstance(said, int | float) else 0


def _all_of(needed: Sequence[Sequence[Set]]) -> list[Set]:
    """Parts that must all hold, each of which is sets of which one must, as such sets."""
    if prod(len(each) for each in needed) > MAX_SETS:
        raise Unsayable(f"it would take more than {MAX_SETS} condition sets.")
    return [_joined(chosen) for chosen in product(*needed)]


def _joined(sets: Sequence[Set]) -> Set:
    shares = [rollout for _, rollout in sets if rollout != 100]
    if len(shares) > 1:
        raise Unsayable("it asks for several percentages at once.")
    return [each for properties, _ in sets for each in properties], shares[0] if shares else 100


def _rule(rule: Any) -> list[Set]:
    if not isinstance(rule, Mapping):
        raise Unsayable("a rule cannot be read.")
    kind = str(rule.get("type"))
    leaves = [_leaf(each) for each in listed(rule, "conditions")]
    if kind == "NONE":
        if rule.get("rules"):
            raise Unsayable("it has rules within a NONE.")
        return _all_of([_negated(each) for each in leaves])
    inner = [_rule(each) for each in listed(rule, "rules")]
    together = [*([_as_it_stands(each)] for each in leaves), *inner]
    if kind == "ANY":
        return [each for sets in together for each in sets]
    return _all_of(together)


def _as_it_stands(leaf: Set) -> Set:
    properties, rollout = leaf
    lacking = [is_there(each["key"]) for each in properties if each["operator"] in OF_LACK]
    return [*properties, *lacking], rollout


def _negated(leaf: Set) -> list[Set]:
    """Sets of which one must hold so that a condition does not."""
    properties, _ = leaf
    if not properties or properties[0]["operator"] not in OPPOSITE:
        raise Unsayable("the opposite of one of its conditions cannot be said.")
    [only] = properties
    sets: list[Set] = [([{**only, "operator": OPPOSITE[only["operator"]]}], 100)]
    if only["operator"] in OF_LACK:
        sets.append(([asks(only["key"], "is_not_set", "is_not_set")], 100))
    return sets


def _leaf(given: Any) -> Set:
    if not isinstance(given, Mapping):
        raise Unsayable("a condition cannot be read.")
    operator, value = str(given.get("operator")), given.get("value")
    key = str(given.get("property_") or given.get("property") or "")
    if operator == "PERCENTAGE_SPLIT":
        return [], percentage(value)
    if operator == "IN":
        texts = value if isinstance(value, list) else str(value).split(",")
        return [asks(key, "exact", [str(each) for each in texts])], 100
    if operator in ("CONTAINS", "NOT_CONTAINS"):
        name = "regex" if operator == "CONTAINS" else "not_regex"
        return [asks(key, name, any_of([str(value)]))], 100
    if operator == "REGEX":
        return [asks(key, "regex", f"^(?:{value})")], 100
    if operator not in OPERATORS:
        raise Unsayable(f"there is no operator like {operator} here.")
    name, text = OPERATORS[operator], str(value)
    if text.endswith(SEMVER) and name in SEMVERS:
        return [asks(key, SEMVERS[name], text.removesuffix(SEMVER))], 100
    return [asks(key, name, value)], 100
