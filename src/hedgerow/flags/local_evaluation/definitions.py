"""Build the definitions for SDKs that evaluate flags locally. Pure.

An SDK has no static cohorts, enrollments or stored properties. Flags that it would evaluate
incorrectly are marked so that it evaluates them on the server.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import product
from typing import Any

from hedgerow.flags.local_evaluation.sdk_normalize import normalize_filter, normalize_filters
from hedgerow.flags.model import SURVEY_PREFIX, Bucketing, Flag, FlagDefinitions, FlagId
from hedgerow.flags.payloads import redact_filters
from hedgerow.flags.validate import (
    condition_sets,
    referenced_cohort_ids,
    referenced_flag_ids,
    super_groups,
)
from hedgerow.persons.cohort_graph import MAX_LEVELS, collect_nodes, referenced_cohort
from hedgerow.persons.model import Cohort, CohortId

# Inlining cohorts turns one condition set into at most this many.
MAX_SETS = 50

Sets = list[list[Mapping[str, Any]]]


class SdkProfile(StrEnum):
    """Current SDKs, older ones that support cohorts, and older ones that do not."""

    CURRENT = "current"
    OLDER = "older"
    OLDER_WITHOUT_COHORTS = "older without cohorts"


def build_local_definitions(definitions: FlagDefinitions, profile: SdkProfile) -> dict[str, Any]:
    """Build the response body for an SDK."""
    return _DefinitionsBuilder(definitions, profile).build()


class _DefinitionsBuilder:
    def __init__(self, definitions: FlagDefinitions, profile: SdkProfile) -> None:
        self._definitions = definitions
        self._profile = profile
        self._cohorts = {cohort.id: cohort for cohort in definitions.cohorts}
        self._flags = {flag.id: flag for flag in definitions.flags if not flag.deleted}
        self._needs = {flag.id: referenced_flag_ids(flag.filters) for flag in self._flags.values()}

    def build(self) -> dict[str, Any]:
        flags = [flag for flag in self._flags.values() if _is_evaluable_locally(flag)]
        with_cohorts = self._profile is not SdkProfile.OLDER_WITHOUT_COHORTS
        return {
            "flags": [self._flag(flag) for flag in flags],
            "group_type_mapping": {
                str(index): name for name, index in self._definitions.group_types.items()
            },
            "cohorts": self._build_cohorts(flags) if with_cohorts else {},
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
            # SDKs evaluate flags with experience continuity on the server.
            "ensure_experience_continuity": flag.ensure_experience_continuity
            or _requires_server(flag, older=self._profile is not SdkProfile.CURRENT),
            "has_encrypted_payloads": flag.has_encrypted_payloads,
            "version": flag.version,
            "evaluation_runtime": flag.evaluation_runtime.value,
            "evaluation_tags": list(flag.evaluation_contexts),
            "bucketing_identifier": flag.bucketing_identifier.value,
        }

    def _filters(self, flag: Flag) -> Any:
        filters = redact_filters(flag)
        groups = condition_sets(filters)
        if self._needs[flag.id]:
            groups = [self._add_dependency_chains(group) for group in groups]
        if self._profile is SdkProfile.OLDER_WITHOUT_COHORTS and referenced_cohort_ids(filters):
            groups = [each for group in groups for each in self._inline_cohorts(group)]
        return normalize_filters({**filters, "groups": groups})

    def _add_dependency_chains(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refer to other flags by key, with the chain of flags to evaluate first."""
        properties = [
            {**filter, **self._build_chain(filter)} if filter.get("type") == "flag" else filter
            for filter in _get_filters(group)
        ]
        return {**group, "properties": properties}

    def _build_chain(self, filter: Mapping[str, Any]) -> dict[str, Any]:
        flag = self._flags.get(_flag_id(filter.get("key")))
        if flag is None:
            return {"dependency_chain": []}
        order: list[FlagId] = []
        is_complete = self._add_in_order(flag.id, order, [])
        # For an SDK an inactive dependency is false, for us it is missing. With an empty chain the
        # SDK evaluates the flag on the server.
        dependencies = [self._flags[id] for id in order]
        is_complete = is_complete and all(
            each.active and _is_evaluable_locally(each) for each in dependencies
        )
        chain = [self._flags[id].key for id in order] if is_complete else []
        return {"key": flag.key, "dependency_chain": chain}

    def _add_in_order(self, id: FlagId, order: list[FlagId], above: list[FlagId]) -> bool:
        """Append the dependencies of a flag, then the flag. False if one is missing or cyclic."""
        if id in order:
            return True
        if id not in self._flags or id in above or len(above) > MAX_LEVELS:
            return False
        dependencies = sorted(self._needs[id])
        if not all(self._add_in_order(each, order, [*above, id]) for each in dependencies):
            return False
        order.append(id)
        return True

    def _inline_cohorts(self, group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Replace a condition set by equivalent sets without cohorts, where possible. All of
        them have the same rollout."""
        properties = _get_filters(group)
        if not any(filter.get("type") == "cohort" for filter in properties):
            return [group]
        sets = self._combine_all(properties, 0)
        if sets is None:
            return [group]
        return [{**group, "properties": properties} for properties in sets]

    def _combine_all(self, nodes: Sequence[Any], level: int) -> Sets | None:
        each = [self._to_sets(node, level) for node in nodes]
        found: list[Sets] = [sets for sets in each if sets is not None]
        count = 1
        for sets in found:
            count *= len(sets)
        if len(found) < len(each) or count > MAX_SETS:
            return None
        return [[filter for part in parts for filter in part] for parts in product(*found)]

    def _combine_any(self, nodes: Sequence[Any], level: int) -> Sets | None:
        found: Sets = []
        for node in nodes:
            sets = self._to_sets(node, level)
            if sets is None or len(found) + len(sets) > MAX_SETS:
                return None
            found += sets
        return found

    def _to_sets(self, node: Any, level: int) -> Sets | None:
        """Convert a filter or a group to alternative sets of filters, of which all must match."""
        if not isinstance(node, Mapping) or node.get("negation") or level > MAX_LEVELS:
            return None
        if isinstance(node.get("values"), list):
            if not node["values"]:
                return [[]]
            combine = {"AND": self._combine_all, "OR": self._combine_any}.get(str(node.get("type")))
            return combine(node["values"], level + 1) if combine else None
        if node.get("type") == "cohort":
            cohort = self._cohorts.get(_cohort_id(node.get("value")))
            is_in = node.get("operator") in (None, "in", "exact")
            if cohort is None or cohort.is_static or not is_in:
                return None
            return self._to_sets(cohort.definition, level + 1) if cohort.definition else None
        if node.get("type", "person") not in ("person", "group"):
            return None
        return [[{name: value for name, value in node.items() if name != "negation"}]]

    def _build_cohorts(self, flags: Sequence[Flag]) -> dict[str, Any]:
        """Return the cohorts that flags use, directly or indirectly. Static cohorts are left
        out, so that SDKs ask the server; so are empty ones, which match every person in an SDK
        and no person here."""
        ids = {id for flag in flags for id in referenced_cohort_ids(flag.filters)}
        cohorts: dict[CohortId, Cohort] = {}
        waiting = sorted(ids)
        while waiting:
            cohort = self._cohorts.get(waiting.pop())
            if cohort is None or cohort.id in cohorts or cohort.is_static or not cohort.definition:
                continue
            cohorts[cohort.id] = cohort
            nodes = collect_nodes(cohort.definition, {}) or ()
            waiting += [id for node in nodes if (id := referenced_cohort(node)) is not None]
        return {str(id): normalize_filter(cohorts[id].definition) for id in sorted(cohorts)}


def _is_evaluable_locally(flag: Flag) -> bool:
    """Leave out remote configurations, invalid definitions, and the flags of surveys: server
    SDKs do not show surveys."""
    filters: Any = flag.filters
    is_surveys = flag.key.startswith(SURVEY_PREFIX)
    if flag.is_remote_configuration or is_surveys or not isinstance(filters, Mapping):
        return False
    groups = filters.get("groups")
    return isinstance(groups, list) and all(
        isinstance(group, Mapping) and isinstance(group.get("properties") or [], list)
        for group in groups
    )


def _requires_server(flag: Flag, *, older: bool) -> bool:
    """Whether an SDK would ignore a part of the definition."""
    filters = flag.filters
    if filters.get("feature_enrollment") or super_groups(filters) or filters.get("holdout_groups"):
        return True
    return older and bool(
        flag.bucketing_identifier is Bucketing.DEVICE_ID
        or filters.get("holdout")
        or filters.get("early_exit")
        or any("aggregation_group_type_index" in group for group in condition_sets(filters))
    )


def _get_filters(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [filter for filter in group.get("properties") or () if isinstance(filter, Mapping)]


def _flag_id(value: Any) -> FlagId:
    text = str(value)
    return FlagId(int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0)


def _cohort_id(value: Any) -> CohortId:
    return CohortId(_flag_id(value))
