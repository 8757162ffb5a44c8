"""An experiment's flag: made for it or taken over, its variants, its holdout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.experiments.model import CONTROL, MULTIPLE, Experiment, Status
from hedgerow.flags.edits import FlagFields, checked
from hedgerow.flags.flags import blank_flag, entry_of, person_of
from hedgerow.flags.model import Definitions, Flag
from hedgerow.flags.rules import variant_keys, variants_of
from hedgerow.flags.store import FlagWrite
from hedgerow.lib import jsonio
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project

MAX_VARIANTS = 20
KEPT = "feature_flag_variants"
# Beside the variants, and never shown: what else of the flag people are counted by.
KEPT_FLAG = "counted_flag"
PLACE = f"parameters.{KEPT}"
DEFAULT_VARIANTS = (
    {"key": CONTROL, "name": "Control Group", "rollout_percentage": 50},
    {"key": "test", "name": "Test Variant", "rollout_percentage": 50},
)


def read_variants(parameters: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The variants that somebody wants, in the words of flags; None if they named none."""
    sent = parameters.get(KEPT)
    if sent is None or sent == []:
        return None
    if not isinstance(sent, list) or not all(isinstance(each, dict) for each in sent):
        raise Invalid("A list of variants is required.", attr=PLACE, code="not_a_list")
    if len(sent) > MAX_VARIANTS:
        raise Invalid(f"There can be {MAX_VARIANTS} variants at most.", attr=PLACE)
    found = []
    for each in sent:
        variant = {name: part for name, part in each.items() if name != "split_percent"}
        if "split_percent" in each:  # what newer clients call it
            variant["rollout_percentage"] = each["split_percent"]
        found.append(variant)
    _check_control([str(each.get("key")) for each in found], PLACE)
    return found


def check_fits(flag: Flag, attr: str = "feature_flag_key") -> None:
    """Whether an experiment can be made of a flag that is there."""
    if flag.is_remote_configuration:
        raise Invalid("A remote configuration has no variants to compare.", attr=attr)
    _check_control(variant_keys(flag.filters), attr)


def _check_control(keys: Sequence[str], attr: str) -> None:
    if len(keys) < 2:
        detail = "Feature flag must have at least 2 variants: control and one to test."
        raise Invalid(detail, attr=attr)
    if len(keys) > MAX_VARIANTS:
        raise Invalid(f"There can be {MAX_VARIANTS} variants at most.", attr=attr)
    if keys[0] != CONTROL:
        raise Invalid("Feature flag must have control as the first variant.", attr=attr)
    if MULTIPLE in keys:
        raise Invalid(f"{MULTIPLE} are those who saw several: choose another key.", attr=attr)


def filters_of(flag: Flag) -> Mapping[str, Any]:
    """The filters of whatever was stored."""
    filters: Any = flag.filters
    return filters if isinstance(filters, Mapping) else {}


def group_type_of(flag: Flag) -> int | None:
    """The type of groups that is split instead of people."""
    index = filters_of(flag).get("aggregation_group_type_index")
    return index if isinstance(index, int) else None


def holdouts_of(flag: Flag) -> list[Any]:
    """In either of the forms that flags have had."""
    return [filters_of(flag).get(name) or None for name in ("holdout", "holdout_groups")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What of a flag people are counted by."""

    key: str
    group_type: int | None
    bucketing: str
    variants: Sequence[Mapping[str, Any]]


def seen_of(experiment: Experiment, flag: Flag) -> Seen:
    """As people saw it; of a draft, as the flag is now."""
    kept = experiment.parameters.get(KEPT_FLAG)
    if not isinstance(kept, Mapping):
        kept = {"key": flag.key, "group_type": group_type_of(flag)}
    variants = variants_of({"multivariate": {"variants": experiment.parameters.get(KEPT)}})
    return Seen(
        key=str(kept.get("key")),
        group_type=kept.get("group_type"),
        # Those that were launched before it was kept go by the flag.
        bucketing=str(kept.get("bucketing") or flag.bucketing_identifier.value),
        variants=variants or variants_of(flag.filters),
    )


def keeping_seen(experiment: Experiment, flag: Flag) -> Experiment:
    """From the launch on an experiment keeps what people see: once it has ended, its flag may get
    another name, or give everybody the best variant."""
    shown = shown_parameters(experiment)
    if experiment.status is Status.DRAFT:
        return replace(experiment, parameters=shown)
    seen = seen_of(experiment, flag)
    counted = {"key": seen.key, "group_type": seen.group_type, "bucketing": seen.bucketing}
    kept = {KEPT: list(seen.variants), KEPT_FLAG: counted}
    return replace(experiment, parameters=shown | kept)


def shown_parameters(experiment: Experiment) -> dict[str, Any]:
    """Those that somebody sent."""
    kept = (KEPT, KEPT_FLAG)
    return {name: part for name, part in experiment.parameters.items() if name not in kept}


def check_can_run(experiment: Experiment, flag: Flag, attr: str) -> None:
    """Invalid if people would not see, or see again, what the experiment compares."""
    if flag.deleted:
        raise Invalid("Its flag is deleted: restore that first.", attr=attr)
    seen = seen_of(experiment, flag)
    if not are_alike(seen.variants, variants_of(flag.filters)):
        detail = (
            "Its flag has other variants than people saw: "
            "give it those again, or reset the experiment."
        )
        raise Invalid(detail, attr=attr)
    if seen.key != flag.key:
        detail = f"Its flag was called {seen.key!r}: rename it, or reset the experiment."
        raise Invalid(detail, attr=attr)
    if seen.group_type != group_type_of(flag):
        detail = (
            "Its flag splits others than it did, people or groups: "
            "change that back, or reset the experiment."
        )
        raise Invalid(detail, attr=attr)
    if seen.bucketing != flag.bucketing_identifier.value:
        detail = (
            f"Its flag bucketed by {seen.bucketing}: change that back, or reset the experiment."
        )
        raise Invalid(detail, attr=attr)
    check_fits(flag, "feature_flag")


def are_alike(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Whether they split people alike, whatever they are called."""
    return [_essence(each) for each in one] == [_essence(each) for each in other]


def _essence(variant: Mapping[str, Any]) -> tuple[Any, Any]:
    return variant.get("key"), variant.get("rollout_percentage")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagEditor:
    """Makes and changes flags in somebody's name."""

    definitions: Definitions
    actor: Actor
    now: datetime

    def new(
        self, project: Project, key: str, made: Experiment, parameters: Mapping[str, Any]
    ) -> FlagWrite:
        """For everybody, or as many as the parameters say; off until the experiment is launched."""
        rollout = parameters.get("rollout_percentage")
        filters: dict[str, Any] = {
            "groups": [
                {"properties": [], "rollout_percentage": 100 if rollout is None else rollout}
            ],
            "multivariate": {"variants": read_variants(parameters) or list(DEFAULT_VARIANTS)},
        }
        if (index := parameters.get("aggregation_group_type_index")) is not None:
            filters["aggregation_group_type_index"] = index
        if made.holdout is not None:
            filters["holdout"] = dict(made.holdout)
        wanted = FlagFields(
            key=key,
            name=f"Feature Flag for Experiment {made.name}",
            filters=filters,
            active=made.status is Status.RUNNING,
        )
        flag = self._checked(blank_flag(project, self.actor, self.now), wanted)
        return FlagWrite(flag=flag, tell=lambda made: entry_of("created", None, made, self.actor))

    def changed(
        self,
        flag: Flag,
        *,
        variants: Sequence[Mapping[str, Any]] | None = None,
        holdout: Mapping[str, Any] | None,
        switched_on: bool,
    ) -> FlagWrite | None:
        """The flag with these variants and this holdout, switched on if need be; None where it is
        so already."""
        filters = {name: part for name, part in filters_of(flag).items() if name != "holdout"}
        if variants is not None:
            filters["multivariate"] = {"variants": list(variants)}
            filters["payloads"] = _payloads_of(filters, [str(each.get("key")) for each in variants])
        if holdout is not None:
            filters["holdout"] = dict(holdout)
        wanted = FlagFields(
            filters=None if jsonio.same(filters, flag.filters) else filters,
            active=True if switched_on else None,
        )
        after = self._checked(flag, wanted)
        if after == flag:
            return None
        after = replace(
            after,
            version=flag.version + 1,
            updated_at=self.now,
            last_modified_by=person_of(self.actor),
        )
        return FlagWrite(flag=after, tell=lambda _: entry_of("updated", flag, after, self.actor))

    def _checked(self, before: Flag, wanted: FlagFields) -> Flag:
        try:
            return checked(before, wanted, self.definitions)
        except Invalid as error:
            raise of_experiment(error) from None


def _payloads_of(filters: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Those of the variants that stay."""
    payloads = filters.get("payloads")
    known = payloads if isinstance(payloads, dict) else {}
    return {key: payload for key, payload in known.items() if key in keys}


_ATTRS = (
    ("filters.multivariate.variants", PLACE),
    ("filters.aggregation_group_type_index", "parameters.aggregation_group_type_index"),
    ("filters.groups[0].rollout_percentage", "parameters.rollout_percentage"),
    ("filters.holdout", "holdout"),
    ("key", "feature_flag_key"),
)


def of_experiment(error: Invalid) -> Invalid:
    """What is wrong with the flag, named by where an experiment says it."""
    attr = error.attr or ""
    for flags, ours in _ATTRS:
        if attr.startswith(flags):
            attr = ours + attr.removeprefix(flags)
            break
    return Invalid(error.detail, attr=attr or None, code=error.code)
