"""Convert the cohorts, flags, early access features, surveys and experiments of a PostHog project.

Pure. Every item is validated by our rules while it still has the source's ids, so that a plan can
name what would be rejected, and why, before anything is sent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.early_access import FeatureStage, check_documentation_url, set_enrollment
from hedgerow.flags.known_fields import (
    FLAG_FILTERS,
    POSTHOG_FEATURE_FIELDS,
    POSTHOG_FLAG_FIELDS,
)
from hedgerow.flags.model import Bucketing, Flag, FlagId, Runtime
from hedgerow.flags.validate import (
    ValidationContext,
    check_filter_fields,
    check_key,
    check_setting_conflicts,
    condition_sets,
    referenced_cohort_ids,
    referenced_flag_ids,
    validate_filters,
    variant_keys,
)
from hedgerow.importers.documents import Item, get_object, get_objects, parse_id, sort_by_dependency
from hedgerow.importers.model import ConversionResult, ImportItem, ImportNote, ResourceKind
from hedgerow.importers.posthog_experiments import convert_experiment
from hedgerow.importers.posthog_surveys import convert_survey, list_survey_flags
from hedgerow.importers.unknown_fields import note_unknown_names, strip_unknown_fields
from hedgerow.persons.behaviors.filters import iterate_behavioral_filters
from hedgerow.persons.cohorts import referenced_cohorts, validate_definition
from hedgerow.persons.known_fields import COHORT_NODE, POSTHOG_COHORT_FIELDS
from hedgerow.persons.model import MAX_GROUP_TYPES, Cohort, CohortId
from hedgerow.projects.model import ProjectId

NO_PROJECT = ProjectId(0)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Fields of a filter that only PostHog uses.
_INTERNAL_FIELDS = ("bytecode", "bytecode_error", "conditionHash")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostHogDefinitions:
    """The items that the API of a PostHog project returns."""

    group_types: Sequence[Item] = ()
    cohorts: Sequence[Item] = ()
    flags: Sequence[Item] = ()
    features: Sequence[Item] = ()
    surveys: Sequence[Item] = ()
    experiments: Sequence[Item] = ()


def convert_posthog(source: PostHogDefinitions) -> ConversionResult:
    converter = _Converter(source)
    items = [
        *converter.convert_cohorts(),
        *converter.convert_flags(),
        *converter.convert_features(),
        *converter.convert_surveys(),
        *converter.convert_experiments(),
    ]
    return ConversionResult(
        items=items,
        skipped=converter.skipped,
        notes=converter.notes,
        group_types={
            each["group_type_index"]: str(each["group_type"])
            for each in source.group_types
            if each.get("group_type_index") in range(MAX_GROUP_TYPES) and each.get("group_type")
        },
    )


class _Converter:
    def __init__(self, source: PostHogDefinitions) -> None:
        self._source = source
        self._cohorts: dict[CohortId, Cohort] = {}
        self._flags: dict[FlagId, Flag] = {}
        # Flags of early access features, and whether enrollment decides them.
        self._enrollment_flags = {
            parse_id(get_object(each, "feature_flag").get("id")): _read_stage(each)
            in _ENROLLMENT_STAGES
            for each in source.features
        }
        self.skipped: list[ImportNote] = []
        self.notes: list[ImportNote] = []

    def convert_cohorts(self) -> list[ImportItem]:
        items = self._cohort_items()
        definitions = {id: _read_definition(each) for id, each in items.items()}
        order, cyclic = sort_by_dependency(
            {id: referenced_cohorts(definitions[id]) for id in items}
        )
        for id in cyclic:
            self._skip(
                ResourceKind.COHORT,
                _read_name(items[id]),
                "It refers to itself through other cohorts.",
            )
        converted = []
        for id in order:
            item, name = items[id], _read_name(items[id])
            notes: list[str] = []
            definition = strip_unknown_fields(
                definitions[id], COHORT_NODE, "filters.properties", notes.append
            )
            cohort = _build_cohort(id, item, definition)
            if not cohort.is_static:
                needed = referenced_cohorts(cohort.definition)
                reason = (
                    self._explain_missing(needed, items, self._cohorts)
                    or _explain_actions(cohort.definition)
                    or _explain_invalid(
                        partial(validate_definition, cohort.definition, cohort.id, self._cohorts)
                    )
                )
                if reason:
                    self._skip(ResourceKind.COHORT, name, reason)
                    continue
            self._cohorts[id] = cohort
            converted.append(_build_cohort_item(id, name, cohort))
            if get_object(item, "filters").get("filterTestAccounts"):
                notes.append("It includes test accounts: they are not marked here.")
            note_unknown_names(item, _COHORT_FIELDS, notes.append)
            self._add_notes(ResourceKind.COHORT, name, notes)
        return converted

    def convert_flags(self) -> list[ImportItem]:
        survey_flags = list_survey_flags(self._source.surveys)
        items = {
            FlagId(id): each
            for each in self._source.flags
            if _exists(each)
            and (
                (id := parse_id(each.get("id"))) not in survey_flags or not _may_be_generated(each)
            )
        }
        needs = {id: referenced_flag_ids(get_object(each, "filters")) for id, each in items.items()}
        order, cyclic = sort_by_dependency(needs)
        for id in cyclic:
            self._skip(
                ResourceKind.FLAG, _read_key(items[id]), "It depends on itself through other flags."
            )
        converted = []
        for id in order:
            item, key = items[id], _read_key(items[id])
            notes: list[str] = []
            flag = _build_flag(id, item, notes.append)
            if id in self._enrollment_flags:
                flag = replace(flag, filters=set_enrollment(flag, self._enrollment_flags[id]))
            reason = self._explain_skip(flag, items, needs[id])
            if reason:
                self._skip(ResourceKind.FLAG, key, reason)
                continue
            context = ValidationContext(cohorts=self._cohorts, flags=self._flags, own_id=None)
            flag = replace(flag, filters=validate_filters(flag.filters, context, is_new=True))
            self._flags[id] = flag
            self._add_flag_notes(flag)
            note_unknown_names(item, _FLAG_FIELDS, notes.append)
            self._add_notes(ResourceKind.FLAG, key, notes)
            converted.append(_build_flag_item(flag))
        return converted

    def convert_features(self) -> list[ImportItem]:
        converted = []
        for item in self._source.features:
            name = _read_name(item)
            flag_id = FlagId(parse_id(get_object(item, "feature_flag").get("id")))
            flag = self._flags.get(flag_id)
            if flag is None:
                self._skip(ResourceKind.FEATURE, name, "Its flag is not imported.")
            elif reason := _explain_unsupported_feature(flag):
                self._skip(ResourceKind.FEATURE, name, reason)
            elif _read_stage(item) is None:
                self._skip(
                    ResourceKind.FEATURE,
                    name,
                    f"The stage {item.get('stage')!r} has no equivalent here.",
                )
            else:
                try:
                    converted.append(_build_feature_item(item, name, flag_id))
                    note = partial(self._add_note, ResourceKind.FEATURE, name)
                    note_unknown_names(item, _FEATURE_FIELDS, note)
                except Invalid as error:
                    self._skip(ResourceKind.FEATURE, name, f"{error.attr}: {error.detail}")
        return converted

    def convert_surveys(self) -> list[ImportItem]:
        context = ValidationContext(cohorts=self._cohorts, flags=self._flags, own_id=None)
        converted = []
        for item in self._source.surveys:
            try:
                note = partial(self._add_note, ResourceKind.SURVEY, _read_name(item))
                converted.append(convert_survey(item, _read_name(item), context, note))
            except Invalid as error:
                self._skip(ResourceKind.SURVEY, _read_name(item), _format_invalid(error))
        return converted

    def convert_experiments(self) -> list[ImportItem]:
        flags = {flag.key: flag for flag in self._flags.values()}
        converted = []
        for item in self._source.experiments:
            name = _read_name(item)
            if item.get("deleted"):
                continue
            try:
                note = partial(self._add_note, ResourceKind.EXPERIMENT, name)
                converted.append(convert_experiment(item, name, flags, note))
            except Invalid as error:
                self._skip(ResourceKind.EXPERIMENT, name, _format_invalid(error))
        return converted

    def _explain_skip(self, flag: Flag, items: Mapping[FlagId, Item], needs: set[FlagId]) -> str:
        if flag.has_encrypted_payloads:
            return (
                "Its payload is encrypted and cannot be read from the source: create the flag by "
                "hand."
            )
        context = ValidationContext(cohorts=self._cohorts, flags=self._flags, own_id=None)
        return (
            self._explain_missing(
                referenced_cohort_ids(flag.filters), self._cohort_items(), self._cohorts
            )
            or self._explain_missing(needs, items, self._flags)
            or _explain_invalid(lambda: check_key(flag.key, self._flags))
            or _explain_invalid(lambda: check_filter_fields(flag.filters))
            or _explain_invalid(lambda: validate_filters(flag.filters, context, is_new=True))
            or _explain_invalid(lambda: check_setting_conflicts(flag))
        )

    def _cohort_items(self) -> dict[CohortId, Item]:
        cohorts = self._source.cohorts
        return {CohortId(parse_id(each.get("id"))): each for each in cohorts if _exists(each)}

    def _explain_missing(
        self, needed: set[Any], items: Mapping[Any, Item], imported: Mapping[Any, Any]
    ) -> str:
        """Return which dependency is not imported; empty if all are."""
        for id in sorted(needed - imported.keys()):
            if id in items:
                name = items[id].get("key") or _read_name(items[id])
                return f"It refers to {name!r}, which is not imported."
        return ""

    def _add_flag_notes(self, flag: Flag) -> None:
        if flag.is_remote_configuration:
            self._add_note(
                ResourceKind.FLAG, flag.key, "It is a remote configuration flag here, too."
            )
        if flag.ensure_experience_continuity:
            text = (
                "It persists across authentication. The source does not export the stored values: "
                "persons are bucketed by their distinct id."
            )
            self._add_note(ResourceKind.FLAG, flag.key, text)

    def _add_note(self, kind: ResourceKind, name: str, text: str) -> None:
        self.notes.append(ImportNote(kind=kind, name=name, text=text))

    def _add_notes(self, kind: ResourceKind, name: str, texts: Sequence[str]) -> None:
        for text in texts:
            self._add_note(kind, name, text)

    def _skip(self, kind: ResourceKind, name: str, reason: str) -> None:
        self.skipped.append(ImportNote(kind=kind, name=name, text=reason))


# The fields of items that are read, and those that PostHog returns besides.
_COHORT_FIELDS = (
    *("name", "description", "is_static", "deleted", "filters", "groups"),
    *POSTHOG_COHORT_FIELDS,
)
_FLAG_FIELDS = (
    *("key", "name", "filters", "active", "deleted", "archived", "version", "tags"),
    "owners",
    *("ensure_experience_continuity", "is_remote_configuration", "has_encrypted_payloads"),
    *("evaluation_runtime", "bucketing_identifier", "evaluation_contexts", "evaluation_tags"),
    *("rollout_percentage", *POSTHOG_FLAG_FIELDS),
)
_FEATURE_FIELDS = (
    *("name", "description", "stage", "documentation_url", "payload", *POSTHOG_FEATURE_FIELDS),
)
_ENROLLMENT_STAGES = frozenset(stage for stage in FeatureStage if stage.honors_enrollment)


def _explain_invalid(check: Callable[[], Any]) -> str:
    """Return the validation error of a check; empty if it passes."""
    try:
        check()
    except Invalid as error:
        return _format_invalid(error)
    return ""


def _format_invalid(error: Invalid) -> str:
    return f"{error.attr}: {error.detail}" if error.attr else error.detail


def _explain_unsupported_feature(flag: Flag) -> str:
    if variant_keys(flag.filters):
        return "Its flag has variants, which early access features here do not support."
    parts = (flag.filters, *condition_sets(flag.filters))
    if any(part.get("aggregation_group_type_index") is not None for part in parts):
        return "Its flag buckets by group, which early access features here do not support."
    return ""


def _may_be_generated(flag: Item) -> bool:
    """A survey generates keys with this prefix, though a user may choose one, too."""
    return _read_key(flag).startswith("survey-")


def _exists(item: Item) -> bool:
    return not item.get("deleted") and bool(parse_id(item.get("id")))


def _read_name(item: Item) -> str:
    return str(item.get("name") or "").strip() or f"(unnamed, {item.get('id')})"


def _read_key(item: Item) -> str:
    return str(item.get("key") or "")


def _read_stage(item: Item) -> FeatureStage | None:
    stage = item.get("stage")
    return FeatureStage(stage) if stage in list(FeatureStage) else None


# Cohorts


def _read_definition(item: Item) -> dict[str, Any]:
    """Return the definition of a cohort in the current format."""
    if properties := get_object(get_object(item, "filters"), "properties"):
        return dict(_clean(properties))
    # The oldest format: any of several lists, all of each.
    values = [_read_old_group(group) for group in get_objects(item, "groups")]
    return {"type": "OR", "values": values} if values else {}


def _read_old_group(group: Mapping[str, Any]) -> dict[str, Any]:
    properties = group.get("properties")
    if isinstance(properties, Mapping) and "values" in properties:
        return dict(_clean(properties))
    if isinstance(properties, list):
        return {"type": "AND", "values": [_clean(each) for each in properties]}
    return _read_old_behavior(group)


def _read_old_behavior(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter by behavior of the oldest format in the current one."""
    event, action, count = group.get("event_id"), group.get("action_id"), group.get("count")
    found = {
        "type": "behavioral",
        "key": event or action,
        "event_type": "events" if event else "actions",
        "value": "performed_event_multiple" if count else "performed_event",
        "time_value": parse_id(group.get("days")),
        "time_interval": "day",
    }
    if count:
        found |= {"operator": group.get("count_operator") or "exact", "operator_value": count}
    return found


def _explain_actions(definition: Any) -> str:
    """Say why a cohort that counts actions is not imported: their ids are those of PostHog."""
    for filter in iterate_behavioral_filters(definition):
        if "actions" in (filter.get("event_type"), filter.get("seq_event_type")):
            return "It counts an action, and actions are not imported. Create both here."
    return ""


def _clean(node: Any) -> Any:
    """Return a group or filter without internal fields, with cohort ids as integers."""
    if not isinstance(node, Mapping):
        return node
    kept = {name: value for name, value in node.items() if name not in _INTERNAL_FIELDS}
    if isinstance(kept.get("values"), list):
        kept["values"] = [_clean(each) for each in kept["values"]]
    if kept.get("type") == "cohort" and parse_id(kept.get("value")):
        kept["value"] = parse_id(kept["value"])
    return kept


def _build_cohort(id: CohortId, item: Item, definition: dict[str, Any]) -> Cohort:
    is_static = bool(item.get("is_static"))
    return Cohort(
        id=id,
        project_id=NO_PROJECT,
        name=_read_name(item),
        description=str(item.get("description") or ""),
        is_static=is_static,
        definition={} if is_static else definition,
        deleted=False,
        created_by="",
        created_at=EPOCH,
        updated_at=EPOCH,
    )


def _build_cohort_item(id: CohortId, name: str, cohort: Cohort) -> ImportItem:
    body: dict[str, Any] = {
        "name": cohort.name,
        "description": cohort.description,
        "is_static": cohort.is_static,
    }
    if not cohort.is_static:
        body["filters"] = {"properties": cohort.definition}
    return ImportItem(kind=ResourceKind.COHORT, source_id=id, name=name, body=body)


# Flags


def _build_flag(id: FlagId, item: Item, note: Callable[[str], None]) -> Flag:
    contexts = item.get("evaluation_contexts") or item.get("evaluation_tags")
    return Flag(
        id=id,
        project_id=NO_PROJECT,
        key=_read_key(item),
        name=str(item.get("name") or ""),
        filters=strip_unknown_fields(
            _clean_filters(get_object(item, "filters")), FLAG_FILTERS, "filters", note
        ),
        active=bool(item.get("active", True)),
        deleted=False,
        archived=bool(item.get("archived")),
        version=1,
        ensure_experience_continuity=bool(item.get("ensure_experience_continuity")),
        is_remote_configuration=bool(item.get("is_remote_configuration")),
        has_encrypted_payloads=bool(item.get("has_encrypted_payloads")),
        evaluation_runtime=_read_choice(Runtime, item.get("evaluation_runtime"), Runtime.ALL),
        bucketing_identifier=_read_choice(
            Bucketing, item.get("bucketing_identifier"), Bucketing.DISTINCT_ID
        ),
        evaluation_contexts=_read_labels(contexts),
        tags=_read_labels(item.get("tags")),
        created_by="",
        last_modified_by="",
        created_at=EPOCH,
        updated_at=EPOCH,
        last_called_at=None,
        owners=_read_labels(item.get("owners")),
    )


def _read_choice(kind: Any, value: Any, default: Any) -> Any:
    return kind(value) if value in list(kind) else default


def _read_labels(value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(each for each in texts if isinstance(each, str) and each.strip()))


def _clean_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(filters)
    for section in ("groups", "super_groups"):
        if isinstance(kept.get(section), list):
            kept[section] = [_clean_group(group) for group in kept[section]]
    return kept


def _clean_group(group: Any) -> Any:
    if not isinstance(group, Mapping) or not isinstance(group.get("properties"), list):
        return group
    return {**group, "properties": [_clean(each) for each in group["properties"]]}


def _build_flag_item(flag: Flag) -> ImportItem:
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
        **({"owners": list(flag.owners)} if flag.owners else {}),
    }
    return ImportItem(kind=ResourceKind.FLAG, source_id=flag.id, name=flag.key, body=body)


# Early access features


def _build_feature_item(item: Item, name: str, flag_id: FlagId) -> ImportItem:
    """Raises Invalid if our rules reject it."""
    check_documentation_url(str(item.get("documentation_url") or ""))
    body = {
        "name": name,
        "description": str(item.get("description") or ""),
        "stage": str(item.get("stage")),
        "documentation_url": str(item.get("documentation_url") or ""),
        "payload": dict(get_object(item, "payload")),
        "feature_flag_id": flag_id,
    }
    return ImportItem(
        kind=ResourceKind.FEATURE, source_id=str(item.get("id")), name=name, body=body
    )
