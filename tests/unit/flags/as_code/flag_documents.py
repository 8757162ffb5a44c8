"""Helpers for tests of flag documents."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.flags.as_code.apply import FlagsAsCode
from hedgerow.flags.as_code.document import FlagDocument
from hedgerow.flags.as_code.plan import FlagFieldChange, FlagPlan
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import COMMAND_LINE, ActivityEntry
from hedgerow.projects.model import Project, ProjectId
from tests.unit.fake_time import START
from tests.unit.flags.factories import (
    MATCH_ALL,
    PROJECT,
    build_filters,
)

HERE = Project(
    id=PROJECT,
    uuid="",
    organization_id="",
    name="Here",
    timezone="UTC",
    api_token="phc_here",
    created_at=START,
    updated_at=START,
)
LATER = START + timedelta(hours=1)


class Store:
    """Stores flags like storage/flags/flags.py: generates ids, writes all or nothing."""

    def __init__(
        self,
        *flags: Flag,
        cohorts: Sequence[Cohort] = (),
        group_types: Mapping[str, int] | None = None,
        first_id: int = 1000,
    ) -> None:
        self.flags = {flag.id: flag for flag in flags}
        self.cohorts = cohorts
        self.group_types = group_types or {}
        self.current = 1
        self.next_id = first_id
        self.entries: list[ActivityEntry] = []
        self.reasons: dict[FlagId, str] = {}

    async def definitions(self, project_id: ProjectId, timezone: str) -> FlagDefinitions:
        return self._definitions()

    async def deletion_blockers(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        return self.reasons

    def _definitions(self) -> FlagDefinitions:
        return FlagDefinitions(
            generation=self.current,
            flags=[flag for flag in self.flags.values() if not flag.deleted],
            cohorts=self.cohorts,
            group_types=self.group_types,
            timezone="UTC",
        )

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[FlagDefinitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        flags, entries = dict(self.flags), list(self.entries)

        def store(write: FlagWrite) -> Flag:
            flag = write.flag
            if not flag.id:
                flag = replace(flag, id=FlagId(self.next_id))
                self.next_id += 1
            flags[flag.id] = flag
            entry = write.build_entry(flag)
            if entry is not None:
                entries.append(entry)
            return flag

        work(self._definitions(), store)
        self.flags, self.entries, self.current = flags, entries, self.current + 1

    def by_key(self, key: str) -> Flag:
        [found] = [flag for flag in self.flags.values() if flag.key == key and not flag.deleted]
        return found


def build_flags_as_code(store: Store) -> FlagsAsCode:
    as_code: Any = FlagsAsCode
    flags_as_code: FlagsAsCode = as_code(store)
    return flags_as_code


def export_document(store: Store) -> FlagDocument:
    return asyncio.run(build_flags_as_code(store).export(HERE))


def make_plan(store: Store, content: Any, *, prune: bool = False) -> FlagPlan:
    return asyncio.run(
        build_flags_as_code(store).plan(HERE, content, prune=prune, actor=COMMAND_LINE, now=START)
    )


def apply_document(store: Store, content: Any, *, prune: bool = False) -> FlagPlan:
    plan = make_plan(store, content, prune=prune)
    asyncio.run(build_flags_as_code(store).apply(plan, COMMAND_LINE, LATER))
    return plan


def make_document(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": 1, "flags": [{"filters": MATCH_ALL, **item} for item in items]}


def plan_error(store: Store, content: Any, *, prune: bool = False) -> str:
    with pytest.raises(Invalid) as caught:
        make_plan(store, content, prune=prune)
    return f"{caught.value.attr}: {caught.value.detail}"


def changes(found: Sequence[FlagFieldChange]) -> dict[str, tuple[Any, Any]]:
    return {change.field: (change.before, change.after) for change in found}


def condition_with(*filters: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return build_filters({"properties": list(filters)}, **fields)


def flag_reference(key: Any, value: Any = True) -> dict[str, Any]:
    return {"key": key, "type": "flag", "value": value, "operator": "flag_evaluates_to"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["groups", "properties", "type", "key", "value", "variants", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
