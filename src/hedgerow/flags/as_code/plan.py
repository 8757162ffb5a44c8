"""Plan the changes from the stored flags to the flags of a document. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.values import MISSING
from hedgerow.flags.as_code.document import FlagSpec, build_item, fill_default, is_exportable
from hedgerow.flags.as_code.references import FLAG, ReferenceNames, rewrite_references
from hedgerow.flags.model import MAX_FLAGS, TOO_MANY_FLAGS, Flag, FlagDefinitions, FlagId
from hedgerow.flags.validate import (
    ValidationContext,
    check_filter_fields,
    check_not_reserved,
    check_setting_conflicts,
    referenced_flag_ids,
    validate_filters,
)
from hedgerow.lib import jsonio
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions
from hedgerow.persons.model import CohortId
from hedgerow.projects.document import ErrorLocation
from hedgerow.projects.model import ProjectId

# New flags have ids from here on until they are stored.
FIRST_PROVISIONAL_ID = 10**17


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFieldChange:
    """`field` is a path, such as filters.groups[0].variant; MISSING is what is not there."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagChange:
    """A flag to create or to change. `changes` use the names of the document."""

    before: Flag | None
    after: Flag
    changes: Sequence[FlagFieldChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagPlan:
    """The changes of one project, relative to the definitions in `base`. New flags come after
    their dependencies. `deletion_blockers` says why flags in `kept` cannot be deleted."""

    project_id: ProjectId
    base: FlagDefinitions
    created: Sequence[FlagChange]
    changed: Sequence[FlagChange]
    deleted: Sequence[Flag]
    kept: Sequence[Flag]
    deletion_blockers: Mapping[FlagId, str]

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.changed or self.deleted)


class FlagPlanner:
    def __init__(  # noqa: PLR0913 - what a plan depends on
        self,
        base: FlagDefinitions,
        specs: Sequence[FlagSpec],
        blank: Flag,
        *,
        prune: bool,
        deletion_blockers: Mapping[FlagId, str],
        keeps_secrets: bool = False,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """With `keeps_secrets`, a flag with encrypted payloads can be changed and keeps them.
        `pause` is called again and again, so that a long plan lets other work go on."""
        self._base = base
        self._keeps_secrets = keeps_secrets
        self._pause = pause
        self._cohorts = {cohort.id: cohort for cohort in base.cohorts}
        self._graph = CohortGraph(collect_definitions(base.cohorts))
        self._supported_cohorts: set[CohortId] = set()
        self._specs = specs
        self._blank = blank
        keys = {each.key for each in specs}
        others = sorted(base.flags, key=lambda flag: flag.key)
        others = [flag for flag in others if flag.key not in keys]
        # A flag that no document can contain is not deleted for its absence.
        self._unexportable = [flag for flag in others if not is_exportable(flag)]
        others = [flag for flag in others if is_exportable(flag)]
        self._kept = [flag for flag in others if flag.id in deletion_blockers] if prune else others
        self._deleted = (
            [flag for flag in others if flag.id not in deletion_blockers] if prune else []
        )
        self._deletion_blockers = (
            {flag.id: deletion_blockers[flag.id] for flag in self._kept} if prune else {}
        )
        self._present = {flag.key: flag for flag in base.flags}
        self._ids = {
            each.key: self._present[each.key].id
            if each.key in self._present
            else FlagId(FIRST_PROVISIONAL_ID + number)
            for number, each in enumerate(specs)
        }
        result = {id: key for key, id in self._ids.items()}
        result |= {flag.id: flag.key for flag in (*self._kept, *self._unexportable)}
        self._to_id = ReferenceNames(base, result).to_id
        self._to_name = ReferenceNames(
            base, result | {flag.id: flag.key for flag in base.flags}
        ).to_name

    def plan(self) -> FlagPlan:
        specified = {each.key: self._apply_spec(each) for each in self._specs}
        result = {flag.id: flag for flag in (*specified.values(), *self._kept, *self._unexportable)}
        checked: set[str] = set()
        ordered = self._dependencies_first(result)
        for each in ordered:
            self._pause()
            flag, before = specified[each.key], self._present.get(each.key)
            if before is None or flag.filters is not before.filters:
                result[flag.id] = self._validate(each, flag, result)
                checked.add(each.key)
        all_changes = [self._build_change(result[self._ids[each.key]]) for each in ordered]
        plan = FlagPlan(
            project_id=self._blank.project_id,
            base=self._base,
            created=[change for change in all_changes if change.before is None],
            changed=[
                change for change in all_changes if change.before is not None and change.changes
            ],
            deleted=self._deleted,
            kept=self._kept,
            deletion_blockers=self._deletion_blockers,
        )
        self._check_dependents(plan, result, checked)
        if plan.created and len(result) > MAX_FLAGS:
            raise Invalid(TOO_MANY_FLAGS, attr="flags")
        return plan

    def _dependencies_first(self, result: Mapping[FlagId, Flag]) -> list[FlagSpec]:
        """Raise Invalid if a flag of the document depends on itself."""
        needs = {id: referenced_flag_ids(flag.filters) for id, flag in result.items()}
        specs = {self._ids[each.key]: each for each in self._specs}
        try:
            ordered = list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            cycle = set(error.args[1])
            for id, each in specs.items():
                if id in cycle:
                    detail = "A flag cannot depend on itself, not even through others."
                    raise Invalid(detail, attr=each.place) from None
            # An older version stored it. The document has nothing to do with it.
            ordered = list(specs)
        return [specs[id] for id in ordered if id in specs]

    def _apply_spec(self, spec: FlagSpec) -> Flag:
        self._pause()
        before = self._present.get(spec.key)
        with ErrorLocation(spec.place):
            if before is None:
                check_not_reserved(spec.key)
            has_secrets = before is not None and before.has_encrypted_payloads
            if has_secrets and not self._keeps_secrets:
                raise Invalid("A flag with encrypted payloads cannot be changed by a document.")
            if before is not None and jsonio.is_equal(
                spec.filters, rewrite_references(before.filters, self._to_name)
            ):
                filters = before.filters
            else:
                check_filter_fields(spec.filters)
                filters = rewrite_references(spec.filters, self._to_id)
            flag = before or replace(self._blank, id=self._ids[spec.key], key=spec.key)
            flag = replace(flag, **spec.fields, filters=filters)
            check_setting_conflicts(flag)
        return flag

    def _validate(self, spec: FlagSpec, flag: Flag, result: Mapping[FlagId, Flag]) -> Flag:
        with ErrorLocation(spec.place):
            _check_dependencies_active(flag, result)
            is_new = flag.key not in self._present
            context = self._build_validation_context(result)
            filters, stored = flag.filters, {}
            if flag.has_encrypted_payloads:  # stored payloads have been validated before
                stored = {name: filters[name] for name in ("payloads",) if name in filters}
                filters = {name: part for name, part in filters.items() if name not in stored}
            filters = validate_filters(filters, context, is_new=is_new)
            return replace(flag, filters={**filters, **stored})

    def _build_validation_context(self, flags: Mapping[FlagId, Flag]) -> ValidationContext:
        # Cycles are found for all flags at once.
        return ValidationContext(
            cohorts=self._cohorts,
            flags=flags,
            own_id=None,
            supported_cohorts=self._supported_cohorts,
            known_graph=self._graph,
        )

    def _build_change(self, after: Flag) -> FlagChange:
        self._pause()
        before = self._present.get(after.key)
        bare: dict[str, Any] = {"key": after.key, "filters": {"groups": []}}
        was = bare if before is None else build_item(before, self._to_name)
        changes = list(find_differences(was, build_item(after, self._to_name), ""))
        return FlagChange(before=before, after=after, changes=changes)

    def _check_dependents(
        self, plan: FlagPlan, result: Mapping[FlagId, Flag], checked: Collection[str]
    ) -> None:
        """Check that active flags with unchanged filters still have valid dependencies."""
        touched = {flag.id for flag in plan.deleted} | {change.after.id for change in plan.changed}
        present = {flag.id: flag for flag in self._base.flags}
        places = {each.key: each.place for each in self._specs}
        for flag in result.values():
            needed = referenced_flag_ids(flag.filters) & touched if flag.active else set()
            if not needed or flag.key in checked or self._is_valid(flag, result):
                continue
            if self._is_valid(flag, present):
                keys = ", ".join(sorted(present[id].key for id in needed))
                raise Invalid(
                    f"It depends on {keys}, which must stay active and keep its variants.",
                    attr=places.get(flag.key, f"{flag.key}, which is not in the file"),
                )

    def _is_valid(self, flag: Flag, flags: Mapping[FlagId, Flag]) -> bool:
        try:
            validate_filters(flag.filters, self._build_validation_context(flags), is_new=False)
        except Invalid:
            return False
        return True


def _check_dependencies_active(flag: Flag, flags: Mapping[FlagId, Flag]) -> None:
    """Report inactive dependencies by key; the general validation reports ids."""

    def check(kind: str, value: Any, place: str) -> Any:
        if kind == FLAG and isinstance(value, str) and value.isdecimal():
            needed = flags.get(FlagId(int(value)))
            if needed is not None and not needed.active:
                raise Invalid(f"The flag {needed.key} is not active.", attr=place)
        return value

    rewrite_references(flag.filters, check)


def find_differences(before: Any, after: Any, path: str = "") -> Iterator[FlagFieldChange]:
    """Yield the innermost values that differ. Lists of plain values are compared as a whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*after, *before)):
            inner = f"{path}.{key}" if path else key
            yield from find_differences(before.get(key, MISSING), after.get(key, MISSING), inner)
    elif _is_list_of_objects(before) and _is_list_of_objects(after):
        for number, (one, other) in enumerate(zip_longest(before, after, fillvalue=MISSING)):
            yield from find_differences(one, other, f"{path}[{number}]")
    elif not jsonio.is_equal(before, after):
        yield FlagFieldChange(field=path, before=before, after=after)


def fill_defaults(changes: Iterable[FlagFieldChange]) -> list[FlagFieldChange]:
    """Return changes of an existing flag with the defaults that documents leave out."""
    return [
        replace(
            each,
            before=fill_default(each.field, each.before),
            after=fill_default(each.field, each.after),
        )
        for each in changes
    ]


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)
