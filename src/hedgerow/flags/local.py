"""A project's flags as SDKs need them to evaluate flags by themselves. Pure.

An SDK knows less than we do: nothing of lists of persons, of enrolment, of what is stored. What it
would get wrong is told in a way that makes it ask us instead.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import product
from typing import Any

from hedgerow.flags.model import SURVEY_PREFIX, Bucketing, Definitions, Flag, FlagId
from hedgerow.flags.payloads import shown_filters
from hedgerow.flags.readable import readable_filter, readable_filters
from hedgerow.flags.rules import condition_sets, needed_cohorts, needed_ids, super_groups
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.nesting import MAX_LEVELS, asked_cohort, asked_within

# One condition set that asks for cohorts becomes so many at most.
MAX_SETS = 50

Sets = list[list[Mapping[str, Any]]]


class Audience(StrEnum):
    """The SDKs of today, older ones that read cohorts, and older ones that do not."""

    CURRENT = "current"
    OLDER = "older"
    OLDER_WITHOUT_COHORTS = "older without cohorts"


def local_definitions(definitions: Definitions, audience: Audience) -> dict[str, Any]:
    """The answer to an SDK that evaluates flags by itself."""
    return _Telling(definitions, audience).told()


class _Telling:
    def __init__(self, definitions: Definitions, audience: Audience) -> None:
        self._definitions = definitions
        self._audience = audience
        self._cohorts = {cohort.id: cohort for cohort in definitions.cohorts}
        self._flags = {flag.id: flag for flag in definitions.flags if not flag.deleted}
        self._needs = {flag.id: needed_ids(flag.filters) for flag in self._flags.values()}

    def told(self) -> dict[str, Any]:
        flags = [flag for flag in self._flags.values() if _can_be_told(flag)]
        with_cohorts = self._audience is not Audience.OLDER_WITHOUT_COHORTS
        return {
            "flags": [self._flag(flag) for flag in flags],
            "group_type_mapping": {
                str(index): name for name, index in self._definitions.group_types.items()
            },
            "cohorts": self._asked_cohorts(flags) if with_cohorts else {},
        }

    def _flag(self, flag: Flag) -> dict[str, Any]:
        return {
            "id": flag.id,
            "team_id": flag.project_id,
            "name": flag.name,
            "key": flag.key,
            "filters": self._filters(flag),
            "deleted": False,
            "active": flag.active,
            # An SDK asks the server for flags that outlast a login, whatever they are.
            "ensure_experience_continuity": flag.ensure_experience_continuity
            or _is_for_the_server(flag, older=self._audience is not Audience.CURRENT),
            "has_encrypted_payloads": flag.has_encrypted_payloads,
            "version": flag.version,
            "evaluation_runtime": flag.evaluation_runtime.value,
            "evaluation_tags": list(flag.evaluation_contexts),
            "bucketing_identifier": flag.bucketing_identifier.value,
        }

    def _filters(self, flag: Flag) -> Any:
        filters = shown_filters(flag)
        groups = condition_sets(filters)
        if self._needs[flag.id]:
            groups = [self._with_chains(group) for group in groups]
        if self._audience is Audience.OLDER_WITHOUT_COHORTS and needed_cohorts(filters):
            groups = [each for group in groups for each in self._without_cohorts(group)]
        return readable_filters({**filters, "groups": groups})

    def _with_chains(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        """Flags that are asked about by their keys, with all that is to be evaluated before."""
        properties = [
            {**filter, **self._chain(filter)} if filter.get("type") == "flag" else filter
            for filter in _filters_of(group)
        ]
        return {**group, "properties": properties}

    def _chain(self, filter: Mapping[str, Any]) -> dict[str, Any]:
        flag = self._flags.get(_flag_id(filter.get("key")))
        if flag is None:
            return {"dependency_chain": []}
        order: list[FlagId] = []
        is_sound = self._add_in_order(flag.id, order, [])
        # To an SDK an inactive flag is false, to us one that is missing; an empty chain is for us.
        needed = [self._flags[id] for id in order]
        is_sound = is_sound and all(each.active and _can_be_told(each) for each in needed)
        chain = [self._flags[id].key for id in order] if is_sound else []
        return {"key": flag.key, "dependency_chain": chain}

    def _add_in_order(self, id: FlagId, order: list[FlagId], above: list[FlagId]) -> bool:
        """First what a flag needs, then itself; false if something is missing or goes round."""
        if id in order:
            return True
        if id not in self._flags or id in above or len(above) > MAX_LEVELS:
            return False
        needed = sorted(self._needs[id])
        if not all(self._add_in_order(each, order, [*above, id]) for each in needed):
            return False
        order.append(id)
        return True

    def _without_cohorts(self, group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The same as condition sets that ask for no cohort, where they can say it. Whoever is in
        one of them is in at the same place of the rollout."""
        properties = _filters_of(group)
        if not any(filter.get("type") == "cohort" for filter in properties):
            return [group]
        sets = self._all_of(properties, 0)
        if sets is None:
            return [group]
        return [{**group, "properties": properties} for properties in sets]

    def _all_of(self, nodes: Sequence[Any], level: int) -> Sets | None:
        each = [self._sets(node, level) for node in nodes]
        found: list[Sets] = [sets for sets in each if sets is not None]
        count = 1
        for sets in found:
            count *= len(sets)
        if len(found) < len(each) or count > MAX_SETS:
            return None
        return [[filter for part in parts for filter in part] for parts in product(*found)]

    def _any_of(self, nodes: Sequence[Any], level: int) -> Sets | None:
        found: Sets = []
        for node in nodes:
            sets = self._sets(node, level)
            if sets is None or len(found) + len(sets) > MAX_SETS:
                return None
            found += sets
        return found

    def _sets(self, node: Any, level: int) -> Sets | None:
        """A filter or a group of them as filters of which all must hold, in one set or another."""
        if not isinstance(node, Mapping) or node.get("negation") or level > MAX_LEVELS:
            return None
        if isinstance(node.get("values"), list):
            if not node["values"]:
                return [[]]
            combine = {"AND": self._all_of, "OR": self._any_of}.get(str(node.get("type")))
            return combine(node["values"], level + 1) if combine else None
        if node.get("type") == "cohort":
            cohort = self._cohorts.get(_cohort_id(node.get("value")))
            is_in = node.get("operator") in (None, "in", "exact")
            if cohort is None or cohort.is_static or not is_in:
                return None
            return self._sets(cohort.definition, level + 1) if cohort.definition else None
        if node.get("type", "person") not in ("person", "group"):
            return None
        return [[{name: value for name, value in node.items() if name != "negation"}]]

    def _asked_cohorts(self, flags: Sequence[Flag]) -> dict[str, Any]:
        """What flags ask for, and what that asks for. A list of persons is not told, so whoever
        needs it asks us; so is one that asks nothing, which is everybody to an SDK and nobody
        to us."""
        ids = {id for flag in flags for id in needed_cohorts(flag.filters)}
        told: dict[CohortId, Cohort] = {}
        waiting = sorted(ids)
        while waiting:
            cohort = self._cohorts.get(waiting.pop())
            if cohort is None or cohort.id in told or cohort.is_static or not cohort.definition:
                continue
            told[cohort.id] = cohort
            nodes = asked_within(cohort.definition, {}) or ()
            waiting += [id for node in nodes if (id := asked_cohort(node)) is not None]
        return {str(id): readable_filter(told[id].definition) for id in sorted(told)}


def _can_be_told(flag: Flag) -> bool:
    """Not a remote configuration, which nobody evaluates, nor what was stored by a mistake. Nor
    what is a survey's: servers show none, and would ask us each time they want all flags."""
    filters: Any = flag.filters
    is_surveys = flag.key.startswith(SURVEY_PREFIX)
    if flag.is_remote_configuration or is_surveys or not isinstance(filters, Mapping):
        return False
    groups = filters.get("groups")
    return isinstance(groups, list) and all(
        isinstance(group, Mapping) and isinstance(group.get("properties") or [], list)
        for group in groups
    )


def _is_for_the_server(flag: Flag, *, older: bool) -> bool:
    """Whether an SDK would take no notice of something that counts."""
    filters = flag.filters
    if filters.get("feature_enrollment") or super_groups(filters) or filters.get("holdout_groups"):
        return True
    return older and bool(
        flag.bucketing_identifier is Bucketing.DEVICE_ID
        or filters.get("holdout")
        or filters.get("early_exit")
        or any("aggregation_group_type_index" in group for group in condition_sets(filters))
    )


def _filters_of(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [filter for filter in group.get("properties") or () if isinstance(filter, Mapping)]


def _flag_id(value: Any) -> FlagId:
    text = str(value)
    return FlagId(int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0)


def _cohort_id(value: Any) -> CohortId:
    return CohortId(_flag_id(value))
