"""What filters name besides themselves: another flag, a cohort, a group type. Stored filters name
it by number, a document by key or name. Pure.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.model import Definitions, FlagId

FLAG, COHORT, GROUP_TYPE = "flag", "cohort", "group type"
# What a number or name stands for (one of the above), the number or name, its place.
Rewrite = Callable[[str, Any, str], Any]


def rewritten(filters: Any, rewrite: Rewrite) -> Any:
    """The filters with every number or name of another thing rewritten."""
    if not isinstance(filters, Mapping):
        return filters
    result = _field_rewritten(filters, _INDEX, GROUP_TYPE, rewrite, "filters")
    for section in ("groups", "super_groups"):
        if isinstance(result.get(section), list):
            result[section] = [
                _group_rewritten(group, rewrite, f"filters.{section}[{number}]")
                for number, group in enumerate(result[section])
            ]
    return result


_INDEX = "aggregation_group_type_index"
_REFERRING = {
    "flag": ("key", FLAG),
    "cohort": ("value", COHORT),
    "group": ("group_type_index", GROUP_TYPE),
}


def _group_rewritten(group: Any, rewrite: Rewrite, place: str) -> Any:
    if not isinstance(group, Mapping):
        return group
    result = _field_rewritten(group, _INDEX, GROUP_TYPE, rewrite, place)
    if isinstance(result.get("properties"), list):
        result["properties"] = [
            _filter_rewritten(filter, rewrite, f"{place}.properties[{number}]")
            for number, filter in enumerate(result["properties"])
        ]
    return result


def _filter_rewritten(filter: Any, rewrite: Rewrite, place: str) -> Any:
    kind = filter.get("type") if isinstance(filter, Mapping) else None
    if not isinstance(kind, str) or kind not in _REFERRING:
        return filter
    return _field_rewritten(filter, *_REFERRING[kind], rewrite, place)


def _field_rewritten(
    holder: Mapping[str, Any], field: str, kind: str, rewrite: Rewrite, place: str
) -> dict[str, Any]:
    if holder.get(field) is None:
        return dict(holder)
    return {**holder, field: rewrite(kind, holder[field], f"{place}.{field}")}


class Names:
    """What a document calls a project's flags, cohorts and group types."""

    def __init__(self, seen: Definitions, keys: Mapping[FlagId, str]) -> None:
        self.prefix = ""
        self.nameless: list[str] = []
        cohorts: dict[str, list[Any]] = defaultdict(list)
        for cohort in seen.cohorts:
            cohorts[cohort.name].append(cohort.id)
        self._ids: dict[str, Mapping[str, list[Any]]] = {
            FLAG: {key: [id] for id, key in keys.items()},
            COHORT: cohorts,
            GROUP_TYPE: {name: [index] for name, index in seen.group_types.items()},
        }
        self._names = {
            kind: {ids[0]: name for name, ids in known.items() if len(ids) == 1 and name}
            for kind, known in self._ids.items()
        }

    def outward(self, kind: str, value: Any, place: str) -> Any:
        """A name instead of a number; what has no name of its own stays a number."""
        id = value
        if isinstance(value, str) and value.isdecimal() and len(value) < 19:
            id = int(value)
        if not isinstance(id, int) or isinstance(id, bool):
            return value
        name = self._names[kind].get(id)
        if name is None:
            self.nameless.append(f"{self.prefix}{place}: {kind} {id}")
        return id if name is None else name

    def inward(self, kind: str, value: Any, place: str) -> Any:
        """A number instead of a name."""
        if isinstance(value, str):
            ids = self._ids[kind].get(value, [])
            if len(ids) != 1:
                raise Invalid(self._not_one(kind, value, len(ids)), attr=place)
            [value] = ids
        is_id = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if kind == FLAG and is_id else value

    def _not_one(self, kind: str, name: str, number: int) -> str:
        shown = json.dumps(name, ensure_ascii=False)
        if number:
            return f"{number} cohorts are called {shown} in this project: give the id of one."
        if kind == FLAG:
            return f"There is no flag {shown}, neither in the file nor in the project."
        known = ", ".join(map(json.dumps, list(self._ids[kind])[:20])) or "none"
        return f"There is no {kind} {shown} in this project. It has: {known}."
