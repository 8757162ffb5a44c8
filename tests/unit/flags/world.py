"""Flags, cohorts and subjects made from as little as a test has to say about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hedgerow.flags.bucket import place
from hedgerow.flags.model import Bucketing, Definitions, Flag, FlagId, Outcome, Runtime
from hedgerow.flags.snapshot import Snapshot, snapshot_of
from hedgerow.flags.subject import Subject
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START

PROJECT = ProjectId(1)
EVERYBODY: dict[str, Any] = {"groups": [{}]}
NOBODY: dict[str, Any] = {"groups": [{"properties": [{"key": "nobody", "value": "has this"}]}]}

FLAG = Flag(
    id=FlagId(1),
    project_id=PROJECT,
    key="flag",
    name="",
    filters=EVERYBODY,
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


def a_flag(filters: Any = EVERYBODY, id: int = 1, **fields: Any) -> Flag:
    return replace(FLAG, id=FlagId(id), filters=filters, **{"key": f"flag-{id}"} | fields)


def of_groups(*groups: Mapping[str, Any], **filters: Any) -> dict[str, Any]:
    return {"groups": list(groups)} | filters


def a_cohort(id: int, definition: Any = None, **fields: Any) -> Cohort:
    """Without a definition, a static one."""
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


def a_snapshot(
    *flags: Flag,
    cohorts: Sequence[Cohort] = (),
    timezone: str = "UTC",
    before: Snapshot | None = None,
) -> Snapshot:
    definitions = Definitions(
        generation=1, flags=flags, cohorts=cohorts, group_types={"company": 0}, timezone=timezone
    )
    return snapshot_of(definitions, before)


def asking(
    properties: Mapping[str, Any] | None = None,
    *,
    id: str = "somebody",
    groups: Mapping[int, str] | None = None,
    group_properties: Mapping[int, Mapping[str, Any]] | None = None,
    **fields: Any,
) -> Subject:
    """A subject of which only the request is known."""
    return Subject(
        distinct_id=id,
        now=START,
        person_properties=properties or {},
        groups=groups or {},
        group_properties=group_properties or {},
        **fields,
    )


def known(
    properties: Mapping[str, Any] | None = None,
    *,
    stored: Mapping[str, Any] | None = None,
    stored_groups: Mapping[int, Mapping[str, Any]] | None = None,
    cohorts: Sequence[int] = (),
    hash_keys: Mapping[str, str] | None = None,
    **fields: Any,
) -> Subject:
    """A subject of which everything is known."""
    subject = asking(properties, **fields)
    subject.complete(
        stored or {},
        groups=stored_groups or {},
        cohorts=frozenset(cohorts),
        hash_keys=hash_keys or {},
    )
    return subject


def outcomes(snapshot: Snapshot, subject: Subject) -> dict[int, Outcome]:
    found = snapshot.evaluate(snapshot.everything, subject)
    return {outcome.flag.id: outcome for outcome in found}


def outcome_of(
    filters: Any,
    subject: Subject | None = None,
    *,
    cohorts: Sequence[Cohort] = (),
    **fields: Any,
) -> Outcome:
    """What one flag alone gives to somebody known."""
    snapshot = a_snapshot(a_flag(filters, **fields), cohorts=cohorts)
    [outcome] = snapshot.evaluate(snapshot.everything, subject or known())
    return outcome


def told(outcome: Outcome) -> tuple[bool | str, str, int | None]:
    return outcome.value, outcome.reason.value, outcome.condition_index


def someone(prefix: str, above: float, up_to: float, salt: str = "") -> str:
    """An identifier whose place lies there."""
    return next(
        id
        for number in count()
        if above < place(prefix.encode(), (id := f"user-{number}").encode(), salt.encode()) <= up_to
    )
