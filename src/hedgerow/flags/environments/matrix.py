"""The flags of a product in each of its environments, and how they differ.

Comparing thousands of flags takes long, so it runs in a thread. The digest of a flag is kept until
the flag changes, or something that it refers to.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from hedgerow.errors import NotFound
from hedgerow.flags.as_code.plan import FlagFieldChange, fill_defaults, find_differences
from hedgerow.flags.as_code.references import ReferenceNames
from hedgerow.flags.environments.parts import PARTS, Item, build_shown_item, digest_parts
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import SURVEY_PREFIX, Flag, FlagDefinitions
from hedgerow.lib.threads import build_pauses
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.products import Environment

T = TypeVar("T")

# The digests of a project are some hundred bytes per flag.
MAX_KEPT_PROJECTS = 100
# Threads take turns with the event loop.
MAX_COMPARING = 1

# `reference` is the environment with which the others are compared.
State = Literal["reference", "same", "missing", "differs"]
RunInThread = Callable[[Callable[[], T]], Awaitable[T]]
Pause = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentProject:
    """An environment that the caller may read, with its project."""

    environment: Environment
    project: Project

    @property
    def name(self) -> str:
        return self.environment.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixQuery:
    """Which flags to list. `baseline` is the environment with which the others are compared."""

    baseline: str
    search: str = ""
    only_drifting: bool = False
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonQuery:
    """Which flags to compare: one, or all that differ."""

    key: str | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A flag in one environment. `parts` are those that differ from the reference."""

    environment: Environment
    flag: Flag | None
    state: State
    parts: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A flag in all environments. `drift` says in words how they differ, "" if they do not."""

    key: str
    name: str
    cells: Sequence[MatrixCell]
    drift: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagDifference:
    """A flag in two environments. `changes` lead from the first one to the second."""

    key: str
    source: Flag | None
    target: Flag | None
    parts: Sequence[str]
    changes: Sequence[FlagFieldChange]


class ComparedFlags:
    """The flags of one project by key, each with the digests of its parts."""

    def __init__(
        self, definitions: FlagDefinitions, before: "ComparedFlags | None", pause: Pause
    ) -> None:
        self.definitions = definitions
        # Surveys manage their flags themselves.
        self.flags = {
            flag.key: flag for flag in definitions.flags if not flag.key.startswith(SURVEY_PREFIX)
        }
        keys = {flag.id: flag.key for flag in definitions.flags}
        cohorts = {cohort.id: cohort.name for cohort in definitions.cohorts}
        self._referenced = (keys, cohorts, dict(definitions.group_types))
        self._names = ReferenceNames(definitions, keys)
        known = before if before and before._referenced == self._referenced else None
        self._digests: dict[str, tuple[int, ...]] = {}
        for key, flag in self.flags.items():
            pause()
            if known is not None and known.flags.get(key) is flag:
                self._digests[key] = known._digests[key]
            else:
                self._digests[key] = digest_parts(self.build_item(key))

    def build_item(self, key: str) -> Item:
        """Return a flag as it is compared, an empty object if there is none."""
        flag = self.flags.get(key)
        item = {} if flag is None else build_shown_item(flag, self._names.to_name)
        self._names.unnamed.clear()
        return item

    def find_differing_parts(self, key: str, other: "ComparedFlags") -> tuple[str, ...]:
        """Return the parts in which a flag of both differs."""
        mine, theirs = self._digests[key], other._digests[key]
        if mine == theirs:
            return ()
        return tuple(part for part, one, two in zip(PARTS, mine, theirs, strict=True) if one != two)


class FlagMatrix:
    def __init__(self, flag_cache: FlagCache, run_in_thread: RunInThread[object]) -> None:
        self._flag_cache = flag_cache
        self._run_in_thread = run_in_thread
        self._compared: dict[ProjectId, ComparedFlags] = {}
        self._comparing = asyncio.Semaphore(MAX_COMPARING)

    async def list_rows(
        self,
        environments: Sequence[EnvironmentProject],
        query: MatrixQuery,
        render: Callable[[MatrixRow], T],
    ) -> tuple[Sequence[T], int]:
        """Return a page of the flags of all environments by key, each rendered, and how many
        match."""
        baseline = _find_index(environments, query.baseline)

        def run(compared: Sequence[ComparedFlags]) -> tuple[Sequence[T], int]:
            table = _Table([each.environment for each in environments], compared, baseline)
            keys = table.search(query.search)
            pause = build_pauses()
            if query.only_drifting:
                keys = [key for key in keys if table.is_drifting(key, pause)]
            page = keys[query.offset : query.offset + query.limit]
            return [_rest(render(table.build_row(key)), pause) for key in page], len(keys)

        return await self._compare([each.project for each in environments], run)

    async def compare(
        self,
        projects: tuple[Project, Project],
        query: ComparisonQuery,
        render: Callable[[FlagDifference], T],
    ) -> tuple[Sequence[T], int]:
        """Compare one flag of two projects, or return a page of all that differ, each rendered.
        Raises NotFound if neither project has the flag."""
        key = query.key

        def run(compared: Sequence[ComparedFlags]) -> tuple[Sequence[T], int]:
            one, other = compared
            pause = build_pauses()
            keys = sorted(one.flags.keys() | other.flags.keys())
            if key is None:
                found = [each for each in keys if _is_different(each, one, other)]
            elif key in one.flags or key in other.flags:
                found = [key]
            else:
                raise NotFound("Neither environment has this flag.")
            page = found[query.offset : query.offset + query.limit]
            rendered = [_rest(render(_compare_flag(each, one, other)), pause) for each in page]
            return rendered, len(found)

        return await self._compare(projects, run)

    async def _compare(
        self, projects: Sequence[Project], run: Callable[[Sequence[ComparedFlags]], T]
    ) -> T:
        found = [(await self._flag_cache.refresh(each)).definitions for each in projects]

        def work() -> T:
            return run([self._get(each, of) for each, of in zip(projects, found, strict=True)])

        async with self._comparing:
            return await self._run_in_thread(work)  # type: ignore[return-value]

    def _get(self, project: Project, definitions: FlagDefinitions) -> ComparedFlags:
        kept = self._compared.pop(project.id, None)
        if kept is None or kept.definitions is not definitions:
            kept = ComparedFlags(definitions, kept, build_pauses())
        self._compared[project.id] = kept
        while len(self._compared) > MAX_KEPT_PROJECTS:
            del self._compared[next(iter(self._compared))]
        return kept


class _Table:
    """Compares the environments of a product. A flag that the baseline lacks is compared with the
    first environment that has it."""

    def __init__(
        self,
        environments: Sequence[Environment],
        compared: Sequence[ComparedFlags],
        baseline: int,
    ) -> None:
        self._environments = environments
        self._compared = compared
        others = (number for number in range(len(compared)) if number != baseline)
        self._order = (baseline, *others)

    def search(self, text: str) -> list[str]:
        """Return the keys of all flags whose key or name contains the text."""
        wanted = text.lower()
        return sorted(
            {
                key
                for each in self._compared
                for key, flag in each.flags.items()
                if wanted in key.lower() or wanted in flag.name.lower()
            }
        )

    def is_drifting(self, key: str, pause: Pause) -> bool:
        pause()
        reference = self._compared[self._find_reference(key)]
        return any(
            each is not reference
            and (key not in each.flags or each.find_differing_parts(key, reference))
            for each in self._compared
        )

    def build_row(self, key: str) -> MatrixRow:
        reference = self._find_reference(key)
        cells = [self._build_cell(key, number, reference) for number in range(len(self._compared))]
        named = self._environments[reference].name
        drift = [text for each in cells if (text := _describe_drift(each, named))]
        flag = self._compared[reference].flags[key]
        return MatrixRow(key=key, name=flag.name, cells=cells, drift="; ".join(drift))

    def _find_reference(self, key: str) -> int:
        return next(number for number in self._order if key in self._compared[number].flags)

    def _build_cell(self, key: str, number: int, reference: int) -> MatrixCell:
        own, other = self._compared[number], self._compared[reference]
        state: State = "reference"
        parts: Sequence[str] = ()
        if key not in own.flags:
            state = "missing"
        elif number != reference:
            parts = own.find_differing_parts(key, other)
            state = "differs" if parts else "same"
        return MatrixCell(
            environment=self._environments[number],
            flag=own.flags.get(key),
            state=state,
            parts=parts,
        )


def _rest(value: T, pause: Pause) -> T:
    pause()
    return value


def _find_index(environments: Sequence[EnvironmentProject], name: str) -> int:
    return next(number for number, each in enumerate(environments) if each.name == name)


def _describe_drift(cell: MatrixCell, reference: str) -> str:
    if cell.state == "missing":
        return f"{cell.environment.name}: missing"
    if cell.state != "differs":
        return ""
    verb = "differs" if len(cell.parts) == 1 and not cell.parts[0].endswith("s") else "differ"
    return f"{cell.environment.name}: {', '.join(cell.parts)} {verb} from {reference}"


def _is_different(key: str, one: ComparedFlags, other: ComparedFlags) -> bool:
    if key not in one.flags or key not in other.flags:
        return True
    return bool(one.find_differing_parts(key, other))


def _compare_flag(key: str, one: ComparedFlags, other: ComparedFlags) -> FlagDifference:
    source, target = one.flags.get(key), other.flags.get(key)
    is_in_both = source is not None and target is not None
    changes = find_differences(one.build_item(key), other.build_item(key)) if is_in_both else ()
    return FlagDifference(
        key=key,
        source=source,
        target=target,
        parts=one.find_differing_parts(key, other) if is_in_both else (),
        changes=fill_defaults(changes),
    )
