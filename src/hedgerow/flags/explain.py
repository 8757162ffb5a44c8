"""Why somebody gets what from a flag. Pure.

The outcome is the engine's own; what is told beside it asks the same compiled questions again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.filters.values import MISSING
from hedgerow.flags.bucket import HOLDOUT, VARIANT, identifier_bytes, place
from hedgerow.flags.compile import (
    ENROLLMENT,
    Compiled,
    Condition,
    Identify,
    holdout_of,
    identifier_of,
    percentage_of,
    variant_shares,
    with_groups,
)
from hedgerow.flags.decide import Asked, subject_of
from hedgerow.flags.model import Bucketing, Flag, FlagId, Outcome, Reason
from hedgerow.flags.rules import needed_ids
from hedgerow.flags.snapshot import Snapshot
from hedgerow.flags.store import StoredSubject
from hedgerow.flags.subject import INITIAL
from hedgerow.flags.told import (
    ConditionTold,
    DependencyTold,
    ExceptionTold,
    Explanation,
    FilterTold,
    PartsTold,
    RolloutTold,
    Source,
    VariantRange,
    VariantsTold,
    Verdict,
)
from hedgerow.lib.text import whole_number
from hedgerow.persons.model import Cohort, CohortId


def explained(
    snapshot: Snapshot, asked: Asked, stored: StoredSubject, now: datetime
) -> list[Explanation]:
    """One for each flag that was asked for, by key."""
    return _Explainer(snapshot, asked, stored, now).explanations()


class _Explainer:
    def __init__(
        self, snapshot: Snapshot, asked: Asked, stored: StoredSubject, now: datetime
    ) -> None:
        self._snapshot = snapshot
        self._asked = asked
        self._stored = stored
        definitions = snapshot.definitions
        self._type_names = {index: name for name, index in definitions.group_types.items()}
        self._cohorts = {cohort.id: cohort for cohort in definitions.cohorts if not cohort.deleted}
        self._told_cohorts: set[CohortId] = set()
        self._flags = {flag.id: flag for flag in definitions.flags}
        self._subject = subject_of(snapshot, asked, now)
        self._subject.complete(
            stored.properties,
            groups=stored.groups,
            cohorts=stored.cohorts,
            hash_keys=stored.hash_keys,
        )
        keys = asked.flag_keys
        flags = snapshot.everything if keys is None else snapshot.chosen(keys)
        outcomes = snapshot.evaluate(flags, self._subject)
        self._results = {outcome.flag.id: outcome for outcome in outcomes}

    def explanations(self) -> list[Explanation]:
        keys = self._asked.flag_keys
        wanted = [
            outcome
            for outcome in self._results.values()
            if keys is None or outcome.flag.key in keys
        ]
        return [self._explanation(each) for each in sorted(wanted, key=lambda each: each.flag.key)]

    def _explanation(self, outcome: Outcome) -> Explanation:
        self._told_cohorts.clear()
        compiled = self._snapshot.of(outcome.flag.key)
        if outcome.reason is Reason.MISSING_DEPENDENCY:
            return Explanation(outcome=outcome, dependencies=self._dependencies(outcome.flag))
        if compiled is None or not compiled.conditions:
            return Explanation(outcome=outcome)
        filters = with_groups(outcome.flag.filters)
        exceptions = [
            told
            for tell in (self._enrolment, self._super_condition, self._holdout)
            if (told := tell(outcome.flag, filters)) is not None
        ]
        return Explanation(
            outcome=outcome,
            exceptions=exceptions,
            conditions=self._conditions(
                compiled, filters, is_open=not any(each.decides for each in exceptions)
            ),
            dependencies=self._dependencies(outcome.flag),
        )

    def _conditions(
        self, compiled: Compiled, filters: Mapping[str, Any], *, is_open: bool
    ) -> list[ConditionTold]:
        told = []
        for condition in compiled.conditions:
            each = self._condition(compiled.flag, condition, filters, is_reached=is_open)
            told.append(each)
            ends = each.verdict is Verdict.MATCHES
            if each.verdict is Verdict.OUT and filters.get("early_exit"):
                ends = True
            is_open = is_open and not ends
        return told

    def _condition(
        self, flag: Flag, condition: Condition, filters: Mapping[str, Any], *, is_reached: bool
    ) -> ConditionTold:
        group = filters["groups"][condition.index]
        index = condition.group_index
        rollout = self._rollout(flag, index, condition.identify, percentage_of(group))
        if not condition.needs_identifier:
            rollout = replace(rollout, is_in=True)
        told = [self._filter(each) for each in condition.filters]
        if index is not None and not self._subject.groups.get(index):
            verdict = Verdict.NO_GROUP
        elif condition.by_device and self._subject.device is None:
            verdict = Verdict.NO_DEVICE
        elif not all(each.holds for each in told):
            verdict = Verdict.NO_MATCH
        else:
            verdict = Verdict.MATCHES if rollout.is_in else Verdict.OUT
        return ConditionTold(
            index=condition.index,
            group_type=None if index is None else self._type_name(index),
            filters=told,
            rollout=rollout,
            variants=self._variants(flag, condition, filters),
            verdict=verdict,
            is_reached=is_reached,
        )

    def _variants(
        self, flag: Flag, condition: Condition, filters: Mapping[str, Any]
    ) -> VariantsTold | None:
        shares = variant_shares(filters)
        if not shares:
            return None
        starts = [0.0, *(end for _, end in shares)]
        identifier = condition.identify(self._subject)
        at = None if identifier is None else place(_prefix(flag), identifier, VARIANT)
        return VariantsTold(
            ranges=[
                VariantRange(key=key, start=start * 100, end=end * 100)
                for (key, end), start in zip(shares, starts, strict=False)
            ],
            place=None if at is None else at * 100,
            drawn=None if at is None else next((key for key, end in shares if at < end), None),
            forced=condition.on.variant,
        )

    def _rollout(
        self,
        flag: Flag,
        group_index: int | None,
        identify: Identify,
        percentage: float,
        prefix: bytes | None = None,
    ) -> RolloutTold:
        identifier = identify(self._subject)
        at = None
        if identifier is not None:
            at = place(_prefix(flag) if prefix is None else prefix, identifier)
        return RolloutTold(
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

    def _enrolment(self, flag: Flag, filters: Mapping[str, Any]) -> ExceptionTold | None:
        if filters.get("feature_enrollment") is not True:
            return None
        key = ENROLLMENT + flag.key
        found, source = self._of_person(key)
        told = FilterTold(
            kind="person",
            about="person",
            key=key,
            operator="exact",
            wanted=True,
            found=found,
            source=source,
            holds=found is True or found == "true",
        )
        return ExceptionTold(
            kind="enrolment", filters=[told], rollout=None, decides=found is not MISSING
        )

    def _super_condition(self, flag: Flag, filters: Mapping[str, Any]) -> ExceptionTold | None:
        if not filters.get("super_groups"):
            return None
        group = filters["super_groups"][0]
        properties = group.get("properties") or []
        person = self._subject.person
        return ExceptionTold(
            kind="super condition",
            filters=[self._filter(each) for each in properties],
            rollout=self._rollout(flag, None, lambda subject: subject.id, percentage_of(group)),
            decides=not properties
            or any(person[str(each["key"])] is not MISSING for each in properties),
        )

    def _holdout(self, flag: Flag, filters: Mapping[str, Any]) -> ExceptionTold | None:
        holdout = holdout_of(filters)
        if holdout is None:
            return None
        index = filters.get("aggregation_group_type_index")
        percentage = min(max(holdout[0], 0.0), 100.0)
        rollout = self._rollout(flag, index, identifier_of(flag, index), percentage, HOLDOUT)
        return ExceptionTold(kind="holdout", filters=(), rollout=rollout, decides=rollout.is_in)

    def _dependencies(self, flag: Flag) -> list[DependencyTold]:
        return [self._dependency(id) for id in sorted(needed_ids(flag.filters))]

    def _dependency(self, id: FlagId) -> DependencyTold:
        flag, result = self._flags.get(id), self._results.get(id)
        if flag is None:
            return DependencyTold(key=str(id), value=None, problem="does not exist")
        if not flag.active:
            return DependencyTold(key=flag.key, value=None, problem="is not active")
        if result is None or result.reason in (Reason.MISSING_DEPENDENCY, Reason.FAILED):
            return DependencyTold(key=flag.key, value=None, problem="cannot be evaluated")
        return DependencyTold(key=flag.key, value=result.value, problem="")

    def _filter(self, filter: Mapping[str, Any]) -> FilterTold:
        kind, key = str(filter.get("type") or "person"), str(filter.get("key"))
        about = kind
        found, source = MISSING, Source.MISSING
        operator = str(filter.get("operator") or "exact")
        match kind:
            case "cohort" | "static-cohort":
                return self._cohort(filter)
            case "flag":
                id = FlagId(int(key))
                needed, result = self._flags.get(id), self._results.get(id)
                key = needed.key if needed else key
                found, source = result.value if result else False, Source.EVALUATED
            case "group":
                found, source = self._of_group(filter.get("group_type_index"), key)
                about = self._type_name(filter.get("group_type_index"))
            case _:
                kind = about = "person"
                found, source = self._of_person(key)
        return FilterTold(
            kind=kind,
            about=about,
            key=key,
            operator=operator,
            wanted=filter.get("value"),
            found=found,
            source=source,
            holds=self._holds(filter),
        )

    def _cohort(self, filter: Mapping[str, Any]) -> FilterTold:
        id = CohortId(whole_number(str(filter.get("value"))) or 0)
        cohort, holds = self._cohorts.get(id), self._holds(filter)
        operator = "not_in" if filter.get("operator") == "not_in" else "in"
        is_told_before = id in self._told_cohorts
        inside = None
        if cohort is not None and not cohort.is_static and not is_told_before:
            # Cohorts of cohorts can ask for the same one without end.
            self._told_cohorts.add(id)
            inside = self._inside(cohort)
        return FilterTold(
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

    def _inside(self, cohort: Cohort) -> PartsTold:
        part = self._part(cohort.definition)
        if isinstance(part, PartsTold):
            return part
        return PartsTold(wants="all", parts=[part], holds=part.holds)

    def _part(self, node: Mapping[str, Any]) -> FilterTold | PartsTold:
        """A group or a filter of a cohort's definition."""
        if isinstance(node.get("values"), list):
            is_any = str(node.get("type")).upper() == "OR"
            parts = [self._part(each) for each in node["values"]]
            return PartsTold(
                wants="any" if is_any else "all",
                parts=parts,
                holds=_joint([each.holds for each in parts], is_any=is_any),
            )
        if not node:
            return PartsTold(wants="any", parts=(), holds=False)
        told = self._filter({key: value for key, value in node.items() if key != "negation"})
        if not node.get("negation"):
            return told
        return replace(told, negated=True, holds=None if told.holds is None else not told.holds)

    def _of_person(self, key: str) -> tuple[Any, Source]:
        given = {**self._asked.person_properties}
        if "distinct_id" not in self._stored.properties:
            given["distinct_id"] = self._subject.distinct_id
        return _found(self._subject.person, key, given)

    def _of_group(self, index: Any, key: str) -> tuple[Any, Source]:
        properties = self._subject.group_properties.get(index)
        if properties is None:
            return MISSING, Source.MISSING
        given = self._asked.group_properties.get(self._type_name(index), {})
        return _found(properties, key, {**given, "$group_key": ""})

    def _holds(self, filter: Mapping[str, Any]) -> bool | None:
        try:
            return self._snapshot.questions.one(filter)[1](self._subject)
        except (
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
            ArithmeticError,
            RecursionError,
        ):
            return None  # what breaks while it is evaluated is told as a failed flag

    def _type_name(self, index: Any) -> str:
        return self._type_names.get(index, f"group type {index}")


def _joint(answers: Sequence[bool | None], *, is_any: bool) -> bool | None:
    if None in answers:
        return None
    return not answers or (any(answers) if is_any else all(answers))


def _prefix(flag: Flag) -> bytes:
    return identifier_bytes(f"{flag.key}.")


def _found(properties: Mapping[str, Any], key: str, given: Mapping[str, Any]) -> tuple[Any, Source]:
    value = properties[key]
    if value is MISSING:
        return MISSING, Source.MISSING
    names = [key]
    if key.startswith(INITIAL):
        rest = key.removeprefix(INITIAL)
        names += [f"${rest}", rest]  # what stands in for a first value that was not kept
    used = next((name for name in names if name in properties), key)
    return value, Source.GIVEN if used in given else Source.STORED
