"""Explain why a person gets a value from a flag. Pure.

The outcome comes from the evaluation itself; the explanation evaluates the same predicates again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.evaluation.bucket import HOLDOUT, VARIANT, bucket_position, encode_identifier
from hedgerow.flags.evaluation.compile import (
    ENROLLMENT,
    CompiledCondition,
    CompiledFlag,
    Identify,
    cumulative_variant_shares,
    parse_holdout,
    rollout_percentage_of,
    select_identifier,
    wrap_legacy_filters,
)
from hedgerow.flags.evaluation.decide import EvaluationRequest, build_context
from hedgerow.flags.evaluation.evaluation_context import INITIAL_PREFIX, NeedsStoredData
from hedgerow.flags.evaluation.explanation import (
    ConditionExplanation,
    DependencyExplanation,
    Explanation,
    FilterExplanation,
    FilterGroupExplanation,
    OverrideExplanation,
    RolloutExplanation,
    Source,
    VariantExplanation,
    VariantRange,
    Verdict,
)
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.model import Bucketing, Flag, FlagId, FlagOutcome, Reason
from hedgerow.flags.store import StoredData
from hedgerow.flags.validate import referenced_flag_ids
from hedgerow.lib.text import parse_whole_number
from hedgerow.persons.behaviors.filters import parse_behavioral_filter
from hedgerow.persons.behaviors.membership import describe_filter, describe_occurrences
from hedgerow.persons.behaviors.times import unpack_occurrences
from hedgerow.persons.model import Cohort, CohortId


def explain_flags(
    snapshot: FlagSnapshot, request: EvaluationRequest, stored: StoredData, now: datetime
) -> list[Explanation]:
    """Return one explanation for each requested flag, sorted by key."""
    return _Explainer(snapshot, request, stored, now).explain_all()


class _Explainer:
    def __init__(
        self, snapshot: FlagSnapshot, request: EvaluationRequest, stored: StoredData, now: datetime
    ) -> None:
        self._snapshot = snapshot
        self._request = request
        self._stored = stored
        definitions = snapshot.definitions
        self._type_names = {index: name for name, index in definitions.group_types.items()}
        self._cohorts = {cohort.id: cohort for cohort in definitions.cohorts if not cohort.deleted}
        self._explained_cohorts: set[CohortId] = set()
        self._flags = {flag.id: flag for flag in definitions.flags}
        self._context = build_context(snapshot, request, now)
        self._context.add_stored_data(
            stored.properties,
            groups=stored.groups,
            cohorts=stored.cohorts,
            hash_keys=stored.hash_keys,
            behaviors=stored.behaviors,
        )
        keys = request.flag_keys
        flags = snapshot.all_flags if keys is None else snapshot.select(keys)
        outcomes = snapshot.evaluate(flags, self._context)
        self._results = {outcome.flag.id: outcome for outcome in outcomes}

    def explain_all(self) -> list[Explanation]:
        keys = self._request.flag_keys
        requested = [
            outcome
            for outcome in self._results.values()
            if keys is None or outcome.flag.key in keys
        ]
        return [self._explain(each) for each in sorted(requested, key=lambda each: each.flag.key)]

    def _explain(self, outcome: FlagOutcome) -> Explanation:
        self._explained_cohorts.clear()
        compiled = self._snapshot.get(outcome.flag.key)
        if outcome.reason is Reason.MISSING_DEPENDENCY:
            return Explanation(
                outcome=outcome, dependencies=self._explain_dependencies(outcome.flag)
            )
        if compiled is None or not compiled.conditions:
            return Explanation(outcome=outcome)
        filters = wrap_legacy_filters(outcome.flag.filters)
        exceptions = [
            override
            for explain in (
                self._explain_enrollment,
                self._explain_super_condition,
                self._explain_holdout,
            )
            if (override := explain(outcome.flag, filters)) is not None
        ]
        return Explanation(
            outcome=outcome,
            exceptions=exceptions,
            conditions=self._explain_conditions(
                compiled, filters, is_open=not any(each.decides for each in exceptions)
            ),
            dependencies=self._explain_dependencies(outcome.flag),
        )

    def _explain_conditions(
        self, compiled: CompiledFlag, filters: Mapping[str, Any], *, is_open: bool
    ) -> list[ConditionExplanation]:
        explained = []
        for condition in compiled.conditions:
            each = self._explain_condition(compiled.flag, condition, filters, is_reached=is_open)
            explained.append(each)
            ends = each.verdict is Verdict.MATCHES
            if each.verdict is Verdict.OUT and filters.get("early_exit"):
                ends = True
            is_open = is_open and not ends
        return explained

    def _explain_condition(
        self,
        flag: Flag,
        condition: CompiledCondition,
        filters: Mapping[str, Any],
        *,
        is_reached: bool,
    ) -> ConditionExplanation:
        group = filters["groups"][condition.index]
        index = condition.group_index
        rollout = self._explain_rollout(
            flag, index, condition.identify, rollout_percentage_of(group)
        )
        if not condition.needs_identifier:
            rollout = replace(rollout, is_in=True)
        explained = [self._explain_filter(each) for each in condition.filters]
        if index is not None and not self._context.groups.get(index):
            verdict = Verdict.NO_GROUP
        elif condition.is_by_device and self._context.device_identifier is None:
            verdict = Verdict.NO_DEVICE
        elif not all(each.holds for each in explained):
            verdict = Verdict.NO_MATCH
        else:
            verdict = Verdict.MATCHES if rollout.is_in else Verdict.OUT
        return ConditionExplanation(
            index=condition.index,
            group_type=None if index is None else self._type_name(index),
            filters=explained,
            rollout=rollout,
            variants=self._explain_variants(flag, condition, filters),
            verdict=verdict,
            is_reached=is_reached,
        )

    def _explain_variants(
        self, flag: Flag, condition: CompiledCondition, filters: Mapping[str, Any]
    ) -> VariantExplanation | None:
        shares = cumulative_variant_shares(filters)
        if not shares:
            return None
        starts = [0.0, *(end for _, end in shares)]
        identifier = condition.identify(self._context)
        at = None if identifier is None else bucket_position(_prefix(flag), identifier, VARIANT)
        return VariantExplanation(
            ranges=[
                VariantRange(key=key, start=start * 100, end=end * 100)
                for (key, end), start in zip(shares, starts, strict=False)
            ],
            place=None if at is None else at * 100,
            drawn=None if at is None else next((key for key, end in shares if at < end), None),
            forced=condition.on.variant,
        )

    def _explain_rollout(
        self,
        flag: Flag,
        group_index: int | None,
        identify: Identify,
        percentage: float,
        prefix: bytes | None = None,
    ) -> RolloutExplanation:
        identifier = identify(self._context)
        at = None
        if identifier is not None:
            at = bucket_position(_prefix(flag) if prefix is None else prefix, identifier)
        return RolloutExplanation(
            percentage=percentage,
            counted_by=self._counted_by(flag, group_index),
            identifier=None if identifier is None else identifier.decode("utf-8", "replace"),
            place=None if at is None else at * 100,
            is_in=at is not None and at <= percentage / 100,
        )

    def _counted_by(self, flag: Flag, group_index: int | None) -> str:
        if group_index is not None:
            return self._type_name(group_index)
        if flag.bucketing_identifier is Bucketing.DEVICE_ID:
            return "device id"
        if flag.ensure_experience_continuity and flag.key in self._stored.hash_keys:
            return "id from before the login"
        return "distinct id"

    def _explain_enrollment(
        self, flag: Flag, filters: Mapping[str, Any]
    ) -> OverrideExplanation | None:
        if filters.get("feature_enrollment") is not True:
            return None
        key = ENROLLMENT + flag.key
        found, source = self._find_person_property(key)
        explained = FilterExplanation(
            kind="person",
            about="person",
            key=key,
            operator="exact",
            wanted=True,
            found=found,
            source=source,
            holds=found is True or found == "true",
        )
        return OverrideExplanation(
            kind="enrolment", filters=[explained], rollout=None, decides=found is not MISSING
        )

    def _explain_super_condition(
        self, flag: Flag, filters: Mapping[str, Any]
    ) -> OverrideExplanation | None:
        if not filters.get("super_groups"):
            return None
        group = filters["super_groups"][0]
        properties = group.get("properties") or []
        person = self._context.person
        return OverrideExplanation(
            kind="super condition",
            filters=[self._explain_filter(each) for each in properties],
            rollout=self._explain_rollout(
                flag, None, lambda context: context.identifier, rollout_percentage_of(group)
            ),
            decides=not properties
            or any(person[str(each["key"])] is not MISSING for each in properties),
        )

    def _explain_holdout(
        self, flag: Flag, filters: Mapping[str, Any]
    ) -> OverrideExplanation | None:
        holdout = parse_holdout(filters)
        if holdout is None:
            return None
        index = filters.get("aggregation_group_type_index")
        percentage = min(max(holdout[0], 0.0), 100.0)
        rollout = self._explain_rollout(
            flag, index, select_identifier(flag, index), percentage, HOLDOUT
        )
        return OverrideExplanation(
            kind="holdout", filters=(), rollout=rollout, decides=rollout.is_in
        )

    def _explain_dependencies(self, flag: Flag) -> list[DependencyExplanation]:
        return [self._explain_dependency(id) for id in sorted(referenced_flag_ids(flag.filters))]

    def _explain_dependency(self, id: FlagId) -> DependencyExplanation:
        flag, result = self._flags.get(id), self._results.get(id)
        if flag is None:
            return DependencyExplanation(key=str(id), value=None, problem="does not exist")
        if not flag.active:
            return DependencyExplanation(key=flag.key, value=None, problem="is not active")
        if result is None or result.reason in (Reason.MISSING_DEPENDENCY, Reason.FAILED):
            return DependencyExplanation(key=flag.key, value=None, problem="cannot be evaluated")
        return DependencyExplanation(key=flag.key, value=result.value, problem="")

    def _explain_filter(self, filter: Mapping[str, Any]) -> FilterExplanation:
        kind, key = str(filter.get("type") or "person"), str(filter.get("key"))
        about = kind
        found, source = MISSING, Source.MISSING
        operator = str(filter.get("operator") or "exact")
        match kind:
            case "cohort" | "static-cohort":
                return self._explain_cohort(filter)
            case "behavioral":
                return self._explain_behavior(filter)
            case "flag":
                id = FlagId(int(key))
                needed, result = self._flags.get(id), self._results.get(id)
                key = needed.key if needed else key
                found, source = result.value if result else False, Source.EVALUATED
            case "group":
                found, source = self._find_group_property(filter.get("group_type_index"), key)
                about = self._type_name(filter.get("group_type_index"))
            case _:
                kind = about = "person"
                found, source = self._find_person_property(key)
        return FilterExplanation(
            kind=kind,
            about=about,
            key=key,
            operator=operator,
            wanted=filter.get("value"),
            found=found,
            source=source,
            holds=self._holds(filter),
        )

    def _explain_cohort(self, filter: Mapping[str, Any]) -> FilterExplanation:
        id = CohortId(parse_whole_number(str(filter.get("value"))) or 0)
        cohort, holds = self._cohorts.get(id), self._holds(filter)
        operator = "not_in" if filter.get("operator") == "not_in" else "in"
        is_told_before = id in self._explained_cohorts
        inside = None
        if cohort is not None and not cohort.is_static and not is_told_before:
            # Nested cohorts can refer to the same cohort many times.
            self._explained_cohorts.add(id)
            inside = self._explain_definition(cohort)
        return FilterExplanation(
            kind="cohort",
            about="cohort",
            key=cohort.name if cohort else "",
            operator=operator,
            wanted=int(id),
            found=holds is (operator == "in"),
            source=Source.EVALUATED,
            holds=holds,
            inside=inside,
            is_told_before=is_told_before,
        )

    def _explain_behavior(self, filter: Mapping[str, Any]) -> FilterExplanation:
        now, found = self._context.now, MISSING
        try:
            parsed = parse_behavioral_filter(filter)
            wanted: Any = describe_filter(parsed)
            id = self._snapshot.definitions.behaviors.get(parsed.event.reference)
            if id is not None and self._context.behaviors is not None:
                times = unpack_occurrences(self._context.behaviors.get(id, ()))
                found = describe_occurrences(parsed, times, now)
        except Invalid as error:
            wanted = error.detail
        return FilterExplanation(
            kind="behavioral",
            about="person",
            key=str(filter.get("key")),
            operator=str(filter.get("value")),
            wanted=wanted,
            found=found,
            source=Source.MISSING if found is MISSING else Source.STORED,
            holds=self._holds(filter),
        )

    def _explain_definition(self, cohort: Cohort) -> FilterGroupExplanation:
        part = self._explain_part(cohort.definition)
        if isinstance(part, FilterGroupExplanation):
            return part
        return FilterGroupExplanation(wants="all", parts=[part], holds=part.holds)

    def _explain_part(self, node: Mapping[str, Any]) -> FilterExplanation | FilterGroupExplanation:
        """Explain a group or a filter of a cohort's definition."""
        if isinstance(node.get("values"), list):
            is_any = str(node.get("type")).upper() == "OR"
            parts = [self._explain_part(each) for each in node["values"]]
            return FilterGroupExplanation(
                wants="any" if is_any else "all",
                parts=parts,
                holds=_combine([each.holds for each in parts], is_any=is_any),
            )
        if not node:
            return FilterGroupExplanation(wants="any", parts=(), holds=False)
        explained = self._explain_filter(
            {key: value for key, value in node.items() if key != "negation"}
        )
        if not node.get("negation"):
            return explained
        return replace(
            explained, negated=True, holds=None if explained.holds is None else not explained.holds
        )

    def _find_person_property(self, key: str) -> tuple[Any, Source]:
        request_properties = {**self._request.person_properties}
        if "distinct_id" not in self._stored.properties:
            request_properties["distinct_id"] = self._context.distinct_id
        return _find_property(self._context.person, key, request_properties)

    def _find_group_property(self, index: Any, key: str) -> tuple[Any, Source]:
        properties = self._context.group_properties.get(index)
        if properties is None:
            return MISSING, Source.MISSING
        request_properties = self._request.group_properties.get(self._type_name(index), {})
        return _find_property(properties, key, {**request_properties, "$group_key": ""})

    def _holds(self, filter: Mapping[str, Any]) -> bool | None:
        try:
            return self._snapshot.predicates.compile_one(filter)[1](self._context)
        except (
            NeedsStoredData,
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
            ArithmeticError,
            RecursionError,
        ):
            return None  # the outcome shows an error during evaluation

    def _type_name(self, index: Any) -> str:
        return self._type_names.get(index, f"group type {index}")


def _combine(answers: Sequence[bool | None], *, is_any: bool) -> bool | None:
    if None in answers:
        return None
    return not answers or (any(answers) if is_any else all(answers))


def _prefix(flag: Flag) -> bytes:
    return encode_identifier(f"{flag.key}.")


def _find_property(
    properties: Mapping[str, Any], key: str, request_properties: Mapping[str, Any]
) -> tuple[Any, Source]:
    value = properties[key]
    if value is MISSING:
        return MISSING, Source.MISSING
    names = [key]
    if key.startswith(INITIAL_PREFIX):
        rest = key.removeprefix(INITIAL_PREFIX)
        names += [f"${rest}", rest]  # used in place of an initial value that is not stored
    used = next((name for name in names if name in properties), key)
    return value, Source.GIVEN if used in request_properties else Source.STORED
