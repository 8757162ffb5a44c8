"""Flags as code: a project's flags as a document, and a document applied to it.

    version: 1
    flags:
      - key: beta
        filters:
          groups:
            - properties:
                - {key: id, type: cohort, value: Testers, operator: in}

A flag is known by its key, and what it leaves out is at its default. Where stored filters name
another flag, a cohort or a group type by number, the document names it by key or name, so that it
means the same in another project. A number there is an id. Flags with encrypted payloads are not
in it, and are left alone.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.flags import (
    MAX_FLAGS,
    NEW,
    blank_flag,
    check_key,
    check_together,
    entry_of,
    person_of,
)
from hedgerow.flags.model import Bucketing, Definitions, Flag, FlagId, Runtime
from hedgerow.flags.rules import Surroundings, checked_filters, needed_ids
from hedgerow.flags.store import FlagStore, FlagWrite
from hedgerow.kit import jsonio
from hedgerow.kit.yamlio import FromEnv
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project, ProjectId
from hedgerow.projects.text import check_storable
from hedgerow.properties.values import MISSING

VERSION = 1
NAME_MAX = 10_000
LABEL_MAX = 200
# New flags have such ids until they are stored.
FIRST_PROVISIONAL = 10**17

FLAG, COHORT, GROUP_TYPE = "flag", "cohort", "group type"
# What a number or name stands for (one of the above), the number or name, its place.
Rewrite = Callable[[str, Any, str], Any]


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
    that they depend on."""

    project_id: ProjectId
    seen: Definitions
    created: Sequence[Step]
    changed: Sequence[Step]
    deleted: Sequence[Flag]
    kept: Sequence[Flag]

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.changed or self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A document, the flags that are not in it because their payloads are secret, and the places
    in it that only this project can read: what they mean has no name of its own."""

    document: dict[str, Any]
    left_out: Sequence[Flag]
    nameless: Sequence[str]


class FlagsAsCode:
    def __init__(self, store: FlagStore) -> None:
        self._store = store

    async def document(self, project: Project) -> Composed:
        seen = await self._store.definitions(project.id, project.timezone)
        return composed(seen)

    async def plan(
        self, project: Project, document: Any, *, prune: bool, actor: Actor, now: datetime
    ) -> Plan:
        """What applying the document would do. Invalid names the place that cannot be applied."""
        wanted = parsed(document)
        seen = await self._store.definitions(project.id, project.timezone)
        return _Planner(seen, wanted, blank_flag(project, actor, now), prune=prune).plan()

    async def apply(self, plan: Plan, actor: Actor, now: datetime) -> None:
        """Do all of it, or nothing if somebody changed flags or cohorts since the plan was
        made."""

        def work(present: Definitions, store: Callable[[FlagWrite], Flag]) -> None:
            if present.generation != plan.seen.generation:
                raise Conflict("The flags were changed meanwhile. Look at the new plan first.")
            ids: dict[FlagId, FlagId] = {}
            for step in plan.created:
                ids[step.after.id] = store(_creation(step.after, ids, actor, now)).id
            stored = {flag.id: flag for flag in present.flags}
            for step in plan.changed:
                after = _renumbered(step.after, ids)
                store(_edit("updated", stored[after.id], after, actor, now))
            for flag in plan.deleted:
                gone = replace(flag, deleted=True, active=False)
                store(_edit("deleted", stored[flag.id], gone, actor, now))

        await self._store.write_all(plan.project_id, work, now)


def _creation(flag: Flag, ids: Mapping[FlagId, FlagId], actor: Actor, now: datetime) -> FlagWrite:
    new = replace(_renumbered(flag, ids), id=NEW, created_at=now, updated_at=now)
    return FlagWrite(flag=new, tell=lambda made: entry_of("created", None, made, actor))


def _edit(verb: str, before: Flag, after: Flag, actor: Actor, now: datetime) -> FlagWrite:
    after = replace(
        after,
        version=before.version + 1,
        last_called_at=before.last_called_at,  # may have moved since, and is nobody's change
        last_modified_by=person_of(actor),
        updated_at=now,
    )
    return FlagWrite(flag=after, tell=lambda _: entry_of(verb, before, after, actor))


def _renumbered(flag: Flag, ids: Mapping[FlagId, FlagId]) -> Flag:
    """The flag with real ids where provisional ones were."""
    real = {str(provisional): str(id) for provisional, id in ids.items()}

    def rewrite(kind: str, value: Any, place: str) -> Any:
        return real.get(value, value) if kind == FLAG and isinstance(value, str) else value

    return replace(flag, filters=_rewritten(flag.filters, rewrite))


# The document.


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A flag as a document asks for it. `place` is where, for errors."""

    place: str
    key: str
    fields: Mapping[str, Any]
    filters: Any


def parsed(value: Any) -> list[Wanted]:
    """What the document asks for; Invalid names the place that is wrong."""
    if not isinstance(value, dict):
        raise Invalid("A document has a version and flags.")
    _check_names(value, ("version", "flags"), None)
    version = value.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise Invalid(f"This version of Hedgerow reads version {VERSION}.", attr="version")
    flags = value.get("flags", MISSING)
    if not isinstance(flags, list | None):
        raise Invalid("A list of flags is wanted here.", attr="flags")
    found: dict[str, Wanted] = {}
    for number, item in enumerate(flags or ()):
        wanted = _wanted(item, f"flags[{number}]")
        if wanted.key in found:
            raise Invalid(f"{found[wanted.key].place} is the same flag.", attr=wanted.place)
        found[wanted.key] = wanted
    return list(found.values())


def _wanted(value: Any, place: str) -> Wanted:
    if not isinstance(value, dict):
        raise Invalid("A flag has a key and filters.", attr=place)
    key = value.get("key")
    with _At(place):
        if not isinstance(key, str):
            raise Invalid("A text is required: put it in quotes.", attr="key")
        check_key(key, {})
    place = f"{place} ({key})"
    _check_names(value, ("key", "filters", *_FIELDS), place)
    fields = {}
    for name, (default, checked) in _FIELDS.items():
        given = value.get(name)
        with _At(f"{place}: {name}"):
            fields[name] = default if given is None else checked(given)
    filters = value.get("filters", {})
    check_storable(filters, f"{place}: filters")
    _check_no_reference(filters, f"{place}: filters")
    return Wanted(place=place, key=key, fields=fields, filters=filters)


class _At:
    """Says where, in front of what an Invalid from inside says."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Invalid):
            place = f"{self._place}: {error.attr}" if error.attr else self._place
            raise Invalid(error.detail, attr=place, code=error.code) from None


def _check_names(value: Mapping[str, Any], known: Collection[str], place: str | None) -> None:
    for name in value:
        if name not in known:
            raise Invalid(
                f"{json.dumps(name)} means nothing here. Known are: {', '.join(known)}.",
                attr=place,
            )


def _check_no_reference(value: Any, place: str) -> None:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, FromEnv):
            raise Invalid("`!env` cannot be used in flags.", attr=place)
        if isinstance(node, dict):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid("Must be true or false.")
    return value


def _text(value: Any, most: int = NAME_MAX) -> str:
    if not isinstance(value, str):
        raise Invalid("Not text: put it in quotes.")
    check_storable(value, "")
    if len(value) > most:
        raise Invalid(f"Ensure this field has no more than {most} characters.")
    return value


def _labels(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Invalid("A list of texts is wanted here.")
    labels = dict.fromkeys(_text(each, LABEL_MAX) for each in value)
    if not all(label.strip() for label in labels):
        raise Invalid("This field may not be blank.")
    return tuple(labels)


def _choice(kind: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def checked(value: Any) -> StrEnum:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        raise Invalid(f"One of these is wanted: {', '.join(kind)}.")

    return checked


_FIELDS: Mapping[str, tuple[Any, Callable[[Any], Any]]] = {
    "name": ("", _text),
    "active": (True, _boolean),
    "archived": (False, _boolean),
    "tags": ((), _labels),
    "ensure_experience_continuity": (False, _boolean),
    "is_remote_configuration": (False, _boolean),
    "evaluation_runtime": (Runtime.ALL, _choice(Runtime)),
    "bucketing_identifier": (Bucketing.DISTINCT_ID, _choice(Bucketing)),
    "evaluation_contexts": ((), _labels),
}


def composed(seen: Definitions) -> Composed:
    names = _Names(seen, {flag.id: flag.key for flag in seen.flags})
    flags = sorted(seen.flags, key=lambda flag: flag.key)
    items: list[dict[str, Any]] = []
    for flag in flags:
        if not flag.has_encrypted_payloads:
            names.prefix = f"flags[{len(items)}] ({flag.key}): "
            items.append(_item(flag, names.outward))
    return Composed(
        document={"version": VERSION, "flags": items},
        left_out=[flag for flag in flags if flag.has_encrypted_payloads],
        nameless=names.nameless,
    )


def _item(flag: Flag, rewrite: Rewrite) -> dict[str, Any]:
    item: dict[str, Any] = {"key": flag.key}
    for name, (default, _) in _FIELDS.items():
        value = getattr(flag, name)
        if value != default:
            item[name] = list(value) if isinstance(value, tuple) else value
            if isinstance(value, StrEnum):
                item[name] = value.value
    return item | {"filters": _rewritten(flag.filters, rewrite)}


# Numbers and names.


def _rewritten(filters: Any, rewrite: Rewrite) -> Any:
    """The filters with every number or name of another thing rewritten."""
    if not isinstance(filters, Mapping):
        return filters
    result = _field_rewritten(filters, _INDEX, GROUP_TYPE, rewrite, "filters")
    for section in ("groups", "super_groups"):
        if isinstance(result.get(section), list):
            result[section] = [
                _group_rewritten(group, rewrite, f"filters.{section}[{number}]")
                for number, group in enumerate(result[section])
            ]
    return result


_INDEX = "aggregation_group_type_index"
_REFERRING = {
    "flag": ("key", FLAG),
    "cohort": ("value", COHORT),
    "group": ("group_type_index", GROUP_TYPE),
}


def _group_rewritten(group: Any, rewrite: Rewrite, place: str) -> Any:
    if not isinstance(group, Mapping):
        return group
    result = _field_rewritten(group, _INDEX, GROUP_TYPE, rewrite, place)
    if isinstance(result.get("properties"), list):
        result["properties"] = [
            _filter_rewritten(filter, rewrite, f"{place}.properties[{number}]")
            for number, filter in enumerate(result["properties"])
        ]
    return result


def _filter_rewritten(filter: Any, rewrite: Rewrite, place: str) -> Any:
    kind = filter.get("type") if isinstance(filter, Mapping) else None
    if not isinstance(kind, str) or kind not in _REFERRING:
        return filter
    return _field_rewritten(filter, *_REFERRING[kind], rewrite, place)


def _field_rewritten(
    holder: Mapping[str, Any], field: str, kind: str, rewrite: Rewrite, place: str
) -> dict[str, Any]:
    if holder.get(field) is None:
        return dict(holder)
    return {**holder, field: rewrite(kind, holder[field], f"{place}.{field}")}


class _Names:
    """What a document calls a project's flags, cohorts and group types."""

    def __init__(self, seen: Definitions, keys: Mapping[FlagId, str]) -> None:
        self.prefix = ""
        self.nameless: list[str] = []
        cohorts: dict[str, list[Any]] = defaultdict(list)
        for cohort in seen.cohorts:
            cohorts[cohort.name].append(cohort.id)
        self._ids: dict[str, Mapping[str, list[Any]]] = {
            FLAG: {key: [id] for id, key in keys.items()},
            COHORT: cohorts,
            GROUP_TYPE: {name: [index] for name, index in seen.group_types.items()},
        }
        self._names = {
            kind: {ids[0]: name for name, ids in known.items() if len(ids) == 1 and name}
            for kind, known in self._ids.items()
        }

    def outward(self, kind: str, value: Any, place: str) -> Any:
        """A name instead of a number; what has no name of its own stays a number."""
        id = value
        if isinstance(value, str) and value.isdecimal() and len(value) < 19:
            id = int(value)
        if not isinstance(id, int) or isinstance(id, bool):
            return value
        name = self._names[kind].get(id)
        if name is None:
            self.nameless.append(f"{self.prefix}{place}: {kind} {id}")
        return id if name is None else name

    def inward(self, kind: str, value: Any, place: str) -> Any:
        """A number instead of a name."""
        if isinstance(value, str):
            ids = self._ids[kind].get(value, [])
            if len(ids) != 1:
                raise Invalid(self._not_one(kind, value, len(ids)), attr=place)
            [value] = ids
        is_id = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if kind == FLAG and is_id else value

    def _not_one(self, kind: str, name: str, number: int) -> str:
        shown = json.dumps(name, ensure_ascii=False)
        if number:
            return f"{number} cohorts are called {shown} in this project: give the id of one."
        if kind == FLAG:
            return f"There is no flag {shown}, neither in the file nor in the project."
        known = ", ".join(map(json.dumps, list(self._ids[kind])[:20])) or "none"
        return f"There is no {kind} {shown} in this project. It has: {known}."


# From the flags there are to those that a document asks for.


class _Planner:
    def __init__(
        self, seen: Definitions, wanted: Sequence[Wanted], blank: Flag, *, prune: bool
    ) -> None:
        self._seen = seen
        self._wanted = wanted
        self._blank = blank
        keys = {each.key for each in wanted}
        others = sorted(seen.flags, key=lambda flag: flag.key)
        others = [flag for flag in others if flag.key not in keys]
        # A document cannot hold a secret, so it cannot leave one out.
        self._secret = [flag for flag in others if flag.has_encrypted_payloads]
        others = [flag for flag in others if not flag.has_encrypted_payloads]
        self._deleted, self._kept = (others, []) if prune else ([], others)
        self._present = {flag.key: flag for flag in seen.flags}
        self._ids = {
            each.key: self._present[each.key].id
            if each.key in self._present
            else FlagId(FIRST_PROVISIONAL + number)
            for number, each in enumerate(wanted)
        }
        ending = {id: key for key, id in self._ids.items()}
        ending |= {flag.id: flag.key for flag in (*self._kept, *self._secret)}
        self._inward = _Names(seen, ending).inward
        self._outward = _Names(seen, ending | {flag.id: flag.key for flag in seen.flags}).outward

    def plan(self) -> Plan:
        afters = {each.key: self._after(each) for each in self._wanted}
        ending = {flag.id: flag for flag in (*afters.values(), *self._kept, *self._secret)}
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
        )
        self._check_needs(plan, ending, checked)
        if plan.created and len(ending) > MAX_FLAGS:
            raise Invalid(f"A project may have {MAX_FLAGS} flags at most.", attr="flags")
        return plan

    def _dependencies_first(self, afters: Mapping[str, Flag]) -> list[Wanted]:
        waiting = {afters[each.key].id: each for each in self._wanted}
        needs = {id: _dependencies(afters[each.key]) for id, each in waiting.items()}
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
        with _At(wanted.place):
            if before is not None and before.has_encrypted_payloads:
                raise Invalid("Its payloads are encrypted, so no file can tell what it is to be.")
            if before is not None and jsonio.same(
                wanted.filters, _rewritten(before.filters, self._outward)
            ):
                filters = before.filters
            else:
                filters = _rewritten(wanted.filters, self._inward)
            flag = before or replace(self._blank, id=self._ids[wanted.key], key=wanted.key)
            flag = replace(flag, **wanted.fields, filters=filters)
            check_together(flag)
        return flag

    def _checked(self, wanted: Wanted, flag: Flag, ending: Mapping[FlagId, Flag]) -> Flag:
        with _At(wanted.place):
            _check_dependencies_active(flag, ending)
            return replace(flag, filters=checked_filters(flag.filters, self._around(flag, ending)))

    def _around(self, flag: Flag, flags: Mapping[FlagId, Flag]) -> Surroundings:
        return Surroundings(
            cohorts={cohort.id: cohort for cohort in self._seen.cohorts},
            flags={id: other for id, other in flags.items() if id != flag.id},
            own_id=flag.id,
        )

    def _step(self, after: Flag) -> Step:
        before = self._present.get(after.key)
        bare: dict[str, Any] = {"key": after.key, "filters": {"groups": []}}
        was = bare if before is None else _item(before, self._outward)
        changes = list(_differences(was, _item(after, self._outward), ""))
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
            checked_filters(flag.filters, self._around(flag, flags))
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

    _rewritten(flag.filters, check)


def _dependencies(flag: Flag) -> set[FlagId]:
    """As far as they can be read: the definition may be anything yet."""
    found: set[FlagId] = set()

    def note(kind: str, value: Any, place: str) -> Any:
        if kind == FLAG and isinstance(value, str) and value.isdecimal():
            found.add(FlagId(int(value)))
        return value

    _rewritten(flag.filters, note)
    return found


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
