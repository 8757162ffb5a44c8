"""What the results of an experiment are asked by: whom they compare, since when, and how sure they
must be. Of stored settings that cannot be read, defaults hold, and it is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hedgerow.errors import AppError
from hedgerow.events.compile import compiled
from hedgerow.events.dates import EARLIEST, LATEST
from hedgerow.events.surroundings import Surroundings
from hedgerow.experiments.answer import Problem
from hedgerow.experiments.counting import Exposure, exposures_by_day
from hedgerow.experiments.criteria import BAYESIAN, LEVEL, Stats, read_criteria, read_stats
from hedgerow.experiments.model import Experiment
from hedgerow.experiments.variants import Seen, seen_of
from hedgerow.filters.values import as_number
from hedgerow.flags.model import Flag

CRITERIA_DEFAULT = (
    "So people count as exposed by $feature_flag_called, and those who saw "
    "several variants are left out. Send exposure_criteria anew to mend it."
)
STATS_DEFAULT = f"So intervals are Bayesian ones of {LEVEL:.0%}. Send stats_config anew to mend it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is compared; `exposure` is None before the start."""

    flag_key: str
    variants: Sequence[str]
    shares: Sequence[float]
    stats: Stats
    exposure: Exposure | None
    warnings: Sequence[Problem]


def asked_of(
    experiment: Experiment, flag: Flag, around: Surroundings, *, is_strict: bool = False
) -> Asked:
    """`is_strict` where whoever asks has said the criteria, and can be told what is wrong."""
    seen = seen_of(experiment, flag)
    warnings: list[Problem] = []
    stats = Stats(method=BAYESIAN, level=LEVEL)
    try:
        stats = read_stats(experiment.stats_config)
    except AppError as error:
        warnings.append(_warning(error, STATS_DEFAULT))
    exposure = _exposure(experiment, seen, around.at.now)
    if exposure is not None and experiment.exposure_criteria:
        try:
            criteria = read_criteria(experiment.exposure_criteria, seen.key)
            exposure = _askable(replace(exposure, criteria=criteria), around)
        except AppError as error:
            if is_strict:
                raise
            warnings.append(_warning(error, CRITERIA_DEFAULT))
    return Asked(
        flag_key=seen.key,
        variants=[str(variant.get("key")) for variant in seen.variants],
        shares=[as_number(variant.get("rollout_percentage")) or 0.0 for variant in seen.variants],
        stats=stats,
        exposure=exposure,
        warnings=warnings,
    )


def _exposure(experiment: Experiment, seen: Seen, now: datetime) -> Exposure | None:
    """By default criteria."""
    start = experiment.start_date
    end = now if experiment.end_date is None else min(experiment.end_date, now)
    if start is None or start >= end:
        return None
    return Exposure(
        criteria=read_criteria({}, seen.key),
        flag_key=seen.key,
        variants=[str(variant.get("key")) for variant in seen.variants],
        unit="person_id" if seen.group_type is None else f"$group_{seen.group_type}",
        start=max(start, EARLIEST),
        end=min(end, LATEST),
    )


def _askable(exposure: Exposure, around: Surroundings) -> Exposure:
    """Also filters can be such that nothing can be asked by them, those of a cohort that is gone,
    say."""
    compiled(exposures_by_day(exposure, around), around)
    return exposure


def _warning(error: AppError, instead: str) -> Problem:
    return Problem(code=error.code, detail=f"{error.detail} {instead}", attr=error.attr)
