"""Fake stores for the flag tests, in memory."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Unavailable
from hedgerow.flags.evaluation.condition_matcher import Condition, ConditionMatcher
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import (
    EvaluationDataStore,
    FlagStore,
    FlagWrite,
    PersonScanner,
    ScanResult,
    StoredData,
)
from hedgerow.lib import jsonio
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import real_sleep


class FlakyStore:
    """Records each call. `failures` counts the next calls that fail, by name."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures: Counter[str] = Counter()

    async def record_call(self, name: str) -> None:
        self.calls.append(name)
        await real_sleep(0)
        if self.failures[name] > 0:
            self.failures[name] -= 1
            raise Unavailable


class FakeFlagStore(FlakyStore, FlagStore):
    """The definitions of every project. `put` simulates a write of another process."""

    def __init__(self, *flags: Flag) -> None:
        super().__init__()
        self.stored: dict[ProjectId, FlagDefinitions] = {}
        if flags:
            self.put(*flags)

    def put(self, *flags: Flag, project_id: int = 1, **fields: Any) -> None:
        before = self._definitions_of(ProjectId(project_id))
        after = replace(before, flags=[*flags], **fields, generation=before.generation + 1)
        self.stored[ProjectId(project_id)] = after

    def _definitions_of(self, project_id: ProjectId) -> FlagDefinitions:
        empty = FlagDefinitions(
            generation=0, flags=[], cohorts=[], group_types={"company": 0}, timezone="UTC"
        )
        return self.stored.get(project_id, empty)

    async def generation(self, project_id: ProjectId) -> int:
        await self.record_call("generation")
        return self._definitions_of(project_id).generation

    async def generations(self) -> Mapping[ProjectId, int]:
        await self.record_call("generations")
        return {id: definitions.generation for id, definitions in self.stored.items()}

    async def definitions(self, project_id: ProjectId, timezone: str) -> FlagDefinitions:
        await self.record_call("definitions")
        return replace(self._definitions_of(project_id), timezone=timezone)

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        await self.record_call("flag")
        return next(
            (flag for flag in self._definitions_of(project_id).flags if flag.id == id), None
        )

    async def deletion_blockers(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        raise AssertionError("unexpected call of deletion_blockers")

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        raise AssertionError("unexpected call of call_counts")

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[FlagDefinitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        await self.record_call("write")
        before = {flag.id: flag for flag in self._definitions_of(project_id).flags}
        write = decide(self._definitions_of(project_id), before.get)
        flag = write.flag if write.flag.id else replace(write.flag, id=FlagId(len(before) + 1))
        if write.build_entry(flag) is not None:
            self.put(*(before | {flag.id: flag}).values(), project_id=project_id)
        return flag

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[FlagDefinitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        raise AssertionError("unexpected call of write_all")


class FakeEvaluationDataStore(FlakyStore, EvaluationDataStore):
    """Persons by each of their distinct ids; two ids of one person share the same dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.persons: dict[str, dict[str, Any]] = {}
        self.hash_keys: dict[str, dict[str, str]] = {}
        self.cohorts: dict[str, frozenset[int]] = {}
        self.groups: dict[tuple[int, str], dict[str, Any]] = {}
        self.requested: list[tuple[str, Mapping[int, str]]] = []
        self.loaded_parts: dict[str, bool] = {}

    def put(self, *ids: str, **properties: Any) -> None:
        keys: dict[str, str] = {}
        for id in ids:
            self.persons[id], self.hash_keys[id] = properties, keys

    async def load(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
        behaviors: bool = True,
    ) -> StoredData:
        await self.record_call("load")
        self.loaded_parts = {"cohorts": cohorts, "hash_keys": hash_keys}
        self.requested.append((distinct_id, groups))
        return StoredData(
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

    async def list_distinct_ids(self, project_id: ProjectId, distinct_id: str) -> Sequence[str]:
        person = self.persons.get(distinct_id)
        return [id for id, each in self.persons.items() if each is person]

    async def wait_for_group_types(self, project_id: ProjectId, names: Sequence[str]) -> None:
        await self.record_call("wait_for_group_types")

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        await self.record_call("save_hash_keys")
        for id in distinct_ids:
            for flag in flags:
                if id in self.persons:
                    self.hash_keys[id].setdefault(flag, hash_key)


class FakePersonScanner(FlakyStore, PersonScanner):
    """Persons and groups in memory, scanned in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.people: list[Mapping[str, Any]] = []
        self.companies: list[tuple[int, str, Mapping[str, Any]]] = []

    def put_company(self, key: str, type_index: int = 0, **properties: Any) -> None:
        self.companies.append((type_index, key, properties))

    async def scan_persons(self, query: PersonQuery, condition: Condition) -> ScanResult:
        await self.record_call("scan_persons")
        persons = [
            (id, jsonio.encode(each).decode(), f"p{id}") for id, each in enumerate(self.people, 1)
        ]
        found = list(ConditionMatcher(condition).filter_persons(persons, jsonio.decode, {}))
        return ScanResult(matching=len(found), total=len(persons))

    async def scan_groups(self, project_id: ProjectId, condition: Condition) -> ScanResult:
        await self.record_call("scan_groups")
        matcher = ConditionMatcher(condition)
        groups = [each[1:] for each in self.companies if each[0] == condition.group_index]
        return ScanResult(
            matching=sum(matcher.matches_group(*each) for each in groups), total=len(groups)
        )


async def run_inline(make: Callable[[], FlagSnapshot]) -> FlagSnapshot:
    """Run without a thread."""
    await real_sleep(0)
    return make()


def build_flag_cache(store: FakeFlagStore) -> FlagCache:
    return FlagCache(store, run_inline)
