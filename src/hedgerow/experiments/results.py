"""What an experiment has shown: who was exposed, what they did, and how the variants compare."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from hedgerow.errors import AppError, Throttled, Unavailable
from hedgerow.events.gate import Gate
from hedgerow.events.reading import Reading
from hedgerow.events.surroundings import Surroundings
from hedgerow.experiments import statistics
from hedgerow.experiments.answer import (
    Exposures,
    MetricResult,
    Period,
    Problem,
    Results,
    SampleRatio,
    VariantResult,
)
from hedgerow.experiments.asked import Asked, asked_of
from hedgerow.experiments.comparing import Measured, Sums, compared
from hedgerow.experiments.counting import exposures_by_day, measured
from hedgerow.experiments.experiments import Found
from hedgerow.experiments.metrics import FUNNEL, RATIO, Metric, read_metric
from hedgerow.experiments.model import MULTIPLE, Experiment
from hedgerow.experiments.variants import seen_of
from hedgerow.flags.model import Flag
from hedgerow.hogql.ast import Select
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.queries.cache import Cache, Freshness, Kept
from hedgerow.queries.model import Timeline

MAX_DAYS = 1000
MAX_KEPT_BYTES = 16 << 20


class ExperimentResults:
    """One experiment of a project at a time, so that who asks for many at once keeps neither the
    event store nor a processor from others. `state` is a number that changes whenever something
    is changed, as far as this process sees: until then nothing is counted again."""

    def __init__(
        self,
        reading: Reading,
        freshness: Freshness,
        state: Callable[[], int],
        gate: Gate | None = None,
    ) -> None:
        self._reading = reading
        self._freshness = freshness
        self._state = state
        self._gate = gate or Gate(of_one_project=1)
        # As JSON, which takes as much room as it says.
        self._cache = Cache[bytes](MAX_KEPT_BYTES)

    async def of(
        self,
        project: Project,
        experiment: Experiment,
        flag: Flag,
        now: datetime,
        *,
        anew: bool = False,
    ) -> Results:
        """Those that are kept if they would be the same now, unless `anew`. Throttled if those
        before it take too long."""
        key = (project.id, _key(project, experiment, flag))
        async with self._gate.entered(project.id):
            kept = None if anew else self._cache.get(key)
            if kept is not None and self._freshness.holds(kept, self._state(), now):
                # Not where a number was so large that JSON has none for it.
                with suppress(msgspec.ValidationError):
                    found = msgspec.json.decode(kept.answer, type=Results)
                    return msgspec.structs.replace(found, is_cached=True)
            await self._reading.arrived()
            # What is not here by now makes itself known by another change when it is.
            state = self._state()
            results = await self._of(project, experiment, flag, now)
            if all(_lasts(each) for each in (*results.metrics, *results.metrics_secondary)):
                body = msgspec.json.encode(results)
                self._cache.put(key, Kept(answer=body, size=len(body), state=state, at=now))
            return results

    async def of_metric(
        self, project: Project, found: Found, metric: Metric, said: Any, now: datetime
    ) -> tuple[Asked, list[VariantResult]]:
        """How the variants compare by one metric, which `said` was sent for; control comes first.
        Nothing of it is kept here."""
        experiment, flag = found
        async with self._gate.entered(project.id):
            around = await self._reading.surroundings(
                project, now, [True, said, experiment.exposure_criteria]
            )
            asked = await in_daemon_thread(partial(asked_of, experiment, flag, around))
            measured = await self._measured(metric, asked, around)
            results = await in_daemon_thread(_comparing(measured, asked, metric))
            return asked, results

    async def exposures_of(
        self, project: Project, found: Found, now: datetime, *, is_strict: bool
    ) -> tuple[Asked, Exposures]:
        experiment, flag = found
        async with self._gate.entered(project.id):
            around = await self._reading.surroundings(
                project, now, [True, experiment.exposure_criteria]
            )
            asked = await in_daemon_thread(
                partial(asked_of, experiment, flag, around, is_strict=is_strict)
            )
            return asked, await self._exposures(asked, around)

    async def _of(
        self, project: Project, experiment: Experiment, flag: Flag, now: datetime
    ) -> Results:
        said = [experiment.metrics, experiment.metrics_secondary, experiment.exposure_criteria]
        # Persons are asked for always: exposures are counted by who somebody is today.
        around = await self._reading.surroundings(project, now, [True, *said])
        asked = await in_daemon_thread(partial(asked_of, experiment, flag, around))
        exposures = await self._exposures(asked, around)
        primary = await self._metrics("metrics", experiment.metrics, asked, around)
        secondary = await self._metrics(
            "metrics_secondary", experiment.metrics_secondary, asked, around
        )
        return Results(
            experiment_id=experiment.id,
            feature_flag_key=asked.flag_key,
            status=experiment.status.value,
            method=asked.stats.method,
            level=asked.stats.level,
            date_range=Period(
                date_from=experiment.start_date,
                date_to=experiment.end_date,
                timezone=project.timezone,
            ),
            last_refresh=now,
            cache_target_age=now + self._freshness.max_age,
            warnings=asked.warnings,
            exposures=exposures,
            metrics=primary,
            metrics_secondary=secondary,
        )

    async def _exposures(self, asked: Asked, around: Surroundings) -> Exposures:
        exposure = asked.exposure
        rows: Sequence[Sequence[Any]] = ()
        if exposure is not None:
            rows = await self._rows(around, partial(exposures_by_day, exposure, around))
        names = [MULTIPLE, *asked.variants]
        by_day: dict[str, dict[date, int]] = {name: defaultdict(int) for name in names}
        for number, day, people in rows:
            by_day[names[number]][date.fromisoformat(day)] += people
        several = by_day.pop(MULTIPLE)
        if several:
            by_day[MULTIPLE] = several  # as the last
        totals = {name: sum(days.values()) for name, days in by_day.items()}
        return Exposures(
            total_exposures=totals,
            timeseries=timelines(by_day),
            sample_ratio_mismatch=await in_daemon_thread(partial(_sample_ratio, totals, asked)),
        )

    async def _metrics(
        self, place: str, documents: Sequence[Any], asked: Asked, around: Surroundings
    ) -> list[MetricResult]:
        """One after another: there are few places for queries, and others wait for them, too."""
        return [
            await self._metric(document, f"{place}[{number}]", asked, around)
            for number, document in enumerate(documents)
        ]

    async def _metric(
        self, document: Any, place: str, asked: Asked, around: Surroundings
    ) -> MetricResult:
        """One metric that cannot be read or measured does not take the others with it."""
        metric = None
        try:
            metric = read_metric(document, place)
            found = await self._measured(metric, asked, around)
        except AppError as error:
            problem = Problem(code=error.code, detail=error.detail, attr=error.attr)
            return _failed(document, problem) if metric is None else _result(metric, [], problem)
        return _result(metric, await in_daemon_thread(_comparing(found, asked, metric)), None)

    async def _measured(self, metric: Metric, asked: Asked, around: Surroundings) -> list[Measured]:
        exposure = asked.exposure
        rows: Sequence[Sequence[Any]] = ()
        if exposure is not None:
            rows = await self._rows(around, partial(measured, metric, exposure, around))
        by_number = {row[0]: row[1:] for row in rows}
        return [
            _seen(metric, name, by_number.get(number))
            for number, name in enumerate(asked.variants, 1)
        ]

    async def _rows(
        self, around: Surroundings, ask: Callable[[], Select]
    ) -> Sequence[Sequence[Any]]:
        return (await self._reading.read(around, ask)).rows


def _seen(metric: Metric, key: str, row: Sequence[Any] | None) -> Measured:
    if metric.type == RATIO:
        people, total, spread, whole, whole_spread, both = row or (0, 0, 0, 0, 0, 0)
        above = Sums(total=float(total), spread=float(spread))
        below = Sums(total=float(whole), spread=float(whole_spread))
        return Measured.of_ratio(key, int(people), above, below, float(both))
    people, total, spread = row or (0, 0, 0)
    if metric.type == FUNNEL:
        return Measured.of_funnel(key, int(people), int(total))
    return Measured.of_mean(key, int(people), float(total), float(spread))


def _comparing(
    found: Sequence[Measured], asked: Asked, metric: Metric
) -> Callable[[], list[VariantResult]]:
    return partial(compared, found, asked.stats, is_less_better=metric.is_less_better)


def _result(
    metric: Metric, variants: Sequence[VariantResult], problem: Problem | None
) -> MetricResult:
    return MetricResult(
        uuid=metric.uuid,
        name=metric.name,
        metric_type=metric.type,
        goal="decrease" if metric.is_less_better else "increase",
        baseline=variants[0] if variants else None,
        variant_results=variants[1:],
        error=problem,
    )


def _key(project: Project, experiment: Experiment, flag: Flag) -> str:
    """What makes the results beside the events."""
    seen = seen_of(experiment, flag)
    said = [
        project.timezone,
        experiment.start_date and iso(experiment.start_date),
        experiment.end_date and iso(experiment.end_date),
        [seen.key, seen.group_type, list(seen.variants)],
        experiment.metrics,
        experiment.metrics_secondary,
        experiment.exposure_criteria,
        experiment.stats_config,
    ]
    return f"{experiment.id}_{hashlib.sha256(jsonio.canonical(jsonio.storable(said))).hexdigest()}"


def _lasts(metric: MetricResult) -> bool:
    """Whether it would be so again: a metric that nobody had time for may be measured next time."""
    return metric.error is None or metric.error.code not in (Throttled.code, Unavailable.code)


def _failed(document: Any, problem: Problem) -> MetricResult:
    """Of a metric that cannot be read, by what it says of itself."""
    said = document if isinstance(document, dict) else {}
    uuid = said.get("uuid")
    return MetricResult(
        uuid=uuid if isinstance(uuid, str) else None,
        name=str(said.get("name") or ""),
        metric_type=str(said.get("metric_type") or ""),
        goal="decrease" if said.get("goal") == "decrease" else "increase",
        baseline=None,
        variant_results=[],
        error=problem,
    )


def timelines(by_day: Mapping[str, Mapping[date, int]]) -> list[Timeline]:
    """How many there were by the end of each day, from the first day of all to the last; of very
    many days, the last ones."""
    days = [day for counts in by_day.values() for day in counts]
    if not days:
        return []
    last = max(days)
    number = min((last - min(days)).days + 1, MAX_DAYS)
    wanted = [last - timedelta(days=back) for back in reversed(range(number))]
    found = []
    for name, counts in by_day.items():
        so_far = sum(people for day, people in counts.items() if day < wanted[0])
        sums = []
        for day in wanted:
            so_far += counts.get(day, 0)
            sums.append(so_far)
        found.append(
            Timeline(variant=name, days=[day.isoformat() for day in wanted], exposure_counts=sums)
        )
    return found


def _sample_ratio(totals: Mapping[str, int], asked: Asked) -> SampleRatio | None:
    # A variant that nobody should get is no part of the question.
    wanted = {
        name: share for name, share in zip(asked.variants, asked.shares, strict=True) if share > 0
    }
    observed = [totals[name] for name in wanted]
    chance = statistics.mismatch(observed, list(wanted.values()))
    if chance is None:
        return None
    seen, whole = sum(observed), sum(wanted.values())
    is_mismatch = chance < statistics.MISMATCH_BELOW
    return SampleRatio(
        expected={name: round(seen * share / whole, 2) for name, share in wanted.items()},
        p_value=chance,
        is_mismatch=is_mismatch,
        warning=WARNING if is_mismatch else None,
    )


WARNING = (
    "People are spread over the variants unlike the flag's percentages, more than chance explains. "
    "Something is wrong with who is counted: do not trust the results before it is found."
)
