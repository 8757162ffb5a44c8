"""From the flags there are to those that a document asks for: what must change. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.document import Wanted, is_told, item_of
from hedgerow.flags.model import MAX_FLAGS, TOO_MANY, Definitions, Flag, FlagId
from hedgerow.flags.references import FLAG, Names, rewritten
from hedgerow.flags.rules import (
    Surroundings,
    check_not_reserved,
    check_together,
    checked_filters,
    needed_ids,
)
from hedgerow.lib import jsonio
from hedgerow.projects.document import At
from hedgerow.projects.model import ProjectId

# New flags have such ids until they are stored.
FIRST_PROVISIONAL = 10**17


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """`field` is a path, such as filters.groups[0].variant; MISSING is what is not there."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One flag to make or to change, told in the document's words."""

    before: Flag | None
    after: Flag
    changes: Sequence[FieldChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All changes of one project, made from what was `seen`. Flags that are made come after all
    that they depend on. Of flags that stay, `held` says why they cannot be deleted as was asked."""

    project_id: ProjectId
    seen: Definitions
    created: Sequence[Step]
    changed: Sequence[Step]
    deleted: Sequence[Flag]
    kept: Sequence[Flag]
    held: Mapping[FlagId, str]

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.changed or self.deleted)


class Planner:
    def __init__(
        self,
        seen: Definitions,
        wanted: Sequence[Wanted],
        blank: Flag,
        *,
        prune: bool,
        held: Mapping[FlagId, str],
    ) -> None:
        self._seen = seen
        self._wanted = wanted
        self._blank = blank
        keys = {each.key for each in wanted}
        others = sorted(seen.flags, key=lambda flag: flag.key)
        others = [flag for flag in others if flag.key not in keys]
        # What no document holds it cannot leave out either.
        self._untold = [flag for flag in others if not is_told(flag)]
        others = [flag for flag in others if is_told(flag)]
        self._kept = [flag for flag in others if flag.id in held] if prune else others
        self._deleted = [flag for flag in others if flag.id not in held] if prune else []
        self._held = {flag.id: held[flag.id] for flag in self._kept} if prune else {}
        self._present = {flag.key: flag for flag in seen.flags}
        self._ids = {
            each.key: self._present[each.key].id
            if each.key in self._present
            else FlagId(FIRST_PROVISIONAL + number)
            for number, each in enumerate(wanted)
        }
        ending = {id: key for key, id in self._ids.items()}
        ending |= {flag.id: flag.key for flag in (*self._kept, *self._untold)}
        self._inward = Names(seen, ending).inward
        self._outward = Names(seen, ending | {flag.id: flag.key for flag in seen.flags}).outward

    def plan(self) -> Plan:
        afters = {each.key: self._after(each) for each in self._wanted}
        ending = {flag.id: flag for flag in (*afters.values(), *self._kept, *self._untold)}
        checked: set[str] = set()
        ordered = self._dependencies_first(afters)
        for each in ordered:
            flag, before = afters[each.key], self._present.get(each.key)
            if before is None or flag.filters is not before.filters:
                ending[flag.id] = self._checked(each, flag, ending)
                checked.add(each.key)
        steps = [self._step(ending[self._ids[each.key]]) for each in ordered]
        plan = Plan(
            project_id=self._blank.project_id,
            seen=self._seen,
            created=[step for step in steps if step.before is None],
            changed=[step for step in steps if step.before is not None and step.changes],
            deleted=self._deleted,
            kept=self._kept,
            held=self._held,
        )
        self._check_needs(plan, ending, checked)
        if plan.created and len(ending) > MAX_FLAGS:
            raise Invalid(TOO_MANY, attr="flags")
        return plan

    def _dependencies_first(self, afters: Mapping[str, Flag]) -> list[Wanted]:
        waiting = {afters[each.key].id: each for each in self._wanted}
        needs = {id: needed_ids(afters[each.key].filters) for id, each in waiting.items()}
        placed: list[Wanted] = []
        while waiting:
            ready = [id for id in waiting if not needs[id] & waiting.keys()]
            if not ready:
                id, seen = next(iter(waiting)), set()
                while id not in seen:  # until it comes round
                    seen.add(id)
                    id = min(needs[id] & waiting.keys())
                detail = "A flag cannot depend on itself, not even through others."
                raise Invalid(detail, attr=waiting[id].place)
            placed += [waiting.pop(id) for id in ready]
        return placed

    def _after(self, wanted: Wanted) -> Flag:
        before = self._present.get(wanted.key)
        with At(wanted.place):
            if before is None:
                check_not_reserved(wanted.key)
            if before is not None and before.has_encrypted_payloads:
                raise Invalid("Its payloads are encrypted, so no file can tell what it is to be.")
            if before is not None and jsonio.same(
                wanted.filters, rewritten(before.filters, self._outward)
            ):
                filters = before.filters
            else:
                filters = rewritten(wanted.filters, self._inward)
            flag = before or replace(self._blank, id=self._ids[wanted.key], key=wanted.key)
            flag = replace(flag, **wanted.fields, filters=filters)
            check_together(flag)
        return flag

    def _checked(self, wanted: Wanted, flag: Flag, ending: Mapping[FlagId, Flag]) -> Flag:
        with At(wanted.place):
            _check_dependencies_active(flag, ending)
            is_new = flag.key not in self._present
            around = self._around(flag, ending)
            return replace(flag, filters=checked_filters(flag.filters, around, is_new=is_new))

    def _around(self, flag: Flag, flags: Mapping[FlagId, Flag]) -> Surroundings:
        return Surroundings(
            cohorts={cohort.id: cohort for cohort in self._seen.cohorts},
            flags={id: other for id, other in flags.items() if id != flag.id},
            own_id=flag.id,
        )

    def _step(self, after: Flag) -> Step:
        before = self._present.get(after.key)
        bare: dict[str, Any] = {"key": after.key, "filters": {"groups": []}}
        was = bare if before is None else item_of(before, self._outward)
        changes = list(_differences(was, item_of(after, self._outward), ""))
        return Step(before=before, after=after, changes=changes)

    def _check_needs(
        self, plan: Plan, ending: Mapping[FlagId, Flag], checked: Collection[str]
    ) -> None:
        """Active flags whose filters stay as they are must still find what they depend on."""
        touched = {flag.id for flag in plan.deleted} | {step.after.id for step in plan.changed}
        present = {flag.id: flag for flag in self._seen.flags}
        places = {each.key: each.place for each in self._wanted}
        for flag in ending.values():
            needed = needed_ids(flag.filters) & touched if flag.active else set()
            if not needed or flag.key in checked or self._is_sound(flag, ending):
                continue
            if self._is_sound(flag, present):
                keys = ", ".join(sorted(present[id].key for id in needed))
                raise Invalid(
                    f"It depends on {keys}, which must stay active and keep its variants.",
                    attr=places.get(flag.key, f"{flag.key}, which is not in the file"),
                )

    def _is_sound(self, flag: Flag, flags: Mapping[FlagId, Flag]) -> bool:
        try:
            checked_filters(flag.filters, self._around(flag, flags), is_new=False)
        except Invalid:
            return False
        return True


def _check_dependencies_active(flag: Flag, flags: Mapping[FlagId, Flag]) -> None:
    """In the document's words, where the rules would tell an id."""

    def check(kind: str, value: Any, place: str) -> Any:
        if kind == FLAG and isinstance(value, str) and value.isdecimal():
            needed = flags.get(FlagId(int(value)))
            if needed is not None and not needed.active:
                raise Invalid(f"The flag {needed.key} is not active.", attr=place)
        return value

    rewritten(flag.filters, check)


def _differences(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    """Down to the innermost value that differs; lists of plain values are told whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*after, *before)):
            inner = f"{path}.{key}" if path else key
            yield from _differences(before.get(key, MISSING), after.get(key, MISSING), inner)
    elif _is_list_of_objects(before) and _is_list_of_objects(after):
        for number, (one, other) in enumerate(zip_longest(before, after, fillvalue=MISSING)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif not jsonio.same(before, after):
        yield FieldChange(field=path, before=before, after=after)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)
