"""Read all persons or groups of a project, and find those that match a condition.

These functions run in a worker process. The module does not import SQLAlchemy: that would take
longer than most scans.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypedDict

import msgspec

from hedgerow.filters.values import as_text
from hedgerow.flags.evaluation.condition_matcher import Condition, ConditionMatcher
from hedgerow.flags.evaluation.evaluation_context import PersonBehaviors
from hedgerow.flags.store import ScanResult
from hedgerow.lib.text import explain_unstorable
from hedgerow.persons.behaviors.times import join_behaviors
from hedgerow.persons.model import PersonId
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.persons.scan_source import ScanSource, Select

# With more keys, decoding all properties is as fast.
MAX_SELECTED_KEYS = 100
# Persons with close ids are in the same pages of the file, which only one process then reads.
BLOCK_SIZE = 64
SEARCHED_PROPERTIES = ("email", "name")

FIRST_DISTINCT_ID = (
    "(SELECT d.distinct_id FROM person_distinct_ids AS d WHERE d.person_id = p.id"
    " ORDER BY d.distinct_id LIMIT 1)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPart:
    """One of several parts of about the same size, which can be read at once."""

    number: int
    of: int

    def select(self, column: str) -> str:
        """Select every other block of ids. Both engines divide integers to integers."""
        return f"{column} / {BLOCK_SIZE} % {self.of} = {self.number}"


# Its keys are known only when it is called.
_build_typed_dict: Any = TypedDict


def scan_persons(
    source: ScanSource, query: PersonQuery, condition: Condition, part: ScanPart | None = None
) -> ScanResult:
    """Find the persons of one part. Without a known count all persons are read, otherwise only as
    many as the page needs."""
    with source.open() as select:
        scan = _PersonScan(source, select, query, condition, part)
        if query.count is not None:
            end = query.offset + query.limit
            page = islice(scan.iterate_matching(is_ordered=True), query.offset, end)
            ids = list(map(PersonId, page))
            return ScanResult(ids=ids[::-1] if query.newer_than else ids, matching=query.count)
        all_ids = array("q", scan.iterate_matching(is_ordered=False))
        return ScanResult(
            ids=choose_page(all_ids, query), matching=len(all_ids), total=scan.count_persons()
        )


def scan_groups(source: ScanSource, project_id: ProjectId, condition: Condition) -> ScanResult:
    matcher = ConditionMatcher(condition)
    decode = build_decoder(matcher.property_keys)
    matching = total = 0
    with source.open() as select:
        sql = "SELECT key, CAST(properties AS text) FROM groups WHERE project_id = ?"
        for key, properties in select(
            f"{sql} AND type_index = ?", project_id, condition.group_index
        ):
            total += 1
            matching += matcher.matches_group(key, decode(properties))
    return ScanResult(matching=matching, total=total)


def choose_page(matching: Iterable[int], query: PersonQuery) -> list[PersonId]:
    """Choose the page of a query, newest first."""
    older, newer = query.older_than, query.newer_than
    chosen = sorted(
        (
            PersonId(id)
            for id in matching
            if (older is None or id < older) and (newer is None or id > newer)
        ),
        reverse=newer is None,
    )[query.offset : query.offset + query.limit]
    return chosen if newer is None else chosen[::-1]


class _LazyBehaviors(dict[int, PersonBehaviors]):
    """Behaviors by person. Decoded when they are read: encoded ones take a quarter of the space."""

    def __init__(self, rows: Mapping[int, list[str]]) -> None:
        super().__init__()
        self._rows = rows

    def get(self, person_id: int, default: Any = None) -> Any:
        rows = self._rows.get(person_id)
        return default if rows is None else join_behaviors(rows)


class _PersonScan:
    def __init__(
        self,
        source: ScanSource,
        select: Select,
        query: PersonQuery,
        condition: Condition,
        part: ScanPart | None,
    ) -> None:
        self._source = source
        self._select = select
        self._query = query
        self._part = part
        self._matcher = ConditionMatcher(condition)
        self._search = query.search.lower()
        self._owners = self._find_owners() if self._search else frozenset()
        self._cohorts = self._load_cohorts()
        self._behaviors = self._load_behaviors() if self._matcher.uses_behaviors else {}
        self._keys = self._choose_keys()
        self._decode = build_decoder(self._keys)

    def iterate_matching(self, *, is_ordered: bool) -> Iterator[int]:
        """Yield the ids of the persons that match, from the position of the query if ordered."""
        distinct_id = FIRST_DISTINCT_ID if self._matcher.needs_distinct_id else "''"
        properties, sent = self._source.select_properties(self._keys)
        columns = f"p.id, {properties}, coalesce({distinct_id}, '')"
        where, values = self._build_where(has_position=is_ordered)
        direction = "DESC" if self._query.newer_than is None else "ASC"
        order = f" ORDER BY p.id {direction}" if is_ordered else ""
        sql = f"SELECT {columns} FROM persons AS p WHERE {where}{order}"  # noqa: S608
        rows = self._select(sql, *sent, *values)
        if self._query.needs_scan:
            decode = self._decode
            rows = (row for row in rows if self._matches_text(row[0], decode(row[1])))
        return self._matcher.filter_persons(rows, self._decode, self._cohorts, self._behaviors)

    def count_persons(self) -> int:
        """Count the persons of this part that were read."""
        where, values = self._build_where(has_position=False)
        [(count,)] = self._select(f"SELECT count(*) FROM persons AS p WHERE {where}", *values)  # noqa: S608
        return int(count)

    def _build_where(self, *, has_position: bool) -> tuple[str, list[Any]]:
        query = self._query
        conditions = ["p.project_id = ?"]
        values: list[Any] = [query.project_id]
        if self._part is not None:
            conditions.append(self._part.select("p.id"))
        if query.distinct_id:
            owner = "SELECT person_id FROM person_distinct_ids WHERE project_id = ?"
            conditions.append(f"p.id IN ({owner} AND distinct_id = ?)")
            values += [query.project_id, query.distinct_id]
        if query.cohort_id is not None:
            members = "SELECT person_id FROM cohort_people WHERE cohort_id = ?"
            conditions.append(f"p.id IN ({members})")
            values.append(query.cohort_id)
        if has_position:
            for operator, id in (("<", query.older_than), (">", query.newer_than)):
                if id is not None:
                    conditions.append(f"p.id {operator} ?")
                    values.append(id)
        return " AND ".join(conditions), values

    def _choose_keys(self) -> frozenset[str] | None:
        keys = self._matcher.property_keys
        if keys is None or not self._query.needs_scan:
            return keys
        return keys.union(SEARCHED_PROPERTIES)

    def _find_owners(self) -> frozenset[int]:
        """Find the persons with a distinct id that contains the text."""
        sql = "SELECT person_id, distinct_id FROM person_distinct_ids WHERE project_id = ?"
        values: list[Any] = [self._query.project_id]
        if self._part is not None:
            sql += f" AND {self._part.select('person_id')}"
        if self._search.isascii() and not explain_unstorable(self._search):
            sql += f" AND {self._source.may_contain('distinct_id')}"
            values.append(self._search)
        return frozenset(
            person_id
            for person_id, distinct_id in self._select(sql, *values)
            if self._search in distinct_id.lower()
        )

    def _load_cohorts(self) -> Mapping[int, frozenset[int]]:
        """Return the static cohorts of each person that is in one."""
        found: dict[int, frozenset[int]] = {}
        for cohort in self._matcher.static_cohorts:
            members = self._select(
                "SELECT person_id FROM cohort_people WHERE cohort_id = ?", cohort
            )
            own = frozenset((cohort,))
            for (person_id,) in members:
                found[person_id] = found.get(person_id, frozenset()) | own
        return found

    def _load_behaviors(self) -> Mapping[int, PersonBehaviors]:
        """Return what each person did, as far as cohorts count it."""
        sql = (
            "SELECT d.person_id, b.times FROM behavior_times AS b JOIN person_distinct_ids AS d"
            " ON d.project_id = b.project_id AND d.distinct_id = b.distinct_id"
            " WHERE b.project_id = ?"
        )
        if self._part is not None:
            sql += f" AND {self._part.select('d.person_id')}"
        found: dict[int, list[str]] = {}
        for person_id, times in self._select(sql, self._query.project_id):
            found.setdefault(person_id, []).append(times)
        return _LazyBehaviors(found)

    def _matches_text(self, id: int, properties: Mapping[str, Any]) -> bool:
        texts = {
            name: as_text(value)
            for name in SEARCHED_PROPERTIES
            if (value := properties.get(name)) is not None
        }
        if self._query.email and texts.get("email") != self._query.email:
            return False
        if not self._search or id in self._owners:
            return True
        return any(self._search in text.lower() for text in texts.values())


def build_decoder(keys: frozenset[str] | None) -> Callable[[str], Mapping[str, Any]]:
    """Return a function that decodes the properties with these keys, None for all of them."""
    if keys is not None and not keys:
        return lambda text: {}
    wanted: Any = dict[str, Any]
    if keys is not None and len(keys) <= MAX_SELECTED_KEYS:
        wanted = _build_typed_dict("Properties", dict.fromkeys(keys, Any), total=False)
    try:
        fast = msgspec.json.Decoder(wanted).decode
    except UnicodeEncodeError:  # a key that cannot be in JSON
        fast = msgspec.json.Decoder(dict[str, Any]).decode

    def decode(text: str) -> Mapping[str, Any]:
        try:
            properties: Mapping[str, Any] = fast(text)
            return properties
        except (msgspec.MsgspecError, UnicodeEncodeError):
            found = json.loads(text)  # accepts more
            return found if isinstance(found, dict) else {}

    return decode
