"""Operations on cohorts: create, change, delete, and add persons to a static one."""

import csv
import io
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.filters.validate import (
    check_pattern_count,
    check_property_filter,
    collect_patterns,
    raise_invalid,
)
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.persons.behaviors.filters import BEHAVIORAL, parse_behavioral_filter
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions, outline_definition
from hedgerow.persons.known_fields import COHORT_FILTER, COHORT_NODE
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.store import CohortStore, FlagsUsingCohort
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import ProjectId
from hedgerow.projects.validation import check_known_fields, check_storable, validate_text

SCOPE = "Cohort"
NAME_MAX = 400
# A longer value is the rest of a file after an unclosed quote.
MAX_CSV_VALUE_CHARS = 100_000
DESCRIPTION_MAX = 1000
MAX_DEPTH = 30
MAX_FILTERS = 1000
# Every process that evaluates flags holds all cohorts of a project in memory.
MAX_PROJECT_COHORTS = 5000
MAX_PROJECT_BYTES = 16 << 20
NEW = CohortId(0)
DEFINITION_PATH = "filters.properties"
MAX_LISTED_USERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortFields:
    """The writable fields. None leaves a field unchanged, or at its default for a new cohort."""

    name: str | None = None
    description: str | None = None
    is_static: bool | None = None
    definition: Any = None
    deleted: bool | None = None


class Cohorts:
    def __init__(self, store: CohortStore) -> None:
        self._store = store

    async def list_cohorts(
        self, project_id: ProjectId, *, limit: int, offset: int, search: str = ""
    ) -> tuple[list[Cohort], int]:
        return await self._store.cohorts(project_id, limit=limit, offset=offset, search=search)

    async def find(self, project_id: ProjectId, id: CohortId) -> Cohort:
        cohort = await self._store.cohort(project_id, id)
        if cohort is None or cohort.deleted:
            raise NotFound
        return cohort

    async def create(
        self, project_id: ProjectId, fields: CohortFields, actor: Actor, now: datetime
    ) -> Cohort:
        def decide(others: Mapping[CohortId, Cohort], _: FlagsUsingCohort) -> Cohort:
            return build_new_cohort(project_id, fields, others, actor, now)

        return await self._store.write_cohort(project_id, decide, create_entry_builder(actor), now)

    async def change(
        self,
        project_id: ProjectId,
        id: CohortId,
        fields: CohortFields,
        actor: Actor,
        now: datetime,
    ) -> Cohort:
        def decide(others: Mapping[CohortId, Cohort], flags_using: FlagsUsingCohort) -> Cohort:
            before = others.get(id)
            if before is None:
                raise NotFound
            if fields.deleted:
                _check_unused(id, others, flags_using)
            return change_cohort(before, fields, others, now)

        return await self._store.write_cohort(project_id, decide, create_entry_builder(actor), now)

    async def add_members(self, cohort: Cohort, distinct_ids: Sequence[str]) -> int:
        """Add persons to a static cohort. Unknown distinct ids are ignored."""
        return await self._store.add_members(cohort.project_id, cohort.id, distinct_ids)

    async def count_members(self, cohorts: Sequence[Cohort]) -> Mapping[CohortId, int]:
        """Return the sizes of the static cohorts. Other cohorts have no known size."""
        return await self._store.count_members(
            [cohort.id for cohort in cohorts if cohort.is_static]
        )


def parse_csv_ids(text: str) -> list[str]:
    """Return the first column, without a header."""
    try:
        lines = io.StringIO(text.removeprefix("\ufeff"), newline=None)
        rows = [row[0].strip() for row in csv.reader(lines) if row]
    except csv.Error as error:
        raise Invalid(f"The CSV cannot be parsed: {error}.", attr="csv") from None
    ids = [id for id in rows if id and id.lower() not in ("distinct_id", "distinct_ids")]
    if any(len(id) > MAX_CSV_VALUE_CHARS for id in ids):
        raise Invalid(
            f"The CSV cannot be parsed: a value has more than {MAX_CSV_VALUE_CHARS:,} characters.",
            attr="csv",
        )
    check_storable(ids, "csv")
    return ids


def build_new_cohort(
    project_id: ProjectId,
    fields: CohortFields,
    others: Mapping[CohortId, Cohort],
    actor: Actor,
    now: datetime,
) -> Cohort:
    """Return the cohort to store. Raises Invalid."""
    blank = replace(
        _build_blank(project_id, now),
        is_static=bool(fields.is_static),
        created_by=actor.email or actor.name,
    )
    if fields.name is None:
        raise_invalid("name", "This field is required.", "required")
    if len(others) >= MAX_PROJECT_COHORTS:
        raise Invalid(
            f"A project can have at most {MAX_PROJECT_COHORTS} cohorts. Delete one first."
        )
    return _apply_fields(blank, fields, others)


def build_draft(
    project_id: ProjectId, definition: Any, others: Mapping[CohortId, Cohort], now: datetime
) -> Cohort:
    """Return a cohort that is counted and not stored. Raises Invalid."""
    fields = CohortFields(definition=definition)
    return _apply_fields(_build_blank(project_id, now), fields, others)


def _build_blank(project_id: ProjectId, now: datetime) -> Cohort:
    return Cohort(
        id=NEW,
        project_id=project_id,
        name="",
        description="",
        is_static=False,
        definition={},
        deleted=False,
        created_by="",
        created_at=now,
        updated_at=now,
    )


def change_cohort(
    before: Cohort, fields: CohortFields, others: Mapping[CohortId, Cohort], now: datetime
) -> Cohort:
    """Return the changed cohort. Raises Invalid if it cannot be changed so."""
    after = _apply_fields(before, fields, others)
    return after if after == before else replace(after, updated_at=now)


def _apply_fields(
    before: Cohort, fields: CohortFields, others: Mapping[CohortId, Cohort]
) -> Cohort:
    after = before
    if fields.name is not None:
        after = replace(after, name=validate_text("name", fields.name, NAME_MAX))
    if fields.description is not None:
        text = fields.description.strip()
        text = text and validate_text("description", text, DESCRIPTION_MAX)
        after = replace(after, description=text)
    if fields.definition is not None and not _is_unchanged(fields.definition, before):
        definition = validate_definition(fields.definition, before.id, others)
        after = replace(after, definition=definition)
    if fields.is_static is not None and fields.is_static != before.is_static:
        raise_invalid(
            "is_static", "The type of a cohort cannot be changed: a static cohort stays static."
        )
    if fields.deleted is not None:
        after = replace(after, deleted=fields.deleted)
    return after


def _is_unchanged(definition: Any, before: Cohort) -> bool:
    """Whether a client sends a definition back as it is: it can be older than the checks."""
    return before.id != NEW and jsonio.is_equal(definition, before.definition)


def validate_definition(
    definition: Any, own_id: CohortId, others: Mapping[CohortId, Cohort]
) -> dict[str, Any]:
    """Validate the definition of a cohort: nested groups of filters."""
    if not isinstance(definition, dict):
        raise_invalid(DEFINITION_PATH, "An object with type and values is required.")
    check_storable(definition, DEFINITION_PATH)
    stored = CohortGraph(collect_definitions(others.values()))
    users = set() if own_id == NEW else {own_id, *stored.find_users(own_id)}
    check_known_fields(definition, COHORT_NODE, DEFINITION_PATH)
    count = pattern_count = 0
    pending: list[tuple[Any, str, int]] = [(definition, DEFINITION_PATH, 0)]
    while pending:
        node, place, depth = pending.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_FILTERS:
            raise_invalid(
                DEFINITION_PATH,
                f"Expected at most {MAX_FILTERS} filters in at most {MAX_DEPTH} levels.",
            )
        if not isinstance(node, dict):
            raise_invalid(place, "Expected an object.")
        if "values" not in node:
            pattern_count += len(collect_patterns(node))
            check_pattern_count(pattern_count, DEFINITION_PATH)
            _check_leaf(node, place, users, others)
            continue
        if str(node.get("type")).upper() not in ("AND", "OR"):
            raise_invalid(f"{place}.type", "AND or OR is required.", "invalid_choice")
        if not isinstance(node["values"], list):
            raise_invalid(f"{place}.values", "A list is required.", "not_a_list")
        pending += [
            (value, f"{place}.values[{number}]", depth + 1)
            for number, value in enumerate(node["values"][: MAX_FILTERS + 1])
        ]
    _check_size(definition, own_id, others, stored)
    return definition


def _check_size(
    definition: dict[str, Any],
    own_id: CohortId,
    others: Mapping[CohortId, Cohort],
    stored: CohortGraph,
) -> None:
    """Refuse a definition that is too large with all cohorts that it refers to, or that makes a
    cohort too large that refers to this one."""
    graph = stored.replace(own_id, definition)
    if problem := graph.find_problem(own_id):
        raise_invalid(DEFINITION_PATH, problem.detail, problem.code)
    for user in graph.find_users(own_id) if own_id != NEW else ():
        if (problem := graph.find_problem(user)) and stored.find_problem(user) is None:
            detail = f'The cohort "{truncate(others[user].name)}" uses this one. {problem.detail}'
            raise_invalid(DEFINITION_PATH, detail, problem.code)
    total_bytes = graph.count_bytes()
    if total_bytes > max(MAX_PROJECT_BYTES, stored.count_bytes()):
        limit = MAX_PROJECT_BYTES >> 20
        detail = f"The cohorts of a project can have at most {limit} MiB of filters in total."
        raise_invalid(DEFINITION_PATH, detail, "max_length")


def _check_leaf(
    filter: dict[str, Any],
    place: str,
    users: Container[CohortId],
    others: Mapping[CohortId, Cohort],
) -> None:
    """`users` are the cohort itself and the cohorts that refer to it."""
    kind = filter.get("type", "person")
    if not isinstance(filter.get("negation", False), bool):
        raise_invalid(f"{place}.negation", "Must be a valid boolean.")
    if kind in ("cohort", "person"):
        check_known_fields(filter, COHORT_FILTER, place)
    if kind == "cohort":
        if filter.get("operator") not in (None, "in", "not_in", "exact"):
            detail = "Expected one of: in, not_in."
            raise_invalid(f"{place}.operator", detail, "unsupported_operator")
        inner = filter.get("value")
        if not isinstance(inner, int) or isinstance(inner, bool) or CohortId(inner) not in others:
            raise_invalid(f"{place}.value", "There is no such cohort.", "cohort_does_not_exist")
        if CohortId(inner) in users:
            raise_invalid(
                f"{place}.value", "A cohort cannot contain itself, not even through others."
            )
    elif kind == "person":
        if not isinstance(filter.get("key"), str) or not filter["key"]:
            raise_invalid(f"{place}.key", "This field is required.", "required")
        check_property_filter(filter, place)
    elif kind == BEHAVIORAL:
        parse_behavioral_filter(filter, place)
    else:
        detail = "Expected `person`, `cohort` or `behavioral`."
        raise_invalid(f"{place}.type", detail, "invalid_choice")


def referenced_cohorts(definition: Any) -> set[CohortId]:
    return set(outline_definition(definition).references)


def _check_unused(
    id: CohortId, others: Mapping[CohortId, Cohort], flags_using: FlagsUsingCohort
) -> None:
    keys = flags_using(id)
    if keys:
        named = ", ".join(keys[:MAX_LISTED_USERS])
        raise Invalid(f"Cannot be deleted: flags use this cohort ({named}).")
    names = [
        each.name
        for each in others.values()
        if each.id != id and id in referenced_cohorts(each.definition)
    ]
    if names:
        named = ", ".join(truncate(name) for name in names[:MAX_LISTED_USERS])
        raise Invalid(f"Cannot be deleted: other cohorts use it ({named}).")


def create_entry_builder(actor: Actor) -> Callable[[Cohort | None, Cohort], ActivityEntry]:
    """Return the function that builds the entry of a change, from the cohort before and after."""
    return lambda before, after: build_cohort_entry(before, after, actor)


def build_cohort_entry(before: Cohort | None, after: Cohort, actor: Actor) -> ActivityEntry:
    activity = "created" if before is None else "deleted" if after.deleted else "updated"
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(after.id),
        item_name=after.name,
        activity=activity,
        actor=actor,
        project_id=after.project_id,
        changes=diff_fields(SCOPE, _audited_fields(before), _audited_fields(after)),
    )


def _audited_fields(cohort: Cohort | None) -> dict[str, Any]:
    if cohort is None:
        return {}
    return {
        "name": cohort.name,
        "description": cohort.description,
        "is_static": cohort.is_static,
        "filters": cohort.definition,
        "deleted": cohort.deleted,
    }
