"""Measure how many persons would get another value, for policies that depend on it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import AppError
from hedgerow.flags.evaluation.comparison import FlagComparison, FlagVersionDefinitions
from hedgerow.flags.evaluation.draft import build_with
from hedgerow.flags.evaluation.flag_values import list_group_indexes
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.evaluation.what_if import FlagVersionComparer
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.model import Cohort

# What is measured: both versions of the flag and of the cohort, and the persons.
MeasurementKey = bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A change whose consequence a policy asks for, among the persons who match `properties`.
    `cohort` is the changed cohort, if that is the change, and `dependency` the changed flag that
    the flag depends on. `earlier` is what the value before depends on, where that is not what is
    stored now."""

    before: Flag | None
    after: Flag
    properties: Sequence[Mapping[str, Any]]
    cohort: Cohort | None = None
    dependency: Flag | None = None
    earlier: Sequence[Flag | Cohort] = ()

    @property
    def key(self) -> MeasurementKey:
        parts = [_evaluated(self.before), _evaluated(self.after), list(self.properties)]
        changed = [_evaluated(self.cohort), _evaluated(self.dependency)]
        return jsonio.encode([*parts, *changed, *map(_evaluated, self.earlier)])


def _evaluated(flag: Flag | Cohort | None) -> Any:
    if flag is None:
        return None
    if isinstance(flag, Cohort):
        return [flag.id, dict(flag.definition), flag.deleted]
    return [
        flag.id,
        flag.key,
        flag.filters,
        flag.active,
        flag.deleted,
        flag.ensure_experience_continuity,
        flag.bucketing_identifier.value,
    ]


class MeasurementNeeded(Exception):
    """A transaction ended because it needs a measurement, which cannot be made inside of it."""

    def __init__(self, measurement: Measurement) -> None:
        super().__init__("A consequence must be measured first.")
        self.measurement = measurement


async def measure_change(
    comparer: FlagVersionComparer,
    definitions: FlagDefinitions,
    measurement: Measurement,
    now: datetime,
) -> float | None:
    """Return the percentage of stored persons who would get another value. None if it cannot be
    measured: the caller must assume the worst then."""
    comparison = await run_in_thread(lambda: _build_comparison(definitions, measurement, now))
    if comparison is None:
        return None
    if comparison.before is None and comparison.after is None:
        return 0.0
    try:
        counts = await comparer.compare_persons(measurement.after.project_id, comparison)
    except AppError:
        return None
    if counts.is_out_of_time:
        return None
    return 100 * counts.changed / counts.evaluated if counts.evaluated else 0.0


def _build_comparison(
    definitions: FlagDefinitions, measurement: Measurement, now: datetime
) -> FlagComparison | None:
    changed = [each for each in (measurement.cohort, measurement.dependency) if each is not None]
    before = build_snapshot(_replace_all(definitions, measurement.earlier))
    after = build_snapshot(_replace_all(definitions, changed))
    versions = [
        _select_version(before, measurement.before),
        _select_version(after, measurement.after),
    ]
    snapshots = [snapshot for _, snapshot in filter(None, versions)]
    if any(_depends_on_more(each) for each in snapshots):
        return None
    first, second = (each and each[0] for each in versions)
    return FlagComparison(
        before=first or None, after=second or None, now=now, filters=measurement.properties
    )


def _replace_all(definitions: FlagDefinitions, changed: Iterable[Flag | Cohort]) -> FlagDefinitions:
    flags = {each.id: each for each in definitions.flags}
    cohorts = {each.id: each for each in definitions.cohorts}
    for each in changed:
        if isinstance(each, Cohort):
            cohorts[each.id] = each
        else:
            flags[each.id] = each
    live = [each for each in flags.values() if not each.deleted]
    return replace(definitions, flags=live, cohorts=list(cohorts.values()))


def _select_version(
    snapshot: FlagSnapshot, flag: Flag | None
) -> tuple[FlagVersionDefinitions, FlagSnapshot] | None:
    if flag is None or flag.deleted:
        return None
    built = build_with(snapshot, flag)
    return FlagVersionDefinitions(flag_key=flag.key, definitions=built.definitions), built


def _depends_on_more(snapshot: FlagSnapshot) -> bool:
    """Whether a value depends on groups or devices, which are not stored with persons, or on events
    that are still being counted."""
    flags = snapshot.all_flags
    is_by_device = any(each.flag.bucketing_identifier is Bucketing.DEVICE_ID for each in flags)
    is_more = is_by_device or snapshot.predicates.is_counting
    return is_more or bool(list_group_indexes(flags))
