"""The figures of what-if, as the API returns them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hedgerow.flags.evaluation.comparison import OTHER, ChangeKey, ComparisonCounts
from hedgerow.flags.evaluation.what_if import WhatIfResult
from hedgerow.lib.clock import format_iso

MAX_LISTED_SEGMENTS = 25


class MetricCount(msgspec.Struct, kw_only=True):
    """`persons` have done the event in the period, `events` times in all."""

    persons: int
    events: int


class SampledPerson(msgspec.Struct, kw_only=True):
    distinct_id: str
    person_id: str


class WhatIfChange(msgspec.Struct, kw_only=True):
    before: str
    after: str
    persons: int
    sample: Sequence[SampledPerson]
    metric: MetricCount | None


class WhatIfSegment(msgspec.Struct, kw_only=True):
    """People with one value of the person property; "(none)" without it, "(other)" for the rest."""

    value: str
    persons: int
    changed_persons: int
    metric: MetricCount | None


class WhatIfMetric(msgspec.Struct, kw_only=True):
    event: str
    changed: MetricCount
    unchanged: MetricCount


class WhatIfItem(msgspec.Struct, kw_only=True):
    """Counts of `evaluated_persons`, a random sample of the `total_persons` if there are fewer.
    `stopped_by` says why: `row_limit` or `time_limit`. Each person is evaluated with its latest
    distinct id and the groups of that event. `before` and `after` count people by value."""

    days: int
    date_from: str
    population: str
    total_persons: int
    evaluated_persons: int
    is_complete: bool
    stopped_by: str | None
    changed_persons: int
    changed_percent: float | None
    before: Mapping[str, int]
    after: Mapping[str, int]
    changes: Sequence[WhatIfChange]
    segments: Sequence[WhatIfSegment] | None
    metric: WhatIfMetric | None


def render_what_if(result: WhatIfResult) -> WhatIfItem:
    counts, question = result.counts, result.question
    return WhatIfItem(
        days=question.days,
        date_from=format_iso(result.since),
        population=question.population.value,
        total_persons=result.total,
        evaluated_persons=counts.evaluated,
        is_complete=counts.evaluated == result.total,
        stopped_by=result.stopped_by,
        changed_persons=counts.changed,
        changed_percent=_percent(counts),
        before=_count_values(counts, 0),
        after=_count_values(counts, 1),
        changes=_render_changes(result),
        segments=_render_segments(result) if question.segment else None,
        metric=_render_metric(result) if question.metric else None,
    )


def _percent(counts: ComparisonCounts) -> float | None:
    return round(100 * counts.changed / counts.evaluated, 2) if counts.evaluated else None


def _count_values(counts: ComparisonCounts, side: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    for key, count in counts.persons.items():
        found[key[side]] += count
    return dict(sorted(found.items()))


def _render_changes(result: WhatIfResult) -> list[WhatIfChange]:
    counts = result.counts
    pairs: Counter[tuple[str, str]] = Counter()
    for (before, after, _), count in counts.persons.items():
        if before != after:
            pairs[before, after] += count
    return [
        WhatIfChange(
            before=before,
            after=after,
            persons=count,
            sample=[
                SampledPerson(distinct_id=distinct_id, person_id=person_id)
                for distinct_id, person_id in counts.samples.get((before, after), ())
            ],
            metric=_measure(result, lambda key, pair=(before, after): key[:2] == pair),
        )
        for (before, after), count in sorted(pairs.items(), key=lambda each: (-each[1], each[0]))
    ]


def _render_segments(result: WhatIfResult) -> list[WhatIfSegment]:
    """The largest segments, and all others as one."""
    sizes: Counter[str] = Counter()
    for (_, _, segment), count in result.counts.persons.items():
        sizes[segment] += count
    sizes.pop(OTHER, None)
    largest = sorted(sizes, key=lambda each: (-sizes[each], each))[:MAX_LISTED_SEGMENTS]
    listed = set(largest)
    found = [
        _render_segment(result, value, lambda key, value=value: key[2] == value)
        for value in largest
    ]
    rest = _render_segment(result, OTHER, lambda key: key[2] not in listed)
    return [*found, rest] if rest.persons else found


def _render_segment(result: WhatIfResult, value: str, is_in: Any) -> WhatIfSegment:
    own = {key: count for key, count in result.counts.persons.items() if is_in(key)}
    return WhatIfSegment(
        value=value,
        persons=sum(own.values()),
        changed_persons=sum(count for key, count in own.items() if key[0] != key[1]),
        metric=_measure(result, is_in),
    )


def _render_metric(result: WhatIfResult) -> WhatIfMetric:
    changed = _measure(result, lambda key: key[0] != key[1])
    unchanged = _measure(result, lambda key: key[0] == key[1])
    assert changed is not None
    assert unchanged is not None
    return WhatIfMetric(event=result.question.metric, changed=changed, unchanged=unchanged)


def _measure(result: WhatIfResult, is_in: Any) -> MetricCount | None:
    """Sum the metric of the people for whom `is_in(key)`."""
    if not result.question.metric:
        return None

    def total(counter: Counter[ChangeKey]) -> int:
        return sum(count for key, count in counter.items() if is_in(key))

    return MetricCount(
        persons=total(result.counts.metric_persons), events=total(result.counts.metric_events)
    )
