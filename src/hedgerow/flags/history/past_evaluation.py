"""Evaluate a flag as it was at an earlier time, for a person as it was known then."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.explanation import Explanation
from hedgerow.flags.evaluation.snapshot import build_snapshot
from hedgerow.flags.flags import SCOPE as FLAG_SCOPE
from hedgerow.flags.history.person_history import PersonAtTime, PersonHistory
from hedgerow.flags.history.rewind import PastDefinitions
from hedgerow.flags.history.store import FlagHistoryStore
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import EvaluationDataStore, StoredData
from hedgerow.flags.validate import referenced_cohort_ids, referenced_flag_ids
from hedgerow.lib.clock import format_iso
from hedgerow.lib.text import parse_whole_number, truncate
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.behaviors.filters import iterate_behavioral_filters
from hedgerow.persons.cohorts import SCOPE as COHORT_SCOPE
from hedgerow.persons.cohorts import referenced_cohorts
from hedgerow.persons.model import CohortId, Person
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.model import Project

TIMESTAMP = "timestamp"
# The distinct ids of a person whose events are read.
MAX_DISTINCT_IDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastEvaluation:
    """`changes` counts the later changes of the flag. `notes` say what cannot be known, and what
    was used instead."""

    explanation: Explanation
    at: datetime
    distinct_id: str
    changes: int
    notes: Sequence[str]


class PastEvaluations:
    def __init__(
        self,
        history: FlagHistoryStore,
        events: PersonHistory,
        data: EvaluationDataStore,
        persons: PersonStore,
    ) -> None:
        self._history = history
        self._events = events
        self._data = data
        self._persons = persons

    async def choose_distinct_id(self, project: Project, person_uuid: str) -> str:
        """Return the first distinct id of a person."""
        person = await self._persons.person(project.id, person_uuid)
        if person is None or not person.distinct_ids:
            raise NotFound
        return person.distinct_ids[0]

    async def evaluate(
        self,
        project: Project,
        id_or_key: str,
        request: EvaluationRequest,
        at: datetime,
        now: datetime,
    ) -> PastEvaluation:
        """Evaluate a flag. Raises NotFound for an unknown flag, and Invalid if it did not exist."""
        if at > now:
            raise Invalid("This time is in the future.", attr=TIMESTAMP)
        await self._events.wait_until_readable(project.id)
        past = await self._history.rewind(project.id, at)
        flag = _find_flag(past, id_or_key, at)
        definitions = _select_definitions(past, flag, await self._group_types(project), project)
        groups = _check_groups(definitions, request)
        notes = list(_note_definitions(past, definitions, flag))
        person = await self._load_person(project, request.distinct_id, at, notes)
        stored = await self._data.load(project.id, request.distinct_id, groups)
        then = StoredData(
            person_id=stored.person_id,
            properties=person,
            cohorts=stored.cohorts,
            hash_keys=stored.hash_keys,
            groups=await self._load_groups(project, definitions, request, at, notes),
            behaviors=stored.behaviors,
        )
        [explanation] = await run_in_thread(
            lambda: explain_flags(build_snapshot(definitions), _narrow(request, flag), then, at)
        )
        return PastEvaluation(
            explanation=explanation,
            at=at,
            distinct_id=request.distinct_id,
            changes=past.changes.get(flag.id, 0),
            notes=notes,
        )

    async def _group_types(self, project: Project) -> Mapping[str, int]:
        return await self._persons.group_types(project.id)

    async def _load_person(
        self, project: Project, distinct_id: str, at: datetime, notes: list[str]
    ) -> Mapping[str, Any]:
        query = PersonQuery(project_id=project.id, distinct_id=distinct_id, limit=1, count=0)
        found, _ = await self._persons.persons(query)
        present = found[0] if found else None
        ids = list(present.distinct_ids[:MAX_DISTINCT_IDS]) if present else []
        merged = await self._events.find_merged_ids(project, distinct_id, ids, at)
        if present and present.updated_at <= at and merged.issuperset(ids):
            return present.properties  # unchanged since then
        then = await self._events.find_person(project, merged, at)
        notes += [each async for each in self._note_person(project, present, then, at)]
        return then.properties if then else {}

    async def _note_person(
        self, project: Project, present: Person | None, then: PersonAtTime | None, at: datetime
    ) -> AsyncIterator[str]:
        deletions = await self._history.count_deletions(project.id, at)
        lost = (
            f" Persons or events were deleted since then ({deletions} time(s)), and what they held "
            "is gone."
            if deletions
            else ""
        )
        if then is None:
            known = (
                f"The person exists since {format_iso(present.created_at)}, but no"
                if present and present.created_at <= at
                else "No"
            )
            yield (
                f"{known} event of this distinct id that was accepted until then is stored. The "
                f"flag was evaluated without person properties.{lost}"
            )
            return
        if lost:
            yield lost.strip()
        if then.is_ambiguous:
            yield (
                "Several events of the person were accepted at the same moment with the same "
                "timestamp and other properties. One of them was used."
            )
        uuids = {then.uuid, present.uuid if present else then.uuid}
        for change in await self._history.person_changes(project.id, sorted(uuids)):
            if then.as_of < change.created_at <= at:
                names = ", ".join(map(str, change.entry.detail.get("properties") or ()))
                yield (
                    f"The person was changed over the API at {format_iso(change.created_at)}"
                    f"{f' ({truncate(names)})' if names else ''}, after its latest event. The "
                    "activity log has no values of persons, so those of the event were used."
                )

    async def _load_groups(
        self,
        project: Project,
        definitions: FlagDefinitions,
        request: EvaluationRequest,
        at: datetime,
        notes: list[str],
    ) -> Mapping[int, Mapping[str, Any]]:
        loaded = {}
        for name, key in request.groups.items():
            index = definitions.group_types[name]
            present = await self._history.group(project.id, index, key)
            if present and present.updated_at <= at:
                loaded[index] = present.properties
                continue
            then = await self._events.find_group(project, name, key, at)
            label = f'the group "{truncate(key)}" of type {name}'
            if then is None:
                notes.append(
                    f"No event that was accepted until then sets properties of {label}. Changes of "
                    "groups over the API are not recorded."
                )
                continue
            loaded[index] = then.properties
            if not then.is_complete:
                notes.append(f"Only the latest changes of {label} were read.")
        return loaded


def _narrow(request: EvaluationRequest, flag: Flag) -> EvaluationRequest:
    return EvaluationRequest(
        distinct_id=request.distinct_id,
        person_properties=request.person_properties,
        groups=request.groups,
        group_properties=request.group_properties,
        device_id=request.device_id,
        flag_keys=frozenset((flag.key,)),
    )


def _find_flag(past: PastDefinitions, id_or_key: str, at: datetime) -> Flag:
    """Find a flag by its id, or by the key that it had then."""
    id = parse_whole_number(id_or_key)
    matching = sorted(
        (each for each in past.flags.values() if id == each.id or each.key == id_or_key),
        key=lambda each: (each.deleted, each.id != id),
    )
    moment = format_iso(at)
    if matching and not matching[0].deleted:
        return matching[0]
    if matching:
        raise Invalid(f'The flag "{matching[0].key}" was deleted at {moment}.', attr=TIMESTAMP)
    for each in past.created_later.values():
        if id == each.id or each.key == id_or_key:
            detail = (
                f'The flag "{each.key}" did not exist at {moment}. It was created at '
                f"{format_iso(each.created_at)}."
            )
            raise Invalid(detail, attr=TIMESTAMP)
    raise NotFound


def _select_definitions(
    past: PastDefinitions, flag: Flag, group_types: Mapping[str, int], project: Project
) -> FlagDefinitions:
    """Return the flag with those that it depends on, and all cohorts."""
    selected: dict[FlagId, Flag] = {}
    waiting = [flag]
    while waiting:
        each = waiting.pop()
        selected[each.id] = each
        waiting += [
            past.flags[id]
            for id in referenced_flag_ids(each.filters)
            if id in past.flags and id not in selected and not past.flags[id].deleted
        ]
    return FlagDefinitions(
        generation=0,
        flags=list(selected.values()),
        cohorts=[each for each in past.cohorts.values() if not each.deleted],
        group_types=group_types,
        timezone=project.timezone,
        behaviors=past.behaviors,
    )


def _check_groups(definitions: FlagDefinitions, request: EvaluationRequest) -> dict[int, str]:
    for name in (*request.groups, *request.group_properties):
        if name not in definitions.group_types:
            known = ", ".join(definitions.group_types) or "none"
            detail = f'There is no group type "{truncate(name)}". Expected one of: {known}.'
            raise Invalid(detail, attr="groups")
    return {definitions.group_types[name]: key for name, key in request.groups.items()}


def _note_definitions(
    past: PastDefinitions, definitions: FlagDefinitions, flag: Flag
) -> Iterator[str]:
    cohorts = _list_cohorts(definitions)
    for each in definitions.flags:
        if name := past.gaps.get((FLAG_SCOPE, each.id)):
            yield (
                f"The field `{name}` of the flag {each.key} changed without an entry in the "
                "activity log, so the flag may have been another one."
            )
    for cohort in definitions.cohorts:
        if cohort.id in cohorts and (name := past.gaps.get((COHORT_SCOPE, cohort.id))):
            yield (
                f'The field `{name}` of the cohort "{cohort.name}" changed without an entry in the '
                "activity log."
            )
        if cohort.id in cohorts and any(iterate_behavioral_filters(cohort.definition)):
            yield (
                f'What the person did for the cohort "{cohort.name}" is counted from the latest '
                "occurrences that are kept now. Later ones can have replaced those of that time."
            )
        if cohort.id in cohorts and cohort.is_static:
            yield (
                f'The members of the static cohort "{cohort.name}" are those of today: their '
                "history is not recorded."
            )
    if flag.ensure_experience_continuity:
        yield (
            "The flag keeps its value over a login. The identifier that is kept for this person is "
            "that of today: its history is not recorded."
        )


def _list_cohorts(definitions: FlagDefinitions) -> set[CohortId]:
    """Return the cohorts that the flags refer to, also through other cohorts."""
    by_id = {each.id: each for each in definitions.cohorts}
    waiting = [id for flag in definitions.flags for id in referenced_cohort_ids(flag.filters)]
    found: set[CohortId] = set()
    while waiting:
        id = waiting.pop()
        if id in found or id not in by_id:
            continue
        found.add(id)
        waiting += referenced_cohorts(by_id[id].definition)
    return found
