"""Runs the tests of a flag document with the engine that evaluates flags. Needs no database.

Cohorts and group types of the document exist for the tests: a subject is in the cohorts that the
test names, whatever defines them in a project.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.document import FlagSpec, parse_document
from hedgerow.flags.as_code.expectations import ExpectationSubject, FlagExpectation
from hedgerow.flags.as_code.overrides import ENVIRONMENTS, EnvironmentChoice
from hedgerow.flags.as_code.plan import FlagPlanner
from hedgerow.flags.as_code.references import COHORT, FLAG, GROUP_TYPE, rewrite_references
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.flags import new_flag
from hedgerow.flags.model import FlagDefinitions, FlagOutcome
from hedgerow.flags.store import StoredData
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import Project, ProjectId

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
# The project of the tests: it has the flags of the document and nothing else.
PROJECT = Project(
    id=ProjectId(0),
    uuid="",
    organization_id="",
    name="",
    timezone="UTC",
    api_token="",
    created_at=EPOCH,
    updated_at=EPOCH,
)
FIRST_COHORT_ID = 10**15
ABSENT = "The flag is absent in this environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTestResult:
    """`payload` is what the subject gets. `reason` says why it gets the value."""

    key: str
    test: FlagExpectation
    value: bool | str
    payload: Any
    reason: str

    @property
    def has_passed(self) -> bool:
        return not self.has_other_value and not self.has_other_payload

    @property
    def has_other_value(self) -> bool:
        return self.value is not self.test.expected and self.value != self.test.expected

    @property
    def has_other_payload(self) -> bool:
        expected = self.test.payload
        return expected is not MISSING and not jsonio.is_equal(expected, self.payload)


def run_tests(document: Any, now: datetime) -> list[FlagTestResult]:
    """Run all tests of a document, in its order. Invalid names the path of an error."""
    known = _list_environments(document)
    worlds = {name: _TestWorld(document, name, known, now) for name in ("", *known)}
    return list(_run_all(worlds, now))


def _list_environments(document: Any) -> list[str]:
    """Return the names of the environments that a document mentions."""
    flags = document.get("flags") if isinstance(document, dict) else None
    overrides = [
        flag.get(ENVIRONMENTS)
        for flag in (flags if isinstance(flags, list) else ())
        if isinstance(flag, dict)
    ]
    names = dict.fromkeys(name for each in overrides if isinstance(each, dict) for name in each)
    return [name for name in names if isinstance(name, str)]


class _TestWorld:
    """The flags of a document in one environment, compiled."""

    def __init__(
        self, document: Any, environment: str, known: Sequence[str], now: datetime
    ) -> None:
        self.specs = parse_document(document, EnvironmentChoice(name=environment, known=known))
        names = _collect_names(self.specs)
        self.group_types = _number_group_types(names[GROUP_TYPE])
        self.cohorts = _number_cohorts(names[COHORT])
        base = FlagDefinitions(
            generation=0,
            flags=(),
            cohorts=[_build_cohort(name, id) for name, id in self.cohorts.items()],
            group_types=self.group_types,
            timezone=PROJECT.timezone,
        )
        blank = new_flag(PROJECT, COMMAND_LINE, now)
        planner = FlagPlanner(base, self.specs, blank, prune=False, deletion_blockers={})
        flags = [change.after for change in planner.plan().created]
        self.keys = {flag.key for flag in flags}
        self.snapshot: FlagSnapshot = build_snapshot(
            FlagDefinitions(
                generation=0,
                flags=flags,
                cohorts=base.cohorts,
                group_types=base.group_types,
                timezone=base.timezone,
            )
        )

    def evaluate(self, key: str, test: FlagExpectation, now: datetime) -> FlagOutcome:
        subject = test.subject
        self._check_subject(subject, test.place)
        request = EvaluationRequest(
            distinct_id=subject.distinct_id,
            person_properties=subject.person_properties,
            groups=subject.groups,
            group_properties=subject.group_properties,
            device_id=subject.device_id,
            flag_keys=frozenset((key,)),
        )
        stored = StoredData(
            person_id=None,
            properties={},
            cohorts=frozenset(self.cohorts[str(name)] for name in subject.cohorts),
            hash_keys={},
            groups={},
        )
        [explained] = explain_flags(self.snapshot, request, stored, test.at or now)
        return explained.outcome

    def _check_subject(self, subject: ExpectationSubject, place: str) -> None:
        """Raise Invalid for a cohort or a group type that no flag uses: probably a wrong name."""
        for kind, given, known in (
            ("cohort", map(str, subject.cohorts), self.cohorts),
            ("group type", subject.groups, self.group_types),
        ):
            for name in given:
                if name not in known:
                    listed = ", ".join(known) or "none"
                    raise Invalid(
                        f'No flag of the file uses the {kind} "{truncate(name)}". They use: '
                        f"{listed}.",
                        attr=f"{place}: subject",
                    )


def _collect_names(specs: Sequence[FlagSpec]) -> Mapping[str, list[str | int]]:
    """Return the names and ids of cohorts and group types that filters refer to."""
    found: dict[str, dict[str | int, None]] = {COHORT: {}, GROUP_TYPE: {}, FLAG: {}}

    def collect(kind: str, value: Any, place: str) -> Any:
        if isinstance(value, str | int) and not isinstance(value, bool):
            found[kind][value] = None
        return value

    for spec in specs:
        rewrite_references(spec.filters, collect)
    return {kind: list(names) for kind, names in found.items()}


def _number_group_types(names: Sequence[str | int]) -> dict[str, int]:
    """Return the index of each group type. One that a filter gives by its index is its name."""
    numbers = {name for name in names if isinstance(name, int)}
    result = {str(number): number for number in sorted(numbers)}
    free = (index for index in range(len(names) + 1) if index not in numbers)
    return result | {name: next(free) for name in names if isinstance(name, str)}


def _number_cohorts(names: Sequence[str | int]) -> dict[str, CohortId]:
    return {
        str(name): CohortId(name if isinstance(name, int) else FIRST_COHORT_ID + number)
        for number, name in enumerate(names)
    }


def _build_cohort(name: str, id: CohortId) -> Cohort:
    return Cohort(
        id=id,
        project_id=PROJECT.id,
        name=name,
        description="",
        is_static=True,
        definition={},
        deleted=False,
        created_by="",
        created_at=EPOCH,
        updated_at=EPOCH,
    )


def _run_all(worlds: Mapping[str, _TestWorld], now: datetime) -> Iterator[FlagTestResult]:
    for key, test in _list_tests(worlds):
        world = worlds.get(test.environment)
        if world is None:
            known = ", ".join(filter(None, worlds)) or "none"
            raise Invalid(
                f'The file does not mention the environment "{truncate(test.environment)}". It '
                f"mentions: {known}.",
                attr=f"{test.place}: environment",
            )
        if key not in world.keys:
            yield FlagTestResult(key=key, test=test, value=False, payload=None, reason=ABSENT)
            continue
        outcome = world.evaluate(key, test, now)
        yield FlagTestResult(
            key=key,
            test=test,
            value=outcome.value,
            payload=_decode_payload(outcome.payload),
            reason=outcome.error or outcome.reason.description(outcome.condition_index),
        )


def _list_tests(worlds: Mapping[str, _TestWorld]) -> list[tuple[str, FlagExpectation]]:
    """Return the tests of all flags. The values that environments share include every flag."""
    return [(spec.key, test) for spec in worlds[""].specs for test in spec.tests]


def _decode_payload(payload: Any) -> Any:
    """Return a payload as SDKs return it: stored payloads are JSON text."""
    if not isinstance(payload, str):
        return payload
    try:
        return jsonio.parse(payload.encode())
    except jsonio.JsonError:
        return payload
