"""What can be done with cohorts: make, change, delete, fill a static one."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.filters.rules import check_property, refuse
from hedgerow.lib.text import cut_short
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.nesting import MAX_LEVELS, asked_within
from hedgerow.persons.store import Askers, CohortStore
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import ProjectId
from hedgerow.projects.text import check_storable, checked_text

SCOPE = "Cohort"
NAME_MAX = 400
# An id that is longer is the rest of a file whose quote is never closed.
CELL_MAX = 100_000
DESCRIPTION_MAX = 1000
MAX_DEPTH = 30
MAX_FILTERS = 1000
NEW = CohortId(0)
PLACE = "filters.properties"
# So many of those that are in the way are named.
TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortFields:
    """The writable fields; None leaves one as it is, or at its default on a new cohort."""

    name: str | None = None
    description: str | None = None
    is_static: bool | None = None
    definition: Any = None
    deleted: bool | None = None


class Cohorts:
    def __init__(self, store: CohortStore) -> None:
        self._store = store

    async def listing(
        self, project_id: ProjectId, *, limit: int, offset: int
    ) -> tuple[list[Cohort], int]:
        return await self._store.cohorts(project_id, limit=limit, offset=offset)

    async def find(self, project_id: ProjectId, id: CohortId) -> Cohort:
        cohort = await self._store.cohort(project_id, id)
        if cohort is None or cohort.deleted:
            raise NotFound
        return cohort

    async def create(
        self, project_id: ProjectId, fields: CohortFields, actor: Actor, now: datetime
    ) -> Cohort:
        def decide(others: Mapping[CohortId, Cohort], _: Askers) -> Cohort:
            blank = Cohort(
                id=NEW,
                project_id=project_id,
                name="",
                description="",
                is_static=bool(fields.is_static),
                definition={},
                deleted=False,
                created_by=actor.email or actor.name,
                created_at=now,
                updated_at=now,
            )
            if fields.name is None:
                refuse("name", "This field is required.", "required")
            return _changed(blank, fields, others)

        return await self._store.write_cohort(project_id, decide, _teller(actor), now)

    async def change(
        self,
        project_id: ProjectId,
        id: CohortId,
        fields: CohortFields,
        actor: Actor,
        now: datetime,
    ) -> Cohort:
        def decide(others: Mapping[CohortId, Cohort], flags_asking_for: Askers) -> Cohort:
            before = others.get(id)
            if before is None:
                raise NotFound
            if fields.deleted:
                _check_unused(id, others, flags_asking_for)
            after = _changed(before, fields, others)
            return after if after == before else replace(after, updated_at=now)

        return await self._store.write_cohort(project_id, decide, _teller(actor), now)

    async def add_members(self, cohort: Cohort, distinct_ids: Sequence[str]) -> int:
        """Fill a static cohort. Ids of nobody are passed over."""
        return await self._store.add_members(cohort.project_id, cohort.id, distinct_ids)

    async def sizes(self, cohorts: Sequence[Cohort]) -> Mapping[CohortId, int]:
        """How many persons static cohorts have; nobody has counted any other."""
        return await self._store.members([cohort.id for cohort in cohorts if cohort.is_static])


def ids_of_csv(text: str) -> list[str]:
    """The first column; a heading is no id."""
    try:
        lines = io.StringIO(text.removeprefix("\ufeff"), newline=None)
        rows = [row[0].strip() for row in csv.reader(lines) if row]
    except csv.Error as error:
        raise Invalid(f"This is no CSV: {error}.", attr="csv") from None
    ids = [id for id in rows if id and id.lower() not in ("distinct_id", "distinct_ids")]
    if any(len(id) > CELL_MAX for id in ids):
        raise Invalid(f"This is no CSV: a value of more than {CELL_MAX:,} characters.", attr="csv")
    check_storable(ids, "csv")
    return ids


def _changed(before: Cohort, fields: CohortFields, others: Mapping[CohortId, Cohort]) -> Cohort:
    after = before
    if fields.name is not None:
        after = replace(after, name=checked_text("name", fields.name, NAME_MAX))
    if fields.description is not None:
        text = fields.description.strip()
        text = text and checked_text("description", text, DESCRIPTION_MAX)
        after = replace(after, description=text)
    if fields.definition is not None:
        definition = checked_definition(fields.definition, before.id, others)
        after = replace(after, definition=definition)
    if fields.is_static is not None and fields.is_static != before.is_static:
        refuse("is_static", "A cohort stays static, or stays a question.")
    if fields.deleted is not None:
        after = replace(after, deleted=fields.deleted)
    return after


def checked_definition(
    definition: Any, own_id: CohortId, others: Mapping[CohortId, Cohort]
) -> dict[str, Any]:
    """A group of filters and groups, nested to any sensible depth."""
    if not isinstance(definition, dict):
        refuse(PLACE, "An object with type and values is required.")
    check_storable(definition, PLACE)
    count = 0
    waiting: list[tuple[Any, str, int]] = [(definition, PLACE, 0)]
    while waiting:
        node, place, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_FILTERS:
            refuse(PLACE, f"At most {MAX_FILTERS} filters, {MAX_DEPTH} levels deep, are possible.")
        if not isinstance(node, dict):
            refuse(place, "An object is required.")
        if "values" not in node:
            _check_leaf(node, place, own_id, others)
            continue
        if str(node.get("type")).upper() not in ("AND", "OR"):
            refuse(f"{place}.type", "AND or OR is required.", "invalid_choice")
        if not isinstance(node["values"], list):
            refuse(f"{place}.values", "A list is required.", "not_a_list")
        waiting += [
            (value, f"{place}.values[{number}]", depth + 1)
            for number, value in enumerate(node["values"])
        ]
    if asked_within(definition, others) is None:
        detail = f"Cohorts of cohorts may have {MAX_LEVELS} levels at most, all in all."
        refuse(PLACE, detail, "nested_too_deep")
    return definition


def _check_leaf(
    filter: dict[str, Any], place: str, own_id: CohortId, others: Mapping[CohortId, Cohort]
) -> None:
    kind = filter.get("type", "person")
    if not isinstance(filter.get("negation", False), bool):
        refuse(f"{place}.negation", "Must be a valid boolean.")
    if kind == "cohort":
        if filter.get("operator") not in (None, "in", "not_in", "exact"):
            detail = "A cohort filter is in or not_in."
            refuse(f"{place}.operator", detail, "unsupported_operator")
        inner = filter.get("value")
        if not isinstance(inner, int) or isinstance(inner, bool) or CohortId(inner) not in others:
            refuse(f"{place}.value", "There is no such cohort.", "cohort_does_not_exist")
        if own_id != NEW and own_id in contained(CohortId(inner), others):
            refuse(f"{place}.value", "A cohort cannot contain itself, not even through others.")
    elif kind == "person":
        if not isinstance(filter.get("key"), str) or not filter["key"]:
            refuse(f"{place}.key", "This field is required.", "required")
        check_property(filter, place)
    else:
        refuse(f"{place}.type", "Cohorts ask about persons and other cohorts.", "invalid_choice")


def contained(id: CohortId, cohorts: Mapping[CohortId, Cohort]) -> set[CohortId]:
    """The cohort and all that it asks for, through others too."""
    found = {id}
    waiting = [id]
    while waiting:
        cohort = cohorts.get(waiting.pop())
        new = asked_cohorts(cohort.definition) - found if cohort else set()
        found |= new
        waiting += new
    return found


def asked_cohorts(definition: Any) -> set[CohortId]:
    found: set[CohortId] = set()
    waiting = [definition]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        inner = node.get("value")
        if node.get("type") == "cohort" and isinstance(inner, int):
            found.add(CohortId(inner))
        values = node.get("values")
        waiting += values if isinstance(values, list) else []
    return found


def _check_unused(
    id: CohortId, others: Mapping[CohortId, Cohort], flags_asking_for: Askers
) -> None:
    keys = flags_asking_for(id)
    if keys:
        named = ", ".join(keys[:TOLD])
        raise Invalid(f"Cannot be deleted: flags ask for this cohort ({named}).")
    names = [
        each.name
        for each in others.values()
        if each.id != id and id in asked_cohorts(each.definition)
    ]
    if names:
        named = ", ".join(cut_short(name) for name in names[:TOLD])
        raise Invalid(f"Cannot be deleted: other cohorts ask for this one ({named}).")


def _teller(actor: Actor) -> Callable[[Cohort | None, Cohort], Entry]:
    def tell(before: Cohort | None, after: Cohort) -> Entry:
        verb = "created" if before is None else "deleted" if after.deleted else "updated"
        return Entry(
            scope=SCOPE,
            item_id=str(after.id),
            item_name=after.name,
            activity=verb,
            actor=actor,
            project_id=after.project_id,
            changes=differences(SCOPE, _audited(before), _audited(after)),
        )

    return tell


def _audited(cohort: Cohort | None) -> dict[str, Any]:
    if cohort is None:
        return {}
    return {
        "name": cohort.name,
        "description": cohort.description,
        "is_static": cohort.is_static,
        "filters": cohort.definition,
        "deleted": cohort.deleted,
    }
