"""A project whose flags are kept as a document: what tests do with one."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.flags.as_code import FlagsAsCode
from hedgerow.flags.document import Composed
from hedgerow.flags.model import Definitions, Flag, FlagId
from hedgerow.flags.plan import FieldChange, Plan
from hedgerow.flags.store import FlagWrite
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import TERMINAL, Entry
from hedgerow.projects.model import Project, ProjectId
from tests.unit.fake_time import START
from tests.unit.flags.world import (
    EVERYBODY,
    PROJECT,
    of_groups,
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
    """Keeps flags as storage/flags.py does: ids of its own, all or nothing, one step."""

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
        self.told: list[Entry] = []
        self.reasons: dict[FlagId, str] = {}

    async def definitions(self, project_id: ProjectId, timezone: str) -> Definitions:
        return self._present()

    async def held(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        return self.reasons

    def _present(self) -> Definitions:
        return Definitions(
            generation=self.current,
            flags=[flag for flag in self.flags.values() if not flag.deleted],
            cohorts=self.cohorts,
            group_types=self.group_types,
            timezone="UTC",
        )

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[Definitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        flags, told = dict(self.flags), list(self.told)

        def store(wish: FlagWrite) -> Flag:
            flag = wish.flag
            if not flag.id:
                flag = replace(flag, id=FlagId(self.next_id))
                self.next_id += 1
            flags[flag.id] = flag
            entry = wish.tell(flag)
            if entry is not None:
                told.append(entry)
            return flag

        work(self._present(), store)
        self.flags, self.told, self.current = flags, told, self.current + 1

    def by_key(self, key: str) -> Flag:
        [found] = [flag for flag in self.flags.values() if flag.key == key and not flag.deleted]
        return found


def room(store: Store) -> FlagsAsCode:
    as_code: Any = FlagsAsCode
    made: FlagsAsCode = as_code(store)
    return made


def document(store: Store) -> Composed:
    return asyncio.run(room(store).document(HERE))


def planned(store: Store, wanted: Any, *, prune: bool = False) -> Plan:
    return asyncio.run(room(store).plan(HERE, wanted, prune=prune, actor=TERMINAL, now=START))


def applied(store: Store, wanted: Any, *, prune: bool = False) -> Plan:
    plan = planned(store, wanted, prune=prune)
    asyncio.run(room(store).apply(plan, TERMINAL, LATER))
    return plan


def of_flags(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": 1, "flags": [{"filters": EVERYBODY, **item} for item in items]}


def refused(store: Store, wanted: Any, *, prune: bool = False) -> str:
    with pytest.raises(Invalid) as caught:
        planned(store, wanted, prune=prune)
    return f"{caught.value.attr}: {caught.value.detail}"


def changes(found: Sequence[FieldChange]) -> dict[str, tuple[Any, Any]]:
    return {change.field: (change.before, change.after) for change in found}


def asking(*filters: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return of_groups({"properties": list(filters)}, **fields)


def by_key(key: Any, value: Any = True) -> dict[str, Any]:
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
