"""Factories for flags, cohorts and stored data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hedgerow.flags.evaluation.bucket import bucket_position
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions, FlagId, FlagOutcome, Runtime
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START

PROJECT = ProjectId(1)
MATCH_ALL: dict[str, Any] = {"groups": [{}]}
MATCH_NONE: dict[str, Any] = {"groups": [{"properties": [{"key": "absent", "value": "x"}]}]}

FLAG = Flag(
    id=FlagId(1),
    project_id=PROJECT,
    key="flag",
    name="",
    filters=MATCH_ALL,
    active=True,
    deleted=False,
    archived=False,
    version=1,
    ensure_experience_continuity=False,
    is_remote_configuration=False,
    has_encrypted_payloads=False,
    evaluation_runtime=Runtime.ALL,
    bucketing_identifier=Bucketing.DISTINCT_ID,
    evaluation_contexts=(),
    tags=(),
    created_by="",
    last_modified_by="",
    created_at=START,
    updated_at=START,
    last_called_at=None,
)
COHORT = Cohort(
    id=CohortId(1),
    project_id=PROJECT,
    name="",
    description="",
    is_static=False,
    definition={},
    deleted=False,
    created_by="",
    created_at=START,
    updated_at=START,
)


def make_flag(filters: Any = MATCH_ALL, id: int = 1, **fields: Any) -> Flag:
    return replace(FLAG, id=FlagId(id), filters=filters, **{"key": f"flag-{id}"} | fields)


def build_filters(*groups: Mapping[str, Any], **filters: Any) -> dict[str, Any]:
    return {"groups": list(groups)} | filters


def make_cohort(id: int, definition: Any = None, **fields: Any) -> Cohort:
    """Return a cohort; static without a definition."""
    return replace(
        COHORT,
        id=CohortId(id),
        definition={} if definition is None else definition,
        is_static=definition is None,
        **fields,
    )


def prop(key: str, value: Any = None, operator: str = "exact", **fields: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person"} | fields


def group_prop(index: int, key: str, value: Any, operator: str = "exact") -> dict[str, Any]:
    return prop(key, value, operator, type="group", group_type_index=index)


def in_cohort(id: Any, operator: str | None = "in") -> dict[str, Any]:
    return {"key": "id", "type": "cohort", "value": id, "operator": operator}


def depends_on(id: Any, value: Any = True, operator: str = "flag_evaluates_to") -> dict[str, Any]:
    return {"key": str(id), "type": "flag", "value": value, "operator": operator}


def variants(**percentages: float) -> dict[str, Any]:
    return {
        "variants": [
            {"key": key, "rollout_percentage": percentage}
            for key, percentage in percentages.items()
        ]
    }


def make_snapshot(
    *flags: Flag,
    cohorts: Sequence[Cohort] = (),
    timezone: str = "UTC",
    before: FlagSnapshot | None = None,
) -> FlagSnapshot:
    definitions = FlagDefinitions(
        generation=1, flags=flags, cohorts=cohorts, group_types={"company": 0}, timezone=timezone
    )
    return build_snapshot(definitions, before)


def request_context(
    properties: Mapping[str, Any] | None = None,
    *,
    id: str = "user",
    groups: Mapping[int, str] | None = None,
    group_properties: Mapping[int, Mapping[str, Any]] | None = None,
    **fields: Any,
) -> EvaluationContext:
    """Return a context without stored data."""
    return EvaluationContext(
        distinct_id=id,
        now=START,
        person_properties=properties or {},
        groups=groups or {},
        group_properties=group_properties or {},
        **fields,
    )


def loaded_context(
    properties: Mapping[str, Any] | None = None,
    *,
    stored: Mapping[str, Any] | None = None,
    stored_groups: Mapping[int, Mapping[str, Any]] | None = None,
    cohorts: Sequence[int] = (),
    hash_keys: Mapping[str, str] | None = None,
    **fields: Any,
) -> EvaluationContext:
    """Return a context with stored data."""
    context = request_context(properties, **fields)
    context.add_stored_data(
        stored or {},
        groups=stored_groups or {},
        cohorts=frozenset(cohorts),
        hash_keys=hash_keys or {},
    )
    return context


def evaluate_all(snapshot: FlagSnapshot, context: EvaluationContext) -> dict[int, FlagOutcome]:
    found = snapshot.evaluate(snapshot.all_flags, context)
    return {outcome.flag.id: outcome for outcome in found}


def evaluate_flag(
    filters: Any,
    context: EvaluationContext | None = None,
    *,
    cohorts: Sequence[Cohort] = (),
    **fields: Any,
) -> FlagOutcome:
    """Evaluate one flag, by default for a person without properties."""
    snapshot = make_snapshot(make_flag(filters, **fields), cohorts=cohorts)
    [outcome] = snapshot.evaluate(snapshot.all_flags, context or loaded_context())
    return outcome


def summarize(outcome: FlagOutcome) -> tuple[bool | str, str, int | None]:
    return outcome.value, outcome.reason.value, outcome.condition_index


def find_identifier(prefix: str, above: float, up_to: float, salt: str = "") -> str:
    """Return an identifier with a bucket position in the range."""
    return next(
        id
        for number in count()
        if above
        < bucket_position(prefix.encode(), (id := f"user-{number}").encode(), salt.encode())
        <= up_to
    )
