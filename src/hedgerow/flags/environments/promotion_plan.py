"""Plan the promotion of flags from one environment to another. Pure.

A promoted flag is the flag of the source as a document, applied to the target: references go by key
and name. Encrypted payloads stay in their environment.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.as_code.document import FlagSpec, build_item, is_exportable, parse_flag
from hedgerow.flags.as_code.plan import FIRST_PROVISIONAL_ID, FlagPlan, FlagPlanner, fill_defaults
from hedgerow.flags.as_code.references import (
    COHORT,
    FLAG,
    GROUP_TYPE,
    ReferenceNames,
    rewrite_references,
)
from hedgerow.flags.environments.parts import PARTS, merge_parts
from hedgerow.flags.model import SURVEY_PREFIX, Flag, FlagDefinitions
from hedgerow.persons.cohort_graph import COHORT_TYPES
from hedgerow.persons.cohorts import CohortFields, build_new_cohort
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.activity import Actor
from hedgerow.projects.document import ErrorLocation

Pause = Callable[[], None]
# Each new cohort is checked against all others.
MAX_CARRIED_COHORTS = 100
_SECRET_PARTS = ("payloads", "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagVersions:
    """The versions of a flag in the source and in the target; None for a flag that is not there."""

    source: int
    target: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    """What to promote. `keys` of None stands for all flags. With `with_cohorts`, cohorts that the
    target lacks are created there. `versions` are those that the caller has seen."""

    keys: Sequence[str] | None
    parts: Collection[str] = PARTS
    with_cohorts: bool = False
    versions: Mapping[str, FlagVersions] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFlags:
    """The name of an environment, for messages, and its definitions."""

    name: str
    definitions: FlagDefinitions


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionPlan:
    """`cohorts` are new and have provisional ids. `left_out` has the reasons why some of all flags
    are not promoted."""

    flags: FlagPlan
    cohorts: Sequence[Cohort]
    versions: Mapping[str, FlagVersions]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObjects:
    """What the author and the time of new flags and cohorts are."""

    blank: Flag
    actor: Actor
    now: datetime


def plan_promotion(
    source: EnvironmentFlags,
    target: EnvironmentFlags,
    request: PromotionRequest,
    new: NewObjects,
    pause: Pause = lambda: None,
) -> PromotionPlan:
    """Raise Invalid for a flag that cannot be promoted, Conflict if one has another version than
    the caller has seen."""
    return _Planner(source, target, request, new, pause).plan()


class _Planner:
    def __init__(
        self,
        source: EnvironmentFlags,
        target: EnvironmentFlags,
        request: PromotionRequest,
        new: NewObjects,
        pause: Pause,
    ) -> None:
        self._source, self._target = source, target
        self._request = request
        self._new = new
        self._pause = pause
        self._present = {flag.key: flag for flag in target.definitions.flags}
        self._source_names = _name_references(source.definitions)
        self._target_names = _name_references(target.definitions)
        self._cohorts = _CohortCarrier(source, target, new)
        self._left_out: dict[str, str] = {}

    def plan(self) -> PromotionPlan:
        chosen = self._choose()
        versions = {flag.key: self._get_versions(flag) for flag in chosen}
        self._check_versions(versions)
        self._keys = {*self._present, *versions}
        specs = [self._build_spec(flag) for flag in chosen]
        base = self._target.definitions
        base = replace(base, cohorts=[*base.cohorts, *self._cohorts.carried])
        planner = FlagPlanner(
            base,
            specs,
            self._new.blank,
            prune=False,
            deletion_blockers={},
            keeps_secrets=True,
            pause=self._pause,
        )
        planned = planner.plan()
        changed = [replace(step, changes=fill_defaults(step.changes)) for step in planned.changed]
        return PromotionPlan(
            flags=replace(planned, changed=changed),
            cohorts=self._cohorts.carried,
            versions=versions,
            left_out=self._left_out,
        )

    def _choose(self) -> list[Flag]:
        found = {
            flag.key: flag
            for flag in self._source.definitions.flags
            if not flag.key.startswith(SURVEY_PREFIX)
        }
        if self._request.keys is not None:
            for key in self._request.keys:
                if key not in found:
                    detail = f"There is no such flag in {self._source.name}."
                    raise Invalid(detail, attr=key, code="does_not_exist")
            return [found[key] for key in dict.fromkeys(self._request.keys)]
        chosen = []
        for key in sorted(found):
            if reason := self._find_secret_problem(found[key]):
                self._left_out[key] = reason
            else:
                chosen.append(found[key])
        return chosen

    def _get_versions(self, flag: Flag) -> FlagVersions:
        present = self._present.get(flag.key)
        return FlagVersions(
            source=flag.version, target=None if present is None else present.version
        )

    def _check_versions(self, versions: Mapping[str, FlagVersions]) -> None:
        seen = self._request.versions
        if seen is None:
            return
        moved = [key for key in versions if seen.get(key) != versions[key]]
        moved += [key for key in seen if key not in versions]
        if moved:
            raise Conflict(
                f"These flags have changed since you looked: {', '.join(sorted(moved)[:20])}. "
                "Compare them again, and send the new versions."
            )

    def _build_spec(self, flag: Flag) -> FlagSpec:
        self._pause()
        with ErrorLocation(flag.key):
            if reason := self._find_secret_problem(flag):
                raise Invalid(reason, code="not_supported")
            item = build_item(flag, self._source_names.to_name)
            self._source_names.unnamed.clear()
            present, parts = self._present.get(flag.key), self._request.parts
            if present is None or "conditions" in parts:
                self._check_references(item["filters"])
            if present is not None:
                own = build_item(present, self._target_names.to_name)
                has_secrets = present.has_encrypted_payloads
                kept = [part for part in parts if not (has_secrets and part == "payloads")]
                item = merge_parts(own, item, kept)
            elif "active" not in parts:
                item = {**item, "active": False}
        return parse_flag(item, flag.key, flag.key)

    def _find_secret_problem(self, flag: Flag) -> str:
        """Say why a flag with encrypted payloads cannot be promoted, "" if it can."""
        present = self._present.get(flag.key)
        if present is None:
            if is_exportable(flag):
                return ""
            return (
                "Its payloads are encrypted and stay in their environment. Create the flag in "
                f"{self._target.name} with a payload of its own first."
            )
        if present.has_encrypted_payloads == flag.has_encrypted_payloads:
            return ""
        if not any(part in self._request.parts for part in _SECRET_PARTS):
            return ""
        named = self._source.name if flag.has_encrypted_payloads else self._target.name
        return (
            f"Its payloads are encrypted only in {named}. Promote it without "
            f"the parts {' and '.join(_SECRET_PARTS)}."
        )

    def _check_references(self, filters: Any) -> None:
        def check(kind: str, value: Any, place: str) -> Any:
            with ErrorLocation(place):
                if not isinstance(value, str):
                    raise Invalid(
                        f"The {kind} {value} has no unique name in {self._source.name}. Rename it."
                    )
                self._check_reference(kind, value)
            return value

        rewrite_references(filters, check)

    def _check_reference(self, kind: str, name: str) -> None:
        shown, target = json.dumps(name, ensure_ascii=False), self._target.name
        if kind == FLAG and name not in self._keys:
            raise Invalid(
                f"It depends on the flag {shown}, which is missing in {target}: promote it too, or "
                "create it there."
            )
        if kind == GROUP_TYPE and name not in self._target.definitions.group_types:
            raise Invalid(
                f"The group type {shown} is missing in {target}. The first event with such a "
                "group creates it."
            )
        if kind == COHORT and not self._cohorts.is_present(name):
            if not self._request.with_cohorts:
                raise Invalid(
                    f"The cohort {shown} is missing in {target}. Create it there, or send "
                    "`with_cohorts`.",
                    code="cohort_does_not_exist",
                )
            self._cohorts.carry(name)


class _CohortCarrier:
    """Collects the cohorts to create in the target, each after those that it refers to."""

    def __init__(self, source: EnvironmentFlags, target: EnvironmentFlags, new: NewObjects) -> None:
        self.carried: list[Cohort] = []
        self._source, self._target = source, target
        self._new = new
        self._sources = {cohort.id: cohort for cohort in source.definitions.cohorts}
        self._by_name = {cohort.name: cohort for cohort in source.definitions.cohorts}
        self._others = {cohort.id: cohort for cohort in target.definitions.cohorts}
        self._ids = {cohort.name: cohort.id for cohort in target.definitions.cohorts}
        self._open: set[str] = set()

    def is_present(self, name: str) -> bool:
        return name in self._ids

    def carry(self, name: str) -> None:
        """Add a cohort of the source. Raises Invalid if the target cannot have it."""
        cohort = self._by_name[name]
        if name in self._open:
            raise Invalid("A cohort cannot contain itself, not even through others.")
        if len(self.carried) + len(self._open) >= MAX_CARRIED_COHORTS:
            raise Invalid(
                f"At most {MAX_CARRIED_COHORTS} cohorts can be created with one request. Promote "
                "fewer flags at a time."
            )
        self._open.add(name)
        definition = rewrite_cohort_ids(cohort.definition, self._translate)
        self._open.discard(name)
        fields = CohortFields(
            name=cohort.name,
            description=cohort.description,
            is_static=cohort.is_static,
            definition=None if cohort.is_static else definition or None,
        )
        project_id = self._new.blank.project_id
        with ErrorLocation(f"cohort {json.dumps(name, ensure_ascii=False)}"):
            made = build_new_cohort(
                project_id, fields, self._others, self._new.actor, self._new.now
            )
        id = CohortId(FIRST_PROVISIONAL_ID + len(self.carried))
        made = replace(made, id=id)
        self.carried.append(made)
        self._others[id] = made
        self._ids[name] = id

    def _translate(self, id: Any) -> Any:
        inner = self._sources.get(CohortId(id)) if isinstance(id, int) else None
        if inner is None:
            raise Invalid(
                f"It refers to the cohort {id}, which is missing in {self._source.name}.",
                code="cohort_does_not_exist",
            )
        if inner.name not in self._ids:
            self.carry(inner.name)
        return self._ids[inner.name]


def rewrite_cohort_ids(definition: Any, rewrite: Callable[[Any], Any]) -> Any:
    """Return the definition of a cohort with the ids of other cohorts rewritten."""
    if not isinstance(definition, Mapping):
        return definition
    if isinstance(definition.get("values"), list):
        inner = [rewrite_cohort_ids(each, rewrite) for each in definition["values"]]
        return {**definition, "values": inner}
    if definition.get("type") in COHORT_TYPES:
        return {**definition, "value": rewrite(definition.get("value"))}
    return dict(definition)


def _name_references(definitions: FlagDefinitions) -> ReferenceNames:
    return ReferenceNames(definitions, {flag.id: flag.key for flag in definitions.flags})
