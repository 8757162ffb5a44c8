"""What flags of other services share on their way here: keys, variants, and being held against our
rules. Pure.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.model import KEY_MAX
from hedgerow.flags.rules import Surroundings, check_key, checked_filters
from hedgerow.importers.model import Kind, Reading, Told, Wanted
from hedgerow.importers.order import in_order

# Whoever an app evaluates for, among their properties.
WHO = "distinct_id"


class Unsayable(Exception):
    """Something that no flag here can say; the text says what."""


@dataclass(slots=True)
class Draft:
    """A flag as it was understood. `number` is a made-up id, by which others may ask for it."""

    number: int
    name: str
    description: str = ""
    active: bool = True
    tags: Sequence[str] = ()
    groups: list[dict[str, Any]] = field(default_factory=list)
    variants: Sequence[Mapping[str, Any]] = ()
    payloads: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    needs: set[int] = field(default_factory=set)

    def filters(self) -> dict[str, Any]:
        made: dict[str, Any] = {"groups": self.groups}
        if self.variants:
            made["multivariate"] = {"variants": list(self.variants)}
        if self.payloads:
            made["payloads"] = self.payloads
        return made


@dataclass(slots=True)
class Drafts:
    """All flags of a document, and why some are none here."""

    found: dict[int, Draft] = field(default_factory=dict)
    lost: list[Told] = field(default_factory=list)

    def draw(self, number: int, name: str, make: Callable[[], Draft]) -> None:
        try:
            self.found[number] = make()
        except Unsayable as error:
            self.lose(name, str(error))

    def lose(self, name: str, reason: str) -> None:
        self.lost.append(Told(kind=Kind.FLAG, name=name, text=reason))

    def reading(self) -> Reading:
        """Those that our rules let through, behind those that they need."""
        wanted: list[Wanted] = []
        notes: list[Told] = []
        keys: dict[str, str] = {}
        copied: set[int] = set()
        order, circular = in_order({id: draft.needs for id, draft in self.found.items()})
        for id in circular:
            self.lose(self.found[id].name, "It depends on itself, through others.")
        for id in order:
            draft = self.found[id]
            key = key_of(draft.name)
            reason = _why_not(draft, key, keys, copied)
            if reason:
                self.lose(draft.name, reason)
                continue
            keys[key] = draft.name
            copied.add(id)
            if key != draft.name:
                draft.notes.insert(0, f"It is called {key} here: keys have no other characters.")
            notes += [Told(kind=Kind.FLAG, name=draft.name, text=text) for text in draft.notes]
            wanted.append(_wanted(draft, key))
        return Reading(wanted=wanted, lost=self.lost, notes=notes)


def key_of(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", name)[:KEY_MAX]


def _why_not(draft: Draft, key: str, keys: Mapping[str, str], copied: set[int]) -> str:
    if draft.needs - copied:
        return "It depends on a flag that is not copied."
    if key in keys:
        return f"Its key would be {key}, as that of {keys[key]}."
    around = Surroundings(cohorts={}, flags={}, own_id=None)
    try:
        check_key(key, {})
        checked_filters(_without_needs(draft.filters()), around, is_new=True)
    except Invalid as error:
        return f"{error.attr}: {error.detail}"
    return ""


def _without_needs(filters: dict[str, Any]) -> dict[str, Any]:
    """Other flags are not there yet to be asked for; that they are copied is known already."""
    groups = [
        {**group, "properties": [each for each in group["properties"] if each["type"] != "flag"]}
        for group in filters["groups"]
    ]
    return {**filters, "groups": groups}


def _wanted(draft: Draft, key: str) -> Wanted:
    body = {
        "key": key,
        "name": draft.description,
        "filters": draft.filters(),
        "active": draft.active,
        "tags": list(draft.tags),
    }
    return Wanted(kind=Kind.FLAG, source_id=draft.number, name=key, body=body)


def asks(key: str, operator: str, value: Any) -> dict[str, Any]:
    return {"key": key, "type": "person", "operator": operator, "value": value}


def is_there(key: str) -> dict[str, Any]:
    return asks(key, "is_set", "is_set")


def condition(
    properties: Sequence[Mapping[str, Any]], rollout: float = 100, variant: str | None = None
) -> dict[str, Any]:
    made = {"properties": list(properties), "rollout_percentage": rollout}
    return made | ({"variant": variant} if variant else {})


def percentage(value: Any) -> float:
    """A share of a hundred, which some write as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Unsayable(f"{value!r} is no percentage.") from None
    if not 0 <= number <= 100:
        raise Unsayable(f"{value!r} is no percentage.")
    return number


def shares(given: Sequence[Any]) -> list[float]:
    """Weights as percentages that add up to 100."""
    weights = [each if isinstance(each, int | float) else 0 for each in given]
    total = sum(weights)
    if not total or min(weights) < 0:
        raise Unsayable("The weights of its variants add up to nothing.")
    made = [round(weight * 100 / total, 6) for weight in weights]
    made[-1] = round(100 - sum(made[:-1]), 6)
    return made


def as_payload(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def any_of(texts: Sequence[str]) -> str:
    """A regular expression for one of some texts."""
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"
