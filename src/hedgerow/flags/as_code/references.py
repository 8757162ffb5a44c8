"""References in filters to other flags, cohorts and group types. Stored filters use ids,
documents use keys and names. Pure.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.model import FlagDefinitions, FlagId

FLAG, COHORT, GROUP_TYPE = "flag", "cohort", "group type"
# Gets the kind of the reference (one of the above), the id or name, and the path.
Rewrite = Callable[[str, Any, str], Any]


def rewrite_references(filters: Any, rewrite: Rewrite) -> Any:
    """Return the filters with every reference rewritten."""
    if not isinstance(filters, Mapping):
        return filters
    result = _rewrite_field(filters, _INDEX, GROUP_TYPE, rewrite, "filters")
    for section in ("groups", "super_groups"):
        if isinstance(result.get(section), list):
            result[section] = [
                _rewrite_group(group, rewrite, f"filters.{section}[{number}]")
                for number, group in enumerate(result[section])
            ]
    return result


_INDEX = "aggregation_group_type_index"
_REFERRING = {
    "flag": ("key", FLAG),
    "cohort": ("value", COHORT),
    "group": ("group_type_index", GROUP_TYPE),
}


def _rewrite_group(group: Any, rewrite: Rewrite, place: str) -> Any:
    if not isinstance(group, Mapping):
        return group
    result = _rewrite_field(group, _INDEX, GROUP_TYPE, rewrite, place)
    if isinstance(result.get("properties"), list):
        result["properties"] = [
            _rewrite_filter(filter, rewrite, f"{place}.properties[{number}]")
            for number, filter in enumerate(result["properties"])
        ]
    return result


def _rewrite_filter(filter: Any, rewrite: Rewrite, place: str) -> Any:
    kind = filter.get("type") if isinstance(filter, Mapping) else None
    if not isinstance(kind, str) or kind not in _REFERRING:
        return filter
    return _rewrite_field(filter, *_REFERRING[kind], rewrite, place)


def _rewrite_field(
    holder: Mapping[str, Any], field: str, kind: str, rewrite: Rewrite, place: str
) -> dict[str, Any]:
    if holder.get(field) is None:
        return dict(holder)
    return {**holder, field: rewrite(kind, holder[field], f"{place}.{field}")}


class ReferenceNames:
    """The names of a project's flags, cohorts and group types in a document."""

    def __init__(self, definitions: FlagDefinitions, keys: Mapping[FlagId, str]) -> None:
        self.prefix = ""
        self.unnamed: list[str] = []
        cohorts: dict[str, list[Any]] = defaultdict(list)
        for cohort in definitions.cohorts:
            cohorts[cohort.name].append(cohort.id)
        self._ids: dict[str, Mapping[str, list[Any]]] = {
            FLAG: {key: [id] for id, key in keys.items()},
            COHORT: cohorts,
            GROUP_TYPE: {name: [index] for name, index in definitions.group_types.items()},
        }
        self._names = {
            kind: {ids[0]: name for name, ids in known.items() if len(ids) == 1 and name}
            for kind, known in self._ids.items()
        }

    def to_name(self, kind: str, value: Any, place: str) -> Any:
        """Replace an id by a name. An id without a unique name stays."""
        id = value
        if isinstance(value, str) and value.isdecimal() and len(value) < 19:
            id = int(value)
        if not isinstance(id, int) or isinstance(id, bool):
            return value
        name = self._names[kind].get(id)
        if name is None:
            self.unnamed.append(f"{self.prefix}{place}: {kind} {id}")
        return id if name is None else name

    def to_id(self, kind: str, value: Any, place: str) -> Any:
        """Replace a name by an id."""
        if isinstance(value, str):
            ids = self._ids[kind].get(value, [])
            if len(ids) != 1:
                raise Invalid(self._describe_ambiguity(kind, value, len(ids)), attr=place)
            [value] = ids
        is_id = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if kind == FLAG and is_id else value

    def _describe_ambiguity(self, kind: str, name: str, number: int) -> str:
        shown = json.dumps(name, ensure_ascii=False)
        if number:
            return f"{number} cohorts are called {shown} in this project: give the id of one."
        if kind == FLAG:
            return f"There is no flag {shown}, neither in the file nor in the project."
        known = ", ".join(map(json.dumps, list(self._ids[kind])[:20])) or "none"
        return f"There is no {kind} {shown} in this project. It has: {known}."
