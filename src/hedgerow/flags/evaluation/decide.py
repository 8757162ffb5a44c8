"""Decide the requested flags for one person.

Stored data is loaded only if an outcome depends on it. If it cannot be loaded, flags that do not
need it are still correct, and the decision has `has_errors` set. So it has if the data is stale.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.errors import Unavailable
from hedgerow.filters.values import MISSING
from hedgerow.flags.evaluation.budget import CHEAP_COST_US, EvaluationPacer
from hedgerow.flags.evaluation.compile import CompiledFlag
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import EvaluationPlan, FlagSnapshot
from hedgerow.flags.model import SURVEY_PREFIX, FlagOutcome, Runtime
from hedgerow.flags.store import EvaluationDataStore
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS, MAX_GROUP_TYPES
from hedgerow.projects.model import Project


def _any_runtime() -> Runtime | None:
    return None


# The specification of /decide names these.
_UNKNOWN_LOCATION = dict.fromkeys(
    (
        "$geoip_city_name",
        "$geoip_country_name",
        "$geoip_country_code",
        "$geoip_continent_name",
        "$geoip_continent_code",
        "$geoip_postal_code",
        "$geoip_time_zone",
    ),
    MISSING,
)


def no_geoip() -> Mapping[str, str]:
    return {}


class EvaluationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`flag_keys` and `contexts` limit the flags; None means no limit. `runtime` and `geoip` are
    called only if a flag uses them."""

    distinct_id: str
    person_properties: Mapping[str, Any] = {}
    groups: Mapping[str, str] = {}
    group_properties: Mapping[str, Mapping[str, Any]] = {}
    anonymous_id: str | None = None
    device_id: str | None = None
    flag_keys: frozenset[str] | None = None
    contexts: frozenset[str] | None = None
    runtime: Callable[[], Runtime | None] = _any_runtime
    only_surveys: bool = False
    geoip: Callable[[], Mapping[str, str]] = no_geoip


class FlagDecision(msgspec.Struct, frozen=True, kw_only=True):
    outcomes: Sequence[FlagOutcome]
    has_errors: bool


class Decider:
    def __init__(
        self, flag_cache: FlagCache, data: EvaluationDataStore, pacer: EvaluationPacer
    ) -> None:
        self._flag_cache = flag_cache
        self._data = data
        self._pacer = pacer

    async def decide(
        self, project: Project, request: EvaluationRequest, now: datetime
    ) -> FlagDecision:
        snapshot = self._flag_cache.get_cached(project) or await self._flag_cache.refresh(project)
        if request.groups and snapshot.uses_groups:
            snapshot = await self._add_group_types(project, snapshot, request.groups)
        flags = _select_flags(snapshot, request)
        context = build_context(snapshot, request, now)
        is_saved = is_fresh = True
        if request.anonymous_id and _has_continuity(snapshot, flags):
            is_saved = await self._save_hash_keys(project, snapshot, request, request.anonymous_id)
        plan = snapshot.plan(flags)
        outcomes = await self._evaluate(project, snapshot, plan, context, stop=True)
        if context.needs_stored_data:
            is_fresh = await self._add_stored_data(project, snapshot, context, request.anonymous_id)
            outcomes = await self._evaluate(project, snapshot, plan, context, stop=False)
        has_errors = context.has_errors or not (is_saved and is_fresh)
        return FlagDecision(outcomes=outcomes, has_errors=has_errors)

    async def _evaluate(
        self,
        project: Project,
        snapshot: FlagSnapshot,
        plan: EvaluationPlan,
        context: EvaluationContext,
        *,
        stop: bool,
    ) -> list[FlagOutcome]:
        if plan.cost_us <= CHEAP_COST_US:
            return snapshot.evaluate_plan(plan, context, stop)
        outcomes = plan.defaults.copy()
        parts = snapshot.evaluate_in_parts(plan, context, outcomes, stop_at_stored_data=stop)
        await self._pacer.run(project.id, parts, context)
        return outcomes

    async def _add_group_types(
        self, project: Project, snapshot: FlagSnapshot, groups: Mapping[str, str]
    ) -> FlagSnapshot:
        """Return a snapshot that knows these group types, if an accepted event creates them."""
        unknown = [name for name in groups if name not in snapshot.definitions.group_types]
        if not unknown or len(snapshot.definitions.group_types) >= MAX_GROUP_TYPES:
            return snapshot
        try:
            await self._data.wait_for_group_types(project.id, unknown)
            return await self._flag_cache.refresh(project)
        except Unavailable:
            return snapshot

    async def _add_stored_data(
        self,
        project: Project,
        snapshot: FlagSnapshot,
        context: EvaluationContext,
        before: str | None,
    ) -> bool:
        """Load the stored data into the context. Does nothing if the database is unavailable.
        Return False if the data is stale."""
        try:
            stored = await self._data.load(
                project.id,
                context.distinct_id,
                context.groups,
                cohorts=snapshot.has_static_cohorts,
                hash_keys=bool(snapshot.continuity_keys),
                behaviors=snapshot.uses_behaviors,
            )
            hash_keys = stored.hash_keys
            if before and snapshot.continuity_keys:
                # The anonymous id may have hash keys from before the login; the own ones win.
                earlier = await self._data.load(
                    project.id, before, {}, cohorts=False, behaviors=False
                )
                hash_keys = {**earlier.hash_keys, **hash_keys}
        except Unavailable:
            return True
        context.add_stored_data(
            stored.properties,
            groups=stored.groups,
            cohorts=stored.cohorts,
            hash_keys=hash_keys,
            behaviors=stored.behaviors,
        )
        return not stored.is_stale

    async def _save_hash_keys(
        self, project: Project, snapshot: FlagSnapshot, request: EvaluationRequest, before: str
    ) -> bool:
        """Save the identifier from before a login, for flags with experience continuity. False if
        the database is unavailable."""
        id = request.distinct_id[:DISTINCT_ID_MAX_CHARS]
        try:
            stored_data = [
                await self._data.load(project.id, each, {}, cohorts=False, behaviors=False)
                for each in (id, before)
            ]
            if not any(
                stored.person_id is not None
                and not stored.hash_keys.keys() >= set(snapshot.continuity_keys)
                for stored in stored_data
            ):
                return True
            await self._data.save_hash_keys(
                project.id,
                [id, before],
                before,
                snapshot.continuity_keys,
            )
        except Unavailable:
            return False
        return True


def _has_continuity(snapshot: FlagSnapshot, flags: Sequence[CompiledFlag]) -> bool:
    if not snapshot.continuity_keys or flags is snapshot.all_flags:
        return bool(snapshot.continuity_keys)
    return any(each.flag.active and each.flag.ensure_experience_continuity for each in flags)


def _select_flags(snapshot: FlagSnapshot, request: EvaluationRequest) -> Sequence[CompiledFlag]:
    flags: Sequence[CompiledFlag] = snapshot.all_flags
    if request.flag_keys is not None:
        flags = snapshot.select(request.flag_keys)
    if snapshot.has_runtime_or_context_limits:
        runtime = request.runtime()
        flags = [each for each in flags if _is_for(each, runtime, request.contexts)]
    if request.only_surveys:
        flags = [each for each in flags if each.flag.key.startswith(SURVEY_PREFIX)]
    return flags


def _is_for(each: CompiledFlag, runtime: Runtime | None, contexts: frozenset[str] | None) -> bool:
    flag = each.flag
    runs_there = Runtime.ALL in (flag.evaluation_runtime, runtime) or (
        flag.evaluation_runtime is runtime
    )
    has_context = (
        not flag.evaluation_contexts
        or contexts is None
        or not contexts.isdisjoint(flag.evaluation_contexts)
    )
    return runs_there and has_context


def build_context(
    snapshot: FlagSnapshot, request: EvaluationRequest, now: datetime
) -> EvaluationContext:
    properties = request.person_properties
    if snapshot.uses_geoip and (location := request.geoip()):
        # Precedence: properties of the request, then GeoIP, then stored properties. What is not
        # known of a location is missing: the stored city can be in another country.
        properties = {**_UNKNOWN_LOCATION, **location, **properties}
    if not request.groups:
        return EvaluationContext(
            distinct_id=request.distinct_id,
            now=now,
            person_properties=properties,
            anonymous_id=request.anonymous_id,
            device_id=request.device_id,
        )
    indexes = snapshot.definitions.group_types
    return EvaluationContext(
        distinct_id=request.distinct_id,
        now=now,
        person_properties=properties,
        groups={indexes[name]: key for name, key in request.groups.items() if name in indexes},
        group_properties={
            indexes[name]: properties
            for name, properties in request.group_properties.items()
            if name in indexes
        },
        anonymous_id=request.anonymous_id,
        device_id=request.device_id,
    )
