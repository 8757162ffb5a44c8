"""The flag of an experiment: creation, adoption, variants and holdout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.experiments.model import CONTROL, MULTIPLE, Experiment, ExperimentStatus
from hedgerow.flags.edits import FlagFields, apply_fields
from hedgerow.flags.flags import build_flag_entry, describe_actor, new_flag
from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import get_variants, variant_keys
from hedgerow.lib import jsonio
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project

MAX_VARIANTS = 20
VARIANTS_PARAMETER = "feature_flag_variants"
# Stored next to the variants and never returned: the other parts of the flag that exposures depend
# on.
COUNTED_FLAG_PARAMETER = "counted_flag"
VARIANTS_ATTR = f"parameters.{VARIANTS_PARAMETER}"
DEFAULT_VARIANTS = (
    {"key": CONTROL, "name": "Control Group", "rollout_percentage": 50},
    {"key": "test", "name": "Test Variant", "rollout_percentage": 50},
)


def parse_variants(parameters: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the sent variants in the format of flags, None if there are none."""
    sent = parameters.get(VARIANTS_PARAMETER)
    if sent is None or sent == []:
        return None
    if not isinstance(sent, list) or not all(isinstance(each, dict) for each in sent):
        raise Invalid("Expected a list of variants.", attr=VARIANTS_ATTR, code="not_a_list")
    if len(sent) > MAX_VARIANTS:
        raise Invalid(f"Expected at most {MAX_VARIANTS} variants.", attr=VARIANTS_ATTR)
    found = []
    for each in sent:
        variant = {name: part for name, part in each.items() if name != "split_percent"}
        if "split_percent" in each:  # the name in newer clients
            variant["rollout_percentage"] = each["split_percent"]
        found.append(variant)
    _check_control([str(each.get("key")) for each in found], VARIANTS_ATTR)
    return found


def check_flag_usable(flag: Flag, attr: str = "feature_flag_key") -> None:
    """Raise Invalid if an experiment cannot use this flag."""
    if flag.is_remote_configuration:
        raise Invalid("A remote configuration has no variants to compare.", attr=attr)
    _check_control(variant_keys(flag.filters), attr)


def _check_control(keys: Sequence[str], attr: str) -> None:
    if len(keys) < 2:
        detail = "Feature flag must have at least 2 variants: control and one to test."
        raise Invalid(detail, attr=attr)
    if len(keys) > MAX_VARIANTS:
        raise Invalid(f"Expected at most {MAX_VARIANTS} variants.", attr=attr)
    if keys[0] != CONTROL:
        raise Invalid("Feature flag must have control as the first variant.", attr=attr)
    if MULTIPLE in keys:
        raise Invalid(f"The key {MULTIPLE} is reserved. Choose another key.", attr=attr)


def get_filters(flag: Flag) -> Mapping[str, Any]:
    """Return the filters of a flag, empty if the stored value is not an object."""
    filters: Any = flag.filters
    return filters if isinstance(filters, Mapping) else {}


def get_group_type(flag: Flag) -> int | None:
    """Return the group type that the flag splits by, None for persons."""
    index = get_filters(flag).get("aggregation_group_type_index")
    return index if isinstance(index, int) else None


def get_holdouts(flag: Flag) -> list[Any]:
    """Return the holdouts in both formats that flags have had."""
    return [get_filters(flag).get(name) or None for name in ("holdout", "holdout_groups")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFlag:
    """The parts of a flag that exposures depend on."""

    key: str
    group_type: int | None
    bucketing: str
    variants: Sequence[Mapping[str, Any]]


def get_counted_flag(experiment: Experiment, flag: Flag) -> CountedFlag:
    """Return the parts as they were at launch; for a draft, as the flag is now."""
    stored = experiment.parameters.get(COUNTED_FLAG_PARAMETER)
    if not isinstance(stored, Mapping):
        stored = {"key": flag.key, "group_type": get_group_type(flag)}
    variants = get_variants(
        {"multivariate": {"variants": experiment.parameters.get(VARIANTS_PARAMETER)}}
    )
    return CountedFlag(
        key=str(stored.get("key")),
        group_type=stored.get("group_type"),
        # Experiments launched before this was stored use the flag.
        bucketing=str(stored.get("bucketing") or flag.bucketing_identifier.value),
        variants=variants or get_variants(flag.filters),
    )


def freeze_counted_flag(experiment: Experiment, flag: Flag) -> Experiment:
    """Copy the counted parts of the flag into a launched experiment. After the end, the flag may be
    renamed or roll out one variant to everyone."""
    shown = get_client_parameters(experiment)
    if experiment.status is ExperimentStatus.DRAFT:
        return replace(experiment, parameters=shown)
    counted = get_counted_flag(experiment, flag)
    flag_fields = {
        "key": counted.key,
        "group_type": counted.group_type,
        "bucketing": counted.bucketing,
    }
    stored = {VARIANTS_PARAMETER: list(counted.variants), COUNTED_FLAG_PARAMETER: flag_fields}
    return replace(experiment, parameters=shown | stored)


def get_client_parameters(experiment: Experiment) -> dict[str, Any]:
    """Return the parameters that the client sent."""
    stored = (VARIANTS_PARAMETER, COUNTED_FLAG_PARAMETER)
    return {name: part for name, part in experiment.parameters.items() if name not in stored}


def check_can_run(experiment: Experiment, flag: Flag, attr: str) -> None:
    """Raise Invalid if the flag no longer matches what the experiment compares."""
    if flag.deleted:
        raise Invalid("The flag of the experiment is deleted. Restore the flag first.", attr=attr)
    counted = get_counted_flag(experiment, flag)
    if not has_same_split(counted.variants, get_variants(flag.filters)):
        detail = (
            "The flag has other variants than at launch. Restore these, or reset the experiment."
        )
        raise Invalid(detail, attr=attr)
    if counted.key != flag.key:
        detail = (
            f"The flag was named {counted.key!r} at launch. Rename it, or reset the experiment."
        )
        raise Invalid(detail, attr=attr)
    if counted.group_type != get_group_type(flag):
        detail = (
            "The flag no longer splits by the same persons or groups as at launch. "
            "Restore that, or reset the experiment."
        )
        raise Invalid(detail, attr=attr)
    if counted.bucketing != flag.bucketing_identifier.value:
        detail = (
            f"The flag bucketed by {counted.bucketing} at launch. Restore that, or reset the "
            "experiment."
        )
        raise Invalid(detail, attr=attr)
    check_flag_usable(flag, "feature_flag")


def has_same_split(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether both lists have the same keys and percentages, ignoring names."""
    return [_split_key(each) for each in one] == [_split_key(each) for each in other]


def _split_key(variant: Mapping[str, Any]) -> tuple[Any, Any]:
    return variant.get("key"), variant.get("rollout_percentage")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagEditor:
    """Creates and changes flags on behalf of an actor."""

    definitions: FlagDefinitions
    actor: Actor
    now: datetime

    def create(
        self, project: Project, key: str, experiment: Experiment, parameters: Mapping[str, Any]
    ) -> FlagWrite:
        """Create a flag for everyone or for the requested percentage. It is off until the
        launch."""
        rollout = parameters.get("rollout_percentage")
        filters: dict[str, Any] = {
            "groups": [
                {"properties": [], "rollout_percentage": 100 if rollout is None else rollout}
            ],
            "multivariate": {"variants": parse_variants(parameters) or list(DEFAULT_VARIANTS)},
        }
        if (index := parameters.get("aggregation_group_type_index")) is not None:
            filters["aggregation_group_type_index"] = index
        if experiment.holdout is not None:
            filters["holdout"] = dict(experiment.holdout)
        fields = FlagFields(
            key=key,
            name=f"Feature Flag for Experiment {experiment.name}",
            filters=filters,
            active=experiment.status is ExperimentStatus.RUNNING,
        )
        flag = self._apply_fields(new_flag(project, self.actor, self.now), fields)
        return FlagWrite(
            flag=flag,
            build_entry=lambda experiment: build_flag_entry(
                "created", None, experiment, self.actor
            ),
        )

    def update(
        self,
        flag: Flag,
        *,
        variants: Sequence[Mapping[str, Any]] | None = None,
        holdout: Mapping[str, Any] | None,
        switched_on: bool,
    ) -> FlagWrite | None:
        """Return the flag with these variants and this holdout, switched on if requested. None if
        nothing changes."""
        filters = {name: part for name, part in get_filters(flag).items() if name != "holdout"}
        if variants is not None:
            filters["multivariate"] = {"variants": list(variants)}
            filters["payloads"] = _select_payloads(
                filters, [str(each.get("key")) for each in variants]
            )
        if holdout is not None:
            filters["holdout"] = dict(holdout)
        fields = FlagFields(
            filters=None if jsonio.is_equal(filters, flag.filters) else filters,
            active=True if switched_on else None,
        )
        after = self._apply_fields(flag, fields)
        if after == flag:
            return None
        after = replace(
            after,
            version=flag.version + 1,
            updated_at=self.now,
            last_modified_by=describe_actor(self.actor),
        )
        return FlagWrite(
            flag=after, build_entry=lambda _: build_flag_entry("updated", flag, after, self.actor)
        )

    def _apply_fields(self, before: Flag, fields: FlagFields) -> Flag:
        try:
            return apply_fields(before, fields, self.definitions)
        except Invalid as error:
            raise translate_flag_error(error) from None


def _select_payloads(filters: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the payloads of the remaining variants."""
    payloads = filters.get("payloads")
    known = payloads if isinstance(payloads, dict) else {}
    return {key: payload for key, payload in known.items() if key in keys}


_ATTR_PREFIXES = (
    ("filters.multivariate.variants", VARIANTS_ATTR),
    ("filters.aggregation_group_type_index", "parameters.aggregation_group_type_index"),
    ("filters.groups[0].rollout_percentage", "parameters.rollout_percentage"),
    ("filters.holdout", "holdout"),
    ("key", "feature_flag_key"),
)


def translate_flag_error(error: Invalid) -> Invalid:
    """Return the error of a flag with the field name of the experiment."""
    attr = error.attr or ""
    for flags, ours in _ATTR_PREFIXES:
        if attr.startswith(flags):
            attr = ours + attr.removeprefix(flags)
            break
    return Invalid(error.detail, attr=attr or None, code=error.code)
