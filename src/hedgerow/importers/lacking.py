"""What cannot be copied because a group type is not here and cannot be made. Pure."""

from collections.abc import Collection
from typing import Any

from hedgerow.flags.references import FLAG, GROUP_TYPE, rewritten
from hedgerow.importers.model import Kind, Reading, Told, Wanted
from hedgerow.importers.shapes import number

_FILTERS = ("filters", "targeting_flag_filters")
_FLAG_IDS = ("feature_flag_id", "linked_flag_id")


def without_lacking(reading: Reading, usable: Collection[int]) -> tuple[list[Wanted], list[Told]]:
    """What can be copied where only these group types are, and what cannot and why: what counts by
    others, and what needs a flag that does."""
    kept: list[Wanted] = []
    lost: list[Told] = []
    ids: set[int] = set()
    keys: set[str] = set()
    for wanted in reading.wanted:
        types, flags = _named(wanted)
        reason = ""
        if lacking := sorted(types - set(usable)):
            name = reading.group_types.get(lacking[0])
            reason = (
                f"It is about groups of type {name}, for which there is no room here."
                if name
                else f"It is about groups of type {lacking[0]}, which the source does not list."
            )
        elif flags & ids or wanted.body.get("feature_flag_key") in keys:
            reason = "It needs a flag that is not copied."
        if not reason:
            kept.append(wanted)
            continue
        lost.append(Told(kind=wanted.kind, name=wanted.name, text=reason))
        if wanted.kind is Kind.FLAG:
            ids.add(number(wanted.source_id))
            keys.add(wanted.name)
    return kept, lost


def _named(wanted: Wanted) -> tuple[set[int], set[int]]:
    """The group types and the flags that something names, by the numbers of there."""
    types: set[int] = set()
    flags = {number(wanted.body[name]) for name in _FLAG_IDS if wanted.body.get(name) is not None}
    found = {GROUP_TYPE: types, FLAG: flags}

    def note(kind: str, value: Any, _place: str) -> Any:
        if kind in found:
            found[kind].add(number(value))
        return value

    # What a cohort asks is another language, and never about groups.
    for name in _FILTERS if wanted.kind is not Kind.COHORT else ():
        rewritten(wanted.body.get(name), note)
    return types, flags
