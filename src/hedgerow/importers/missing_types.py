"""Skip items whose group type the target project cannot have. Pure."""

from collections.abc import Collection
from typing import Any

from hedgerow.flags.as_code.references import FLAG, GROUP_TYPE, rewrite_references
from hedgerow.importers.documents import parse_id
from hedgerow.importers.model import ConversionResult, ImportItem, ImportNote, ResourceKind

_FILTERS = ("filters", "targeting_flag_filters")
_FLAG_IDS = ("feature_flag_id", "linked_flag_id")


def skip_missing_types(
    result: ConversionResult, usable: Collection[int]
) -> tuple[list[ImportItem], list[ImportNote]]:
    """Split the items into those that need only usable group types, and notes about the others.

    An item that needs a skipped flag is skipped, too.
    """
    kept: list[ImportItem] = []
    skipped: list[ImportNote] = []
    ids: set[int] = set()
    keys: set[str] = set()
    for item in result.items:
        types, flags = _find_references(item)
        reason = ""
        if missing := sorted(types - set(usable)):
            name = result.group_types.get(missing[0])
            reason = (
                f"It needs the group type {name}, and the target project has no free group type."
                if name
                else f"It needs the group type {missing[0]}, which the source does not list."
            )
        elif flags & ids or item.body.get("feature_flag_key") in keys:
            reason = "It needs a flag that is not imported."
        if not reason:
            kept.append(item)
            continue
        skipped.append(ImportNote(kind=item.kind, name=item.name, text=reason))
        if item.kind is ResourceKind.FLAG:
            ids.add(parse_id(item.source_id))
            keys.add(item.name)
    return kept, skipped


def _find_references(item: ImportItem) -> tuple[set[int], set[int]]:
    """Return the source ids of the group types and the flags that an item refers to."""
    types: set[int] = set()
    flags = {parse_id(item.body[name]) for name in _FLAG_IDS if item.body.get(name) is not None}
    found = {GROUP_TYPE: types, FLAG: flags}

    def collect(kind: str, value: Any, _location: str) -> Any:
        if kind in found:
            found[kind].add(parse_id(value))
        return value

    # The definition of a cohort has another format and refers to no group types.
    for name in _FILTERS if item.kind is not ResourceKind.COHORT else ():
        rewrite_references(item.body.get(name), collect)
    return types, flags
