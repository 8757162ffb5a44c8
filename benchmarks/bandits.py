"""What a bandit costs and gains against an even split, with known conversion rates.

    python -m benchmarks.bandits [BANDITS]

Simulates bandits (50 by default) of three variants: 500 persons arrive between two reallocations,
of which there are 40, and the floor is 5 %. The split is computed by the code that the service
runs. Prints the conversions that are lost against a split that knew the best variant (regret), for
the bandit and for an even split, and how often the best variant has the most people at the end.
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
WORLDS = (
    ("one better by a tenth", (0.10, 0.11, 0.10)),
    ("one better by a fifth", (0.10, 0.12, 0.10)),
    ("one better by a half", (0.10, 0.15, 0.10)),
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


def main() -> None:
    bandits = int(sys.argv[1]) if len(sys.argv) > 1 else BANDITS
    people = ROUNDS * ARRIVALS
    print(f"{bandits} bandits of {people:,} persons each, floor {FLOOR_PERCENT} %")
    print("world                    regret of the bandit   even split   best has most   its share")
    for name, rates in WORLDS:
        random = np.random.default_rng(SEED)
        runs = [simulate(random, rates) for _ in range(bandits)]
        best = max(range(len(rates)), key=lambda number, rates=rates: rates[number])  # type: ignore[misc]
        lost = float(np.mean([run[0] for run in runs]))
        even = people * (max(rates) - sum(rates) / len(rates))
        wins = float(np.mean([run[1][best] == max(run[1]) for run in runs]))
        share = float(np.mean([run[1][best] for run in runs]))
        print(f"{name:24} {lost:20.1f} {even:12.1f} {wins:15.1%} {share:9.0f} %", flush=True)
    print(f"{process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
