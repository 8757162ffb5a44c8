"""Build flags from another service's documents and validate them by our rules. Pure."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.model import KEY_MAX_CHARS
from hedgerow.flags.validate import ValidationContext, check_key, validate_filters
from hedgerow.importers.documents import sort_by_dependency
from hedgerow.importers.model import ConversionResult, ImportItem, ImportNote, ResourceKind

# The person property that holds the id of an Unleash user.
DISTINCT_ID_PROPERTY = "distinct_id"


class Unsupported(Exception):
    """A flag uses a feature that has no equivalent here. The text names it."""


@dataclass(slots=True)
class FlagDraft:
    """A converted flag. `number` is a provisional id that other drafts depend on."""

    number: int
    name: str
    description: str = ""
    active: bool = True
    tags: Sequence[str] = ()
    groups: list[dict[str, Any]] = field(default_factory=list)
    variants: Sequence[Mapping[str, Any]] = ()
    payloads: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    dependencies: set[int] = field(default_factory=set)

    def build_filters(self) -> dict[str, Any]:
        filters: dict[str, Any] = {"groups": self.groups}
        if self.variants:
            filters["multivariate"] = {"variants": list(self.variants)}
        if self.payloads:
            filters["payloads"] = self.payloads
        return filters

    def remove_dependency(self, id: int) -> list[Any]:
        """Remove the filters on another flag, and return the values that they require."""
        removed = []
        for group in self.groups:
            for each in list(group["properties"]):
                if each["type"] == "flag" and each["key"] == str(id):
                    group["properties"].remove(each)
                    removed.append(each["value"])
        self.dependencies.discard(id)
        return removed


@dataclass(slots=True)
class FlagDrafts:
    """The converted flags of a document, and notes about those that were skipped."""

    drafts: dict[int, FlagDraft] = field(default_factory=dict)
    skipped: list[ImportNote] = field(default_factory=list)

    def add(self, number: int, name: str, make: Callable[[], FlagDraft]) -> None:
        try:
            self.drafts[number] = make()
        except Unsupported as error:
            self.skip(name, str(error))

    def skip(self, name: str, reason: str) -> None:
        self.skipped.append(ImportNote(kind=ResourceKind.FLAG, name=name, text=reason))

    def build_result(self) -> ConversionResult:
        """Return the valid flags, with dependencies first."""
        items: list[ImportItem] = []
        notes: list[ImportNote] = []
        keys: dict[str, str] = {}
        imported: set[int] = set()
        order, cyclic = sort_by_dependency(
            {id: draft.dependencies for id, draft in self.drafts.items()}
        )
        for id in cyclic:
            self.skip(self.drafts[id].name, "It depends on itself through other flags.")
        for id in order:
            draft = self.drafts[id]
            self._resolve_inactive_dependencies(draft)
            key = make_flag_key(draft.name)
            reason = _explain_skip(draft, key, keys, imported)
            if reason:
                self.skip(draft.name, reason)
                continue
            keys[key] = draft.name
            imported.add(id)
            if key != draft.name:
                draft.notes.insert(
                    0, f"Its key here is {key}: keys have letters, digits, _ and - only."
                )
            notes += [
                ImportNote(kind=ResourceKind.FLAG, name=draft.name, text=text)
                for text in draft.notes
            ]
            items.append(_build_item(draft, key))
        return ConversionResult(items=items, skipped=self.skipped, notes=notes)

    def _resolve_inactive_dependencies(self, draft: FlagDraft) -> None:
        """Remove dependencies on inactive flags, which flags here cannot have. A flag that needs
        such a flag to be on is off, as in the source."""
        for id in sorted(draft.dependencies & self.drafts.keys()):
            parent = self.drafts[id]
            if parent.active:
                continue
            removed = draft.remove_dependency(id)
            if any(value is not False for value in removed):
                draft.active = False
                draft.notes.append(
                    f"It is disabled here, without its dependency on {parent.name}, which is "
                    "disabled. Add the dependency before you enable it."
                )
            else:
                draft.notes.append(
                    f"Its dependency on {parent.name} is left out: it requires a disabled flag."
                )


def make_flag_key(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", name)[:KEY_MAX_CHARS]


def _explain_skip(draft: FlagDraft, key: str, keys: Mapping[str, str], imported: set[int]) -> str:
    if draft.dependencies - imported:
        return "It depends on a flag that is not imported."
    if key in keys:
        return f"Its key would be {key}, as that of {keys[key]}."
    context = ValidationContext(cohorts={}, flags={}, own_id=None)
    try:
        check_key(key, {})
        validate_filters(_remove_dependencies(draft.build_filters()), context, is_new=True)
    except Invalid as error:
        return f"{error.attr}: {error.detail}"
    return ""


def _remove_dependencies(filters: dict[str, Any]) -> dict[str, Any]:
    """Remove references to other flags: they are checked separately and do not exist yet."""
    groups = [
        {**group, "properties": [each for each in group["properties"] if each["type"] != "flag"]}
        for group in filters["groups"]
    ]
    return {**filters, "groups": groups}


def _build_item(draft: FlagDraft, key: str) -> ImportItem:
    body = {
        "key": key,
        "name": draft.description,
        "filters": draft.build_filters(),
        "active": draft.active,
        "tags": list(draft.tags),
    }
    return ImportItem(kind=ResourceKind.FLAG, source_id=draft.number, name=key, body=body)


def build_filter(key: str, operator: str, value: Any) -> dict[str, Any]:
    return {"key": key, "type": "person", "operator": operator, "value": value}


def build_is_set_filter(key: str) -> dict[str, Any]:
    return build_filter(key, "is_set", "is_set")


def build_condition(
    properties: Sequence[Mapping[str, Any]], rollout: float = 100, variant: str | None = None
) -> dict[str, Any]:
    condition = {"properties": list(properties), "rollout_percentage": rollout}
    return condition | ({"variant": variant} if variant else {})


def parse_percentage(value: Any) -> float:
    """Return a percentage, which may be a string."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Unsupported(f"{value!r} is not a percentage from 0 to 100.") from None
    if not 0 <= number <= 100:
        raise Unsupported(f"{value!r} is not a percentage from 0 to 100.")
    return number


def normalize_weights(values: Sequence[Any]) -> list[float]:
    """Return weights as percentages that add up to 100."""
    weights = [each if isinstance(each, int | float) else 0 for each in values]
    total = sum(weights)
    if not total or min(weights) < 0:
        raise Unsupported("The weights of its variants add up to 0.")
    percentages = [round(weight * 100 / total, 6) for weight in weights]
    percentages[-1] = round(100 - sum(percentages[:-1]), 6)
    return percentages


def encode_payload(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def build_pattern(texts: Sequence[str]) -> str:
    """Return a regular expression that matches any of the texts."""
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"
