"""What the cohorts, flags, early access features, surveys and experiments of a PostHog project
become here. Pure.

Everything is held against our own rules with the source's numbers in it, so that a plan can say
what would be refused, and why, before anything is sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.early_access import Stage, check_address, with_choices
from hedgerow.flags.model import Bucketing, Flag, FlagId, Runtime
from hedgerow.flags.rules import (
    Surroundings,
    check_key,
    check_together,
    checked_filters,
    condition_sets,
    needed_cohorts,
    needed_ids,
    variant_keys,
)
from hedgerow.importers.model import Kind, Reading, Told, Wanted
from hedgerow.importers.order import in_order
from hedgerow.importers.posthog_experiments import wanted_experiment
from hedgerow.importers.posthog_surveys import own_flags, wanted_survey
from hedgerow.importers.shapes import Item, number, part, parts
from hedgerow.persons.cohorts import asked_cohorts, checked_definition
from hedgerow.persons.model import MAX_GROUP_TYPES, Cohort, CohortId
from hedgerow.projects.model import ProjectId

NOWHERE = ProjectId(0)
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
# What PostHog keeps beside a filter for its own use.
_INTERNAL = ("bytecode", "bytecode_error", "conditionHash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The answers of a project's API, item by item."""

    group_types: Sequence[Item] = ()
    cohorts: Sequence[Item] = ()
    flags: Sequence[Item] = ()
    features: Sequence[Item] = ()
    surveys: Sequence[Item] = ()
    experiments: Sequence[Item] = ()


def understood(source: Definitions) -> Reading:
    reader = _Reader(source)
    wanted = [
        *reader.cohorts(),
        *reader.flags(),
        *reader.features(),
        *reader.surveys(),
        *reader.experiments(),
    ]
    return Reading(
        wanted=wanted,
        lost=reader.lost,
        notes=reader.notes,
        group_types={
            each["group_type_index"]: str(each["group_type"])
            for each in source.group_types
            if each.get("group_type_index") in range(MAX_GROUP_TYPES) and each.get("group_type")
        },
    )


class _Reader:
    def __init__(self, source: Definitions) -> None:
        self._source = source
        self._cohorts: dict[CohortId, Cohort] = {}
        self._flags: dict[FlagId, Flag] = {}
        # The flags of features, and whether they follow what people choose.
        self._enrolling = {
            number(part(each, "feature_flag").get("id")): _stage(each) in _CHOOSING
            for each in source.features
        }
        self.lost: list[Told] = []
        self.notes: list[Told] = []

    def cohorts(self) -> list[Wanted]:
        items = self._cohort_items()
        definitions = {id: _definition(each) for id, each in items.items()}
        order, circular = in_order({id: asked_cohorts(definitions[id]) for id in items})
        for id in circular:
            self._lose(Kind.COHORT, _name(items[id]), "It asks for itself, through others.")
        found = []
        for id in order:
            item, name = items[id], _name(items[id])
            cohort = _cohort(id, item, definitions[id])
            if not cohort.is_static:
                needed = asked_cohorts(cohort.definition)
                reason = self._lacking(needed, items, self._cohorts) or _why_refused(
                    partial(checked_definition, cohort.definition, cohort.id, self._cohorts)
                )
                if reason:
                    self._lose(Kind.COHORT, name, reason)
                    continue
            self._cohorts[id] = cohort
            found.append(_wanted_cohort(id, name, cohort))
        return found

    def flags(self) -> list[Wanted]:
        of_surveys = own_flags(self._source.surveys)
        items = {
            FlagId(id): each
            for each in self._source.flags
            if _is_there(each)
            and ((id := number(each.get("id"))) not in of_surveys or not _is_made_up(each))
        }
        needs = {id: needed_ids(part(each, "filters")) for id, each in items.items()}
        order, circular = in_order(needs)
        for id in circular:
            self._lose(Kind.FLAG, _key(items[id]), "It depends on itself, through others.")
        found = []
        for id in order:
            item, key = items[id], _key(items[id])
            flag = _flag(id, item)
            if id in self._enrolling:
                flag = replace(flag, filters=with_choices(flag, self._enrolling[id]))
            reason = self._why_not(flag, items, needs[id])
            if reason:
                self._lose(Kind.FLAG, key, reason)
                continue
            around = Surroundings(cohorts=self._cohorts, flags=self._flags, own_id=None)
            flag = replace(flag, filters=checked_filters(flag.filters, around, is_new=True))
            self._flags[id] = flag
            self._note(flag)
            found.append(_wanted_flag(flag))
        return found

    def features(self) -> list[Wanted]:
        found = []
        for item in self._source.features:
            name = _name(item)
            flag_id = FlagId(number(part(item, "feature_flag").get("id")))
            flag = self._flags.get(flag_id)
            if flag is None:
                self._lose(Kind.FEATURE, name, "Its flag is not copied.")
            elif reason := _why_no_feature(flag):
                self._lose(Kind.FEATURE, name, reason)
            elif _stage(item) is None:
                self._lose(Kind.FEATURE, name, f"There is no stage {item.get('stage')!r} here.")
            else:
                try:
                    found.append(_wanted_feature(item, name, flag_id))
                except Invalid as error:
                    self._lose(Kind.FEATURE, name, f"{error.attr}: {error.detail}")
        return found

    def surveys(self) -> list[Wanted]:
        around = Surroundings(cohorts=self._cohorts, flags=self._flags, own_id=None)
        found = []
        for item in self._source.surveys:
            try:
                note = partial(self._tell, Kind.SURVEY, _name(item))
                found.append(wanted_survey(item, _name(item), around, note))
            except Invalid as error:
                self._lose(Kind.SURVEY, _name(item), _said(error))
        return found

    def experiments(self) -> list[Wanted]:
        flags = {flag.key: flag for flag in self._flags.values()}
        found = []
        for item in self._source.experiments:
            name = _name(item)
            if item.get("deleted"):
                continue
            try:
                note = partial(self._tell, Kind.EXPERIMENT, name)
                found.append(wanted_experiment(item, name, flags, note))
            except Invalid as error:
                self._lose(Kind.EXPERIMENT, name, _said(error))
        return found

    def _why_not(self, flag: Flag, items: Mapping[FlagId, Item], needs: set[FlagId]) -> str:
        if flag.has_encrypted_payloads:
            return "Its payload is encrypted, and the source tells it to nobody: make it by hand."
        around = Surroundings(cohorts=self._cohorts, flags=self._flags, own_id=None)
        return (
            self._lacking(needed_cohorts(flag.filters), self._cohort_items(), self._cohorts)
            or self._lacking(needs, items, self._flags)
            or _why_refused(lambda: check_key(flag.key, self._flags))
            or _why_refused(lambda: checked_filters(flag.filters, around, is_new=True))
            or _why_refused(lambda: check_together(flag))
        )

    def _cohort_items(self) -> dict[CohortId, Item]:
        cohorts = self._source.cohorts
        return {CohortId(number(each.get("id"))): each for each in cohorts if _is_there(each)}

    def _lacking(
        self, needed: set[Any], items: Mapping[Any, Item], copied: Mapping[Any, Any]
    ) -> str:
        """Why something cannot be copied whose needs are not; "" if all of them are."""
        for id in sorted(needed - copied.keys()):
            if id in items:
                name = items[id].get("key") or _name(items[id])
                return f"It asks for {name!r}, which is not copied."
        return ""

    def _note(self, flag: Flag) -> None:
        if flag.is_remote_configuration:
            self._tell(Kind.FLAG, flag.key, "A remote configuration: copied as one.")
        if flag.ensure_experience_continuity:
            text = (
                "It persists across authentication. Whose answer was kept from before they logged "
                "in is not told by the source: they are counted by their id."
            )
            self._tell(Kind.FLAG, flag.key, text)

    def _tell(self, kind: Kind, name: str, text: str) -> None:
        self.notes.append(Told(kind=kind, name=name, text=text))

    def _lose(self, kind: Kind, name: str, reason: str) -> None:
        self.lost.append(Told(kind=kind, name=name, text=reason))


_CHOOSING = frozenset(stage for stage in Stage if stage.takes_choices)


def _why_refused(check: Callable[[], Any]) -> str:
    """What our rules say against it; "" if nothing."""
    try:
        check()
    except Invalid as error:
        return _said(error)
    return ""


def _said(error: Invalid) -> str:
    return f"{error.attr}: {error.detail}" if error.attr else error.detail


def _why_no_feature(flag: Flag) -> str:
    if variant_keys(flag.filters):
        return "Its flag has variants, which features here cannot have."
    parts = (flag.filters, *condition_sets(flag.filters))
    if any(part.get("aggregation_group_type_index") is not None for part in parts):
        return "Its flag counts by groups, which features here cannot."
    return ""


def _is_made_up(flag: Item) -> bool:
    """Whether its key may be of a survey's making; somebody's own may begin so, too."""
    return _key(flag).startswith("survey-")


def _is_there(item: Item) -> bool:
    return not item.get("deleted") and bool(number(item.get("id")))


def _name(item: Item) -> str:
    return str(item.get("name") or "").strip() or f"(nameless, {item.get('id')})"


def _key(item: Item) -> str:
    return str(item.get("key") or "")


def _stage(item: Item) -> Stage | None:
    said = item.get("stage")
    return Stage(said) if said in list(Stage) else None


# Cohorts


def _definition(item: Item) -> dict[str, Any]:
    """The question that a cohort asks, in today's form."""
    if properties := part(part(item, "filters"), "properties"):
        return dict(_cleaned(properties))
    # The oldest form: any of some lists, all of each.
    values = [_older(group) for group in parts(item, "groups")]
    return {"type": "OR", "values": values} if values else {}


def _older(group: Mapping[str, Any]) -> dict[str, Any]:
    properties = group.get("properties")
    if isinstance(properties, Mapping) and "values" in properties:
        return dict(_cleaned(properties))
    if isinstance(properties, list):
        return {"type": "AND", "values": [_cleaned(each) for each in properties]}
    return {"type": "behavioral", **group}


def _cleaned(node: Any) -> Any:
    """A group or filter without what PostHog keeps beside it; numbers of cohorts as numbers."""
    if not isinstance(node, Mapping):
        return node
    kept = {name: value for name, value in node.items() if name not in _INTERNAL}
    if isinstance(kept.get("values"), list):
        kept["values"] = [_cleaned(each) for each in kept["values"]]
    if kept.get("type") == "cohort" and number(kept.get("value")):
        kept["value"] = number(kept["value"])
    return kept


def _cohort(id: CohortId, item: Item, definition: dict[str, Any]) -> Cohort:
    is_static = bool(item.get("is_static"))
    return Cohort(
        id=id,
        project_id=NOWHERE,
        name=_name(item),
        description=str(item.get("description") or ""),
        is_static=is_static,
        definition={} if is_static else definition,
        deleted=False,
        created_by="",
        created_at=NEVER,
        updated_at=NEVER,
    )


def _wanted_cohort(id: CohortId, name: str, cohort: Cohort) -> Wanted:
    body: dict[str, Any] = {
        "name": cohort.name,
        "description": cohort.description,
        "is_static": cohort.is_static,
    }
    if not cohort.is_static:
        body["filters"] = {"properties": cohort.definition}
    return Wanted(kind=Kind.COHORT, source_id=id, name=name, body=body)


# Flags


def _flag(id: FlagId, item: Item) -> Flag:
    contexts = item.get("evaluation_contexts") or item.get("evaluation_tags")
    return Flag(
        id=id,
        project_id=NOWHERE,
        key=_key(item),
        name=str(item.get("name") or ""),
        filters=_cleaned_filters(part(item, "filters")),
        active=bool(item.get("active", True)),
        deleted=False,
        archived=bool(item.get("archived")),
        version=1,
        ensure_experience_continuity=bool(item.get("ensure_experience_continuity")),
        is_remote_configuration=bool(item.get("is_remote_configuration")),
        has_encrypted_payloads=bool(item.get("has_encrypted_payloads")),
        evaluation_runtime=_choice(Runtime, item.get("evaluation_runtime"), Runtime.ALL),
        bucketing_identifier=_choice(
            Bucketing, item.get("bucketing_identifier"), Bucketing.DISTINCT_ID
        ),
        evaluation_contexts=_labels(contexts),
        tags=_labels(item.get("tags")),
        created_by="",
        last_modified_by="",
        created_at=NEVER,
        updated_at=NEVER,
        last_called_at=None,
    )


def _choice(kind: Any, said: Any, default: Any) -> Any:
    return kind(said) if said in list(kind) else default


def _labels(said: Any) -> tuple[str, ...]:
    texts = said if isinstance(said, list) else []
    return tuple(dict.fromkeys(each for each in texts if isinstance(each, str) and each.strip()))


def _cleaned_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(filters)
    for section in ("groups", "super_groups"):
        if isinstance(kept.get(section), list):
            kept[section] = [_cleaned_group(group) for group in kept[section]]
    return kept


def _cleaned_group(group: Any) -> Any:
    if not isinstance(group, Mapping) or not isinstance(group.get("properties"), list):
        return group
    return {**group, "properties": [_cleaned(each) for each in group["properties"]]}


def _wanted_flag(flag: Flag) -> Wanted:
    body: dict[str, Any] = {
        "key": flag.key,
        "name": flag.name,
        "filters": flag.filters,
        "active": flag.active,
        "archived": flag.archived,
        "ensure_experience_continuity": flag.ensure_experience_continuity,
        "is_remote_configuration": flag.is_remote_configuration,
        "evaluation_runtime": flag.evaluation_runtime.value,
        "bucketing_identifier": flag.bucketing_identifier.value,
        "evaluation_contexts": list(flag.evaluation_contexts),
        "tags": list(flag.tags),
    }
    return Wanted(kind=Kind.FLAG, source_id=flag.id, name=flag.key, body=body)


# Early access features


def _wanted_feature(item: Item, name: str, flag_id: FlagId) -> Wanted:
    """Or Invalid, by our rules."""
    check_address(str(item.get("documentation_url") or ""))
    body = {
        "name": name,
        "description": str(item.get("description") or ""),
        "stage": str(item.get("stage")),
        "documentation_url": str(item.get("documentation_url") or ""),
        "payload": dict(part(item, "payload")),
        "feature_flag_id": flag_id,
    }
    return Wanted(kind=Kind.FEATURE, source_id=str(item.get("id")), name=name, body=body)
