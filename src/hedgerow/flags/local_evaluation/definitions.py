"""Build the definitions for SDKs that evaluate flags locally. Pure.

An SDK has no static cohorts, enrollments or stored properties. Flags that it would evaluate
incorrectly are marked so that it evaluates them on the server.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
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
from hedgerow.lib import jsonio
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions
from hedgerow.persons.model import Cohort, CohortId

# An SDK evaluates a flag on the server if it needs a cohort that the definitions do not contain. No
# cohort has this id.
SERVER_CONDITION = {
    "properties": [{"key": "id", "type": "cohort", "operator": "in", "value": 0}],
    "rollout_percentage": 100,
}
# Inlining cohorts turns one condition set into at most this many, with at most so many filters.
MAX_SETS = 50
MAX_INLINED_FILTERS = 500
# The cohorts that all flags inline together.
MAX_INLINED_BYTES = 10 << 20
# A flag with a longer chain of dependencies is evaluated on the server, and so are further flags
# once all chains together have this many keys.
MAX_CHAIN = 100
MAX_CHAIN_KEYS = 20_000

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
        self._graph = CohortGraph(collect_definitions(definitions.cohorts))
        # Flags and cohorts can be named many times, so results are kept.
        self._chains: dict[FlagId, list[str]] = {}
        self._chain_keys = 0
        self._inlined: dict[CohortId, Sets | None] = {}
        self._inlined_bytes = 0

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
        requires_server = _requires_server(flag, older=self._profile is not SdkProfile.CURRENT)
        knows_cohorts = self._profile is not SdkProfile.OLDER_WITHOUT_COHORTS
        filters = self._filters(flag)
        return {
            "id": flag.id,
            "team_id": flag.project_id,
            "name": flag.name,
            "key": flag.key,
            "filters": _require_server(filters) if requires_server and knows_cohorts else filters,
            "deleted": False,
            "active": flag.active,
            # SDKs evaluate flags with experience continuity on the server. Newer ones warn of them.
            "ensure_experience_continuity": flag.ensure_experience_continuity
            or (requires_server and not knows_cohorts),
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
        chain = self._chains.get(flag.id)
        if chain is None:
            chain = self._chains[flag.id] = self._order_dependencies(flag.id)
        self._chain_keys += len(chain)
        return {
            "key": flag.key,
            "dependency_chain": chain if self._chain_keys <= MAX_CHAIN_KEYS else [],
        }

    def _order_dependencies(self, root: FlagId) -> list[str]:
        """Return the keys of the flags to evaluate, each after its dependencies. With an empty
        chain the SDK evaluates the flag on the server. For an SDK an inactive dependency is false,
        for us it is missing."""
        order: dict[FlagId, str] = {}
        waiting = [root]
        while waiting:
            id = waiting[-1]
            flag = self._flags.get(id)
            if flag is None or not flag.active or not _is_evaluable_locally(flag):
                return []
            missing = [each for each in sorted(self._needs[id]) if each not in order]
            if not missing:
                order[waiting.pop()] = flag.key
            elif missing[0] in waiting or len(order) + len(waiting) > MAX_CHAIN:
                return []
            else:
                waiting.append(missing[0])
        return list(order.values())

    def _inline_cohorts(self, group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Replace a condition set by equivalent sets without cohorts, where possible. All of
        them have the same rollout."""
        properties = _get_filters(group)
        if not any(filter.get("type") == "cohort" for filter in properties):
            return [group]
        sets = self._combine_all(properties)
        if sets is None:
            return [group]
        self._inlined_bytes += len(jsonio.encode(sets))
        if self._inlined_bytes > MAX_INLINED_BYTES:
            return [group]
        return [{**group, "properties": properties} for properties in sets]

    def _combine_all(self, nodes: Sequence[Any]) -> Sets | None:
        found: Sets = [[]]
        for node in nodes:
            sets = self._to_sets(node)
            if sets is None or _is_too_large(len(found) * len(sets), found, sets):
                return None
            found = [[*one, *other] for one in found for other in sets]
        return found

    def _combine_any(self, nodes: Sequence[Any]) -> Sets | None:
        found: Sets = []
        for node in nodes:
            sets = self._to_sets(node)
            if sets is None or _is_too_large(len(found) + len(sets), found, sets):
                return None
            found += sets
        return found

    def _to_sets(self, node: Any) -> Sets | None:
        """Convert a filter or a group to alternative sets of filters, of which all must match."""
        if not isinstance(node, Mapping) or node.get("negation"):
            return None
        if isinstance(node.get("values"), list):
            if not node["values"]:
                return [[]]
            combine = {"AND": self._combine_all, "OR": self._combine_any}.get(str(node.get("type")))
            return combine(node["values"]) if combine else None
        if node.get("type") == "cohort":
            is_in = node.get("operator") in (None, "in", "exact")
            return self._inline_cohort(_cohort_id(node.get("value"))) if is_in else None
        if node.get("type", "person") not in ("person", "group"):
            return None
        return [[{name: value for name, value in node.items() if name != "negation"}]]

    def _inline_cohort(self, id: CohortId) -> Sets | None:
        cohort = self._cohorts.get(id)
        if cohort is None or cohort.is_static or not cohort.definition:
            return None
        if id not in self._inlined:
            is_usable = self._graph.find_problem(id) is None
            self._inlined[id] = self._to_sets(cohort.definition) if is_usable else None
        return self._inlined[id]

    def _build_cohorts(self, flags: Sequence[Flag]) -> dict[str, Any]:
        """Return the cohorts that flags use, directly or indirectly. Static cohorts are left
        out, so that SDKs ask the server; so are those by behavior, and empty ones, which match
        every person in an SDK and no person here."""
        ids = {id for flag in flags for id in referenced_cohort_ids(flag.filters)}
        cohorts: dict[CohortId, Cohort] = {}
        waiting = sorted(ids)
        while waiting:
            cohort = self._cohorts.get(waiting.pop())
            if cohort is None or cohort.id in cohorts or cohort.is_static or not cohort.definition:
                continue
            outline = self._graph.outline(cohort.id)
            if outline is not None and outline.is_behavioral:
                continue
            cohorts[cohort.id] = cohort
            waiting += outline.references if outline else ()
        return {str(id): normalize_filter(cohorts[id].definition) for id in sorted(cohorts)}


def _is_too_large(count: int, one: Sets, other: Sets) -> bool:
    """Whether sets that are combined to `count` sets would be too many, or have too many filters.
    Checked before they are combined."""
    if count > MAX_SETS:
        return True
    longest = [max(map(len, sets), default=0) for sets in (one, other)]
    return count * sum(longest) > MAX_INLINED_FILTERS


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


def _require_server(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return filters that every SDK evaluates on the server. Holdouts and group types are removed:
    an SDK uses them before the conditions."""
    removed = ("holdout", "holdout_groups", "super_groups", "early_exit")
    kept = {name: part for name, part in filters.items() if name not in removed}
    return kept | {"groups": [SERVER_CONDITION], "aggregation_group_type_index": None}


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
