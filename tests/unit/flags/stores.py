"""Stores made of lists and dictionaries, for the parts of this room that read and write."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Unavailable
from hedgerow.flags.board import FlagCache
from hedgerow.flags.model import Definitions, Flag, FlagId
from hedgerow.flags.snapshot import Snapshot
from hedgerow.flags.store import FlagWrite, StoredSubject
from hedgerow.persons.model import Group, Person
from hedgerow.persons.store import PersonQuery, Split, Tell, Walked
from hedgerow.projects.activity import Entry
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START, give_way


class Away:
    """Notes each call. `away` says how many of the next calls of a name fail."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.away: Counter[str] = Counter()

    async def called(self, name: str) -> None:
        self.calls.append(name)
        await give_way(0)
        if self.away[name] > 0:
            self.away[name] -= 1
            raise Unavailable


class ListFlags(Away):
    """Every project's definitions. `put` is what another process does."""

    def __init__(self, *flags: Flag) -> None:
        super().__init__()
        self.stored: dict[ProjectId, Definitions] = {}
        if flags:
            self.put(*flags)

    def put(self, *flags: Flag, project_id: int = 1, **fields: Any) -> None:
        before = self._of(ProjectId(project_id))
        after = replace(before, flags=[*flags], **fields, generation=before.generation + 1)
        self.stored[ProjectId(project_id)] = after

    def _of(self, project_id: ProjectId) -> Definitions:
        nothing = Definitions(
            generation=0, flags=[], cohorts=[], group_types={"company": 0}, timezone="UTC"
        )
        return self.stored.get(project_id, nothing)

    async def generation(self, project_id: ProjectId) -> int:
        await self.called("generation")
        return self._of(project_id).generation

    async def generations(self) -> Mapping[ProjectId, int]:
        await self.called("generations")
        return {id: definitions.generation for id, definitions in self.stored.items()}

    async def definitions(self, project_id: ProjectId, timezone: str) -> Definitions:
        await self.called("definitions")
        return replace(self._of(project_id), timezone=timezone)

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        await self.called("flag")
        return next((flag for flag in self._of(project_id).flags if flag.id == id), None)

    async def held(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        raise AssertionError("nobody here asks what may go")

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        raise AssertionError("nobody here counts calls")

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[Definitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        await self.called("write")
        before = {flag.id: flag for flag in self._of(project_id).flags}
        wish = decide(self._of(project_id), before.get)
        flag = wish.flag if wish.flag.id else replace(wish.flag, id=FlagId(len(before) + 1))
        if wish.tell(flag) is not None:
            self.put(*(before | {flag.id: flag}).values(), project_id=project_id)
        return flag

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[Definitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        raise AssertionError("nobody here writes several at once")


class ListSubjects(Away):
    """Persons by each of their distinct ids; two ids of one person share the same dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.persons: dict[str, dict[str, Any]] = {}
        self.hash_keys: dict[str, dict[str, str]] = {}
        self.cohorts: dict[str, frozenset[int]] = {}
        self.groups: dict[tuple[int, str], dict[str, Any]] = {}
        self.asked: list[tuple[str, Mapping[int, str]]] = []
        self.wanted: dict[str, bool] = {}

    def put(self, *ids: str, **properties: Any) -> None:
        keys: dict[str, str] = {}
        for id in ids:
            self.persons[id], self.hash_keys[id] = properties, keys

    async def subject(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
    ) -> StoredSubject:
        await self.called("subject")
        self.wanted = {"cohorts": cohorts, "hash_keys": hash_keys}
        self.asked.append((distinct_id, groups))
        return StoredSubject(
            person_id=1 if distinct_id in self.persons else None,
            properties=self.persons.get(distinct_id, {}),
            cohorts=self.cohorts.get(distinct_id, frozenset()) if cohorts else frozenset(),
            hash_keys=dict(self.hash_keys.get(distinct_id, {})) if hash_keys else {},
            groups={
                index: self.groups[index, key]
                for index, key in groups.items()
                if (index, key) in self.groups
            },
        )

    async def keep_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        await self.called("keep_hash_keys")
        for id in distinct_ids:
            for flag in flags:
                if id in self.persons:
                    self.hash_keys[id].setdefault(flag, hash_key)


class ListPersons(Away):
    """Persons and groups in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.people: list[Mapping[str, Any]] = []
        self.companies: list[Group] = []

    def put_company(self, key: str, type_index: int = 0, **properties: Any) -> None:
        self.companies.append(
            Group(
                project_id=ProjectId(1),
                type_index=type_index,
                key=key,
                properties=properties,
                created_at=START,
                updated_at=START,
            )
        )

    async def some(self, query: PersonQuery, *, after: int, limit: int) -> list[Walked]:
        await self.called("some")
        everybody = [
            Walked(id=id, distinct_id=f"p{id}", properties=each, cohorts=frozenset())
            for id, each in enumerate(self.people, start=1)
        ]
        return [each for each in everybody if each.id > after][:limit]

    async def groups(
        self, project_id: ProjectId, type_index: int, *, limit: int, offset: int
    ) -> tuple[list[Group], int]:
        await self.called("groups")
        found = [group for group in self.companies if group.type_index == type_index]
        return found[offset : offset + limit], len(found)

    async def some_groups(
        self, project_id: ProjectId, type_index: int, *, after: str, limit: int
    ) -> list[Group]:
        await self.called("some_groups")
        found = [
            group
            for group in self.companies
            if group.type_index == type_index and group.key > after
        ]
        return sorted(found, key=lambda group: group.key)[:limit]

    async def persons(self, query: PersonQuery) -> tuple[list[Person], int]:
        raise NotImplementedError

    async def person(self, project_id: ProjectId, uuid: str) -> Person | None:
        raise NotImplementedError

    async def put_person(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        change: Callable[[Person | None], Mapping[str, Any]],
        tell: Tell,
        now: datetime,
    ) -> Person:
        raise NotImplementedError

    async def change_person(
        self,
        project_id: ProjectId,
        uuid: str,
        more_ids: Sequence[str],
        change: Callable[[Person], Mapping[str, Any]],
        tell: Tell,
        now: datetime,
    ) -> Person | None:
        raise NotImplementedError

    async def newest_of(self, ids: Collection[int]) -> list[Person]:
        raise NotImplementedError

    async def split_person(
        self, project_id: ProjectId, uuid: str, decide: Callable[[Person], Split], now: datetime
    ) -> Person | None:
        raise NotImplementedError

    async def delete_person(
        self, project_id: ProjectId, uuid: str, tell: Callable[[Person], Entry], now: datetime
    ) -> bool:
        raise NotImplementedError

    async def put_group(
        self,
        project_id: ProjectId,
        type_index: int,
        key: str,
        properties: Mapping[str, Any],
        now: datetime,
    ) -> Group:
        raise NotImplementedError

    async def group_types(self, project_id: ProjectId) -> Mapping[str, int]:
        raise NotImplementedError

    async def put_group_type(self, project_id: ProjectId, name: str, most: int) -> int | None:
        raise NotImplementedError


async def at_once(make: Callable[[], Snapshot]) -> Snapshot:
    """Instead of another thread."""
    await give_way(0)
    return make()


def a_board(store: ListFlags) -> FlagCache:
    return FlagCache(store, at_once)
