"""Skip items that need something the target project cannot have. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from hedgerow.flags.as_code.references import COHORT, FLAG, GROUP_TYPE, rewrite_references
from hedgerow.importers.documents import parse_id
from hedgerow.importers.model import ConversionResult, ImportItem, ImportNote, ResourceKind
from hedgerow.persons.cohorts import referenced_cohorts

_FILTERS = ("filters", "targeting_flag_filters")
_FLAG_IDS = ("feature_flag_id", "linked_flag_id")


@dataclass(slots=True)
class RejectedItems:
    """The items that are not imported, by which other items can be recognized that need them."""

    ids: dict[ResourceKind, set[int]] = field(
        default_factory=lambda: {ResourceKind.FLAG: set(), ResourceKind.COHORT: set()}
    )
    keys: set[str] = field(default_factory=set)

    def add(self, item: ImportItem) -> None:
        if item.kind in self.ids:
            self.ids[item.kind].add(parse_id(item.source_id))
        if item.kind is ResourceKind.FLAG:
            self.keys.add(item.name)

    def explain_need(self, item: ImportItem) -> str:
        """Return why an item cannot be imported without these; "" if it does not need them."""
        _, flags, cohorts = _find_references(item)
        if flags & self.ids[ResourceKind.FLAG] or item.body.get("feature_flag_key") in self.keys:
            return "It needs a flag that is not imported."
        if cohorts & self.ids[ResourceKind.COHORT]:
            return "It needs a cohort that is not imported."
        return ""


def skip_missing_types(
    result: ConversionResult, usable: Collection[int]
) -> tuple[list[ImportItem], list[ImportNote]]:
    """Split the items into those that need only usable group types, and notes about the others.

    An item that needs a skipped flag is skipped, too.
    """
    kept: list[ImportItem] = []
    skipped: list[ImportNote] = []
    rejected = RejectedItems()
    for item in result.items:
        types, _, _ = _find_references(item)
        reason = rejected.explain_need(item)
        if missing := sorted(types - set(usable)):
            name = result.group_types.get(missing[0])
            reason = (
                f"It needs the group type {name}, and the target project has no free group type."
                if name
                else f"It needs the group type {missing[0]}, which the source does not list."
            )
        if not reason:
            kept.append(item)
            continue
        skipped.append(ImportNote(kind=item.kind, name=item.name, text=reason))
        rejected.add(item)
    return kept, skipped


def _find_references(item: ImportItem) -> tuple[set[int], set[int], set[int]]:
    """Return the source ids of the group types, flags and cohorts that an item refers to."""
    types: set[int] = set()
    cohorts: set[int] = set()
    flags = {parse_id(item.body[name]) for name in _FLAG_IDS if item.body.get(name) is not None}
    found = {GROUP_TYPE: types, FLAG: flags, COHORT: cohorts}

    def collect(kind: str, value: Any, _location: str) -> Any:
        if kind in found:
            found[kind].add(parse_id(value))
        return value

    if item.kind is ResourceKind.COHORT:  # its definition has another format
        cohorts |= referenced_cohorts(item.body.get("filters", {}).get("properties"))
        return types, flags, cohorts
    for name in _FILTERS:
        rewrite_references(item.body.get(name), collect)
    return types, flags, cohorts
