"""How often the sequential test of guarded rollouts errs, and how soon it finds harm.

    python -m benchmarks.guarded_rollouts [ROLLOUTS]

Simulates rollouts (2,000 by default) of three steps, with a look after every 200 persons. Without
harm, the share of rollouts that any look stops must be at most alpha. With harm, it prints after
how many persons half and nine tenths of the rollouts have been stopped, in a step of 50 %.

Experiments count what persons do while one looks, so that their values grow. Then the guarantee is
not exact; the share of such experiments without effect that are ever significant is printed too.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from hedgerow.experiments.sequential import (
    MIN_PERSONS,
    MIN_UNUSUAL,
    GroupSums,
    build_mean_sums,
    compute_log_evidence,
    compute_size,
    estimate_error,
)

ALPHA = 0.05
SHARES = (0.05, 0.25, 0.5)
ROLLOUTS = 2_000
LOOK_PERSONS = 200
LOOKS = 100
SEED = 20_261_117
CHUNK = 100
# Persons of each variant who arrive between two looks at an experiment.
ARRIVALS = 10

# Draws the sums of each batch of so many persons; the last argument is how much worse it is.
Draw = Callable[[np.random.Generator, Any, float], GroupSums]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    draw: Draw
    is_increase_harm: bool = True
    is_proportion: bool = False


def draw_conversions(rate: float) -> Draw:
    def draw(random: np.random.Generator, persons: Any, factor: float) -> GroupSums:
        converted = random.binomial(persons, rate * factor)
        return build_mean_sums(
            persons=persons, total=converted, squares=converted, positive=converted
        )

    return draw


def draw_values(random: np.random.Generator, persons: Any, factor: float) -> GroupSums:
    """Latencies: lognormal, with a standard deviation of 53 % of the mean."""
    values = factor * np.exp(0.5 * random.standard_normal((*persons.shape, persons.max())))
    values *= np.arange(values.shape[-1]) < persons[..., None]
    total, squares = values.sum(axis=-1), (values * values).sum(axis=-1)
    return build_mean_sums(persons=persons, total=total, squares=squares, positive=persons)


def draw_ratio(random: np.random.Generator, persons: Any, factor: float) -> GroupSums:
    """Errors per request: each person has some requests, and an error rate of their own."""
    shape = (*persons.shape, persons.max())
    is_person = np.arange(shape[-1]) < persons[..., None]
    requests = (1 + random.poisson(4.0, shape)) * is_person
    errors = random.binomial(requests, np.clip(factor * random.beta(2.0, 18.0, shape), 0, 1))
    return GroupSums(
        persons=persons,
        numerator=errors.sum(axis=-1),
        denominator=requests.sum(axis=-1),
        numerator_squares=(errors * errors).sum(axis=-1),
        denominator_squares=(requests * requests).sum(axis=-1),
        products=(errors * requests).sum(axis=-1),
        positive=(errors > 0).sum(axis=-1),
    )


METRICS = (
    Metric(name="conversion of 20 %", draw=draw_conversions(0.2), is_increase_harm=False,
           is_proportion=True),
    Metric(name="error rate of 1 %", draw=draw_conversions(0.01), is_proportion=True),
    Metric(name="mean latency", draw=draw_values),
    Metric(name="errors per request", draw=draw_ratio),
)  # fmt: skip


def find_stops(
    metric: Metric, shape: tuple[int, int], share: float, alpha: float, **options: float
) -> Any:
    """Return for each simulated step the number of the look that stops it, -1 if none does."""
    random = np.random.default_rng(SEED + int(1_000 * share) + len(metric.name))
    found = []
    for start in range(0, shape[0], CHUNK):
        count = min(CHUNK, shape[0] - start)
        treated = random.binomial(LOOK_PERSONS, share, (count, shape[1]))
        sums = (
            _accumulate(metric.draw(random, treated, options.get("factor", 1.0))),
            _accumulate(metric.draw(random, LOOK_PERSONS - treated, 1.0)),
        )
        is_stopped = _is_stopped(metric, *sums, alpha)
        found.append(np.where(is_stopped.any(axis=1), is_stopped.argmax(axis=1), -1))
    return np.concatenate(found)


def _accumulate(sums: GroupSums) -> GroupSums:
    names = GroupSums.__slots__
    return GroupSums(**{name: getattr(sums, name).cumsum(axis=1) for name in names})


def _is_stopped(metric: Metric, treated: GroupSums, control: GroupSums, alpha: float) -> Any:
    both = treated.plus(control)
    rare = np.minimum(both.positive, both.persons - both.positive)
    unusual = rare if metric.is_proportion else both.positive
    is_ready = np.minimum(treated.persons, control.persons) >= MIN_PERSONS
    is_ready &= unusual >= MIN_UNUSUAL
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (treated.value - control.value) / estimate_error(treated, control)
        z = z if metric.is_increase_harm else -z
        evidence = compute_log_evidence(z, compute_size(treated, control))
    return is_ready & (evidence >= -np.log(alpha))


def count_false_stops(metrics: Sequence[Metric], rollouts: int, looks: int = LOOKS) -> int:
    """Simulate rollouts without harm that all these metrics guard; return how many are stopped."""
    alpha = ALPHA / (len(SHARES) * len(metrics))
    is_stopped = np.zeros(rollouts, dtype=bool)
    for metric in metrics:
        for share in SHARES:
            is_stopped |= find_stops(metric, (rollouts, looks), share, alpha) >= 0
    return int(is_stopped.sum())


def find_exposure(metric: Metric, factor: float, rollouts: int, looks: int) -> Any:
    """Return after how many persons each rollout with harm is stopped; infinite for none."""
    alpha = ALPHA / len(SHARES)
    stops = find_stops(metric, (rollouts, looks), 0.5, alpha, factor=factor)
    return np.where(stops < 0, np.inf, (stops + 1.0) * LOOK_PERSONS)


def count_false_effects(experiments: int) -> int:
    """Simulate experiments without effect whose persons go on buying, each at a rate of its own:
    at first persons arrive, then only their purchases. Return how many are ever significant."""
    random = np.random.default_rng(SEED)
    found = 0
    for start in range(0, experiments, CHUNK):
        count = min(CHUNK, experiments - start)
        rates = random.gamma(0.5, 0.2, (count, 2, ARRIVALS * LOOKS // 2))
        bought = np.zeros_like(rates)
        is_significant = np.zeros(count, dtype=bool)
        for look in range(1, LOOKS + 1):
            arrived = min(ARRIVALS * look, rates.shape[-1])
            bought[..., :arrived] += random.poisson(rates[..., :arrived])
            is_significant |= _is_significant(bought[..., :arrived])
        found += int(is_significant.sum())
    return found


def _is_significant(values: Any) -> Any:
    groups = [
        build_mean_sums(
            persons=values.shape[-1],
            total=values[:, group].sum(axis=-1),
            squares=(values[:, group] ** 2).sum(axis=-1),
            positive=(values[:, group] > 0).sum(axis=-1),
        )
        for group in (0, 1)
    ]
    is_ready = (values.shape[-1] >= MIN_PERSONS) & (
        groups[0].positive + groups[1].positive >= MIN_UNUSUAL
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        z = abs(groups[0].value - groups[1].value) / estimate_error(*groups)
    evidence = compute_log_evidence(z, compute_size(*groups))
    return is_ready & (evidence >= -np.log(ALPHA / 2))


HARMS = (
    (METRICS[0], 0.95, 1_500, "20 % → 19 %"),
    (METRICS[0], 0.75, 100, "20 % → 15 %"),
    (METRICS[1], 6.0, 100, "1 % → 6 %"),
    (METRICS[2], 1.05, 100, "+5 %"),
    (METRICS[3], 1.05, 400, "+5 %"),
)


def main(rollouts: int = ROLLOUTS) -> None:
    started = process_time()
    print(f"Without harm, {rollouts:,} rollouts each, alpha {ALPHA:.0%}:")
    for metric in METRICS:
        stopped = count_false_stops([metric], rollouts)
        print(f"  {metric.name:20} {stopped / rollouts:6.2%} stopped")
        assert stopped <= ALPHA * rollouts
    effects = count_false_effects(rollouts) / rollouts
    print(f"  {'values that grow':20} {effects:6.2%} of experiments ever significant")
    assert effects <= ALPHA
    print("With harm, persons until half and nine tenths of the rollouts are stopped:")
    for metric, factor, looks, harm in HARMS:
        count = max(rollouts // 10, 20)
        half, most = np.quantile(find_exposure(metric, factor, count, looks), [0.5, 0.9])
        print(f"  {metric.name:20} {harm:12} {half:9,.0f} {most:9,.0f}")
        assert np.isfinite(most)
    print(f"{process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:2]))
