"""What a bandit costs and gains against an even split, with known conversion rates.

    python -m benchmarks.bandits [BANDITS]

Simulates bandits (50 by default) of three variants: 500 persons arrive between two reallocations,
of which there are 40, and the floor is 5 %. The split is computed by the code that the service
runs. Prints the conversions that are lost against a split that knew the best variant (regret), for
the bandit and for an even split, how often the best variant has the most people at the end, and how
large the largest share is then. Without a difference there is no best variant: the largest share
says how far chance alone moves the split.
"""

import sys
from collections.abc import Sequence
from time import process_time

import numpy as np

from hedgerow.experiments.analysis import VariantMeasurement
from hedgerow.rollouts.bandits.allocation import (
    choose_split,
    compute_chances,
    find_lack,
    split_evenly,
)

BANDITS = 50
ROUNDS = 40
ARRIVALS = 500
FLOOR_PERCENT = 5
MIN_PERSONS = 100
SEED = 20_261_117
SURE_PERCENT = 80
WORLDS = (
    ("no difference", (0.10, 0.10, 0.10)),
    ("one better by a tenth", (0.10, 0.11, 0.10)),
    ("one better by a fifth", (0.10, 0.12, 0.10)),
    ("one better by a half", (0.10, 0.15, 0.10)),
    ("1 %, no difference", (0.010, 0.010, 0.010)),
    ("1 %, better by a fifth", (0.010, 0.012, 0.010)),
    ("1 %, better by a half", (0.010, 0.015, 0.010)),
    ("1 %, twice as good", (0.010, 0.020, 0.010)),
)


def simulate(random: np.random.Generator, rates: Sequence[float]) -> tuple[float, list[int]]:
    """Return the expected conversions that are lost, and the last split."""
    count, split = len(rates), split_evenly(len(rates))
    people, converted = np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    lost = 0.0
    for _ in range(ROUNDS):
        arrived = random.multinomial(ARRIVALS, np.array(split) / 100)
        people += arrived
        converted += random.binomial(arrived, rates)
        lost += float((arrived * (max(rates) - np.array(rates))).sum())
        found = [
            VariantMeasurement.from_funnel(str(n), int(people[n]), int(converted[n]))
            for n in range(count)
        ]
        if find_lack(found, MIN_PERSONS):
            continue
        chances = compute_chances(found, is_lower_better=False)
        if chances is not None:
            split = choose_split(chances, FLOOR_PERCENT)
    return lost, split


def _describe_best(rates: Sequence[float], runs: Sequence[tuple[float, list[int]]]) -> str:
    """Return how often the best variant has the most people, and its share."""
    if len(set(rates)) == 1:
        return "-"
    best = rates.index(max(rates))
    wins = float(np.mean([split[best] == max(split) for _, split in runs]))
    share = float(np.mean([split[best] for _, split in runs]))
    return f"{wins:.1%} {share:9.0f} %"


def main() -> None:
    bandits = int(sys.argv[1]) if len(sys.argv) > 1 else BANDITS
    people = ROUNDS * ARRIVALS
    print(f"{bandits} bandits of {people:,} persons each, floor {FLOOR_PERCENT} %")
    print(
        "world                    regret of the bandit   even split   best has most   its share"
        f"   largest share   over {SURE_PERCENT} %"
    )
    for name, rates in WORLDS:
        random = np.random.default_rng(SEED)
        runs = [simulate(random, rates) for _ in range(bandits)]
        lost = float(np.mean([run[0] for run in runs]))
        even = people * sum(max(rates) - rate for rate in rates) / len(rates)
        largest = [max(split) for _, split in runs]
        sure = float(np.mean([each > SURE_PERCENT for each in largest]))
        print(
            f"{name:24} {lost:20.1f} {even:12.1f} {_describe_best(rates, runs):>27}"
            f" {float(np.mean(largest)):13.0f} % {sure:9.1%}",
            flush=True,
        )
    print(f"{process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
