"""Insights over random events, compared with a plain reading of their definitions in Python."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.contract.insights.world import ask, send

START = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 8
JUNE = {"date_from": "2026-06-01", "date_to": "2026-06-08"}
NAMES = ("r.a", "r.b", "r.c", "r.x")
# Seconds since the start, name, color.
Events = dict[str, list[tuple[int, str, str]]]


def make_events() -> Events:
    chance = random.Random(17)
    events: Events = {}
    for person in range(25):
        moments = sorted(chance.sample(range(0, DAYS * 86_400, 1800), chance.randint(1, 14)))
        events[f"random-{person}"] = [
            (at, chance.choice(NAMES), chance.choice(("red", "blue", "green"))) for at in moments
        ]
    return events


EVENTS = make_events()


@pytest.fixture(scope="module", autouse=True)
def world(client: httpx.Client) -> None:
    send(
        client,
        *(
            {
                "event": name,
                "distinct_id": person,
                "timestamp": (START + timedelta(seconds=at)).isoformat(),
                "properties": {"color": color},
            }
            for person, mine in EVENTS.items()
            for at, name, color in mine
        ),
    )


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "EventsNode", "event": name, **fields}


def reach(
    mine: Sequence[tuple[int, str, str]], steps: Sequence[str], window: int, order: str
) -> int:
    """Return how many steps the best attempt of one person reaches."""
    best = 0
    for number, (start, name, _) in enumerate(mine):
        later = [(at, what) for at, what, _ in mine[number + 1 :] if at <= start + window]
        if order == "unordered":
            if name in steps:
                # Each event is one step.
                wanted, seen = Counter(steps), Counter([name, *(what for _, what in later)])
                best = max(best, (wanted & seen).total())
            continue
        if name != steps[0]:
            continue
        level = 1
        for _, what in later:
            if level < len(steps) and what == steps[level]:
                level += 1
            elif order == "strict":
                break
        best = max(best, level)
    return best


@pytest.mark.parametrize("order", ["ordered", "strict", "unordered"])
@pytest.mark.parametrize("hours", [6, 30, 24 * DAYS])
@pytest.mark.parametrize(
    "steps",
    [
        ("r.a", "r.b"),
        ("r.b", "r.a", "r.c"),
        ("r.c", "r.x", "r.a", "r.b"),
        ("r.a", "r.a"),
        ("r.a", "r.b", "r.a"),
        ("r.b", "r.a", "r.a", "r.a"),
    ],
)
def test_funnels(client: httpx.Client, order: str, hours: int, steps: tuple[str, ...]) -> None:
    levels = [reach(mine, steps, hours * 3600, order) for mine in EVENTS.values()]
    expected = [sum(level >= number for level in levels) for number in range(1, len(steps) + 1)]
    options = {
        "funnelOrderType": order,
        "funnelWindowInterval": hours,
        "funnelWindowIntervalUnit": "hour",
    }
    found = ask(
        client,
        "FunnelsQuery",
        series=[node(name) for name in steps],
        dateRange=JUNE,
        funnelsFilter=options,
    )["results"]
    assert [each["count"] for each in found] == expected


def follow(
    mine: Sequence[tuple[int, str, str]], steps: Sequence[str], optional: set[int], window: int
) -> list[int]:
    """Return the times of the best attempt of one person, 0 for a step that it leaves out."""
    best: tuple[int, int, int, int] = (0, 0, 0, 0)
    found = [0] * len(steps)
    for number, (start, name, _) in enumerate(mine):
        if name != steps[0]:
            continue
        later = [(at, what) for at, what, _ in mine[number + 1 :] if at <= start + window]
        # One is added, because an event may be at 0.
        times = [start + 1] + [0] * (len(steps) - 1)
        last = 0
        for step in [each for each in range(1, len(steps)) if each not in optional] + [len(steps)]:
            after = [(at, what) for at, what in later if at + 1 > times[last]]
            wanted = steps[step] if step < len(steps) else None
            until = next((at for at, what in after if what == wanted), None)
            bound = until if until is not None else 10**9
            for between in reversed(range(last + 1, step)):
                seen = next((at for at, what in after if what == steps[between]), None)
                if seen is not None and seen < bound:
                    times[between], bound = seen + 1, seen
            if until is None:
                break
            times[step], last = until + 1, step
        furthest = max(n for n, at in enumerate(times) if at)
        bits = sum(2**n for n, at in enumerate(times) if at)
        if (rank := (furthest + 1, -times[furthest], bits, start)) > best:
            best, found = rank, times
    return found


@pytest.mark.parametrize("hours", [6, 30, 24 * DAYS])
@pytest.mark.parametrize(
    ("steps", "optional"),
    [
        (("r.a", "r.b", "r.c"), {1}),
        (("r.a", "r.b", "r.c"), {2}),
        (("r.c", "r.x", "r.a", "r.b"), {1, 2}),
        (("r.b", "r.a", "r.c", "r.x"), {1, 3}),
    ],
)
def test_optional_steps(
    client: httpx.Client, steps: tuple[str, ...], optional: set[int], hours: int
) -> None:
    reached = [follow(mine, steps, optional, hours * 3600) for mine in EVENTS.values()]
    found = ask(
        client,
        "FunnelsQuery",
        series=[node(name, optionalInFunnel=n in optional) for n, name in enumerate(steps)],
        dateRange=JUNE,
        funnelsFilter={"funnelWindowInterval": hours, "funnelWindowIntervalUnit": "hour"},
    )["results"]
    assert [each["count"] for each in found] == [
        sum(bool(times[n]) for times in reached) for n in range(len(steps))
    ]


def test_funnels_with_an_exclusion(client: httpx.Client) -> None:
    """An attempt ends with an excluded event before the second step. Who would have got furthest
    with it does not count."""

    def best(mine: Sequence[tuple[int, str, str]], window: int) -> int:
        level = ended = 0
        for number, (start, name, _) in enumerate(mine):
            if name != "r.a":
                continue
            later = [what for at, what, _ in mine[number + 1 :] if at <= start + window]
            until = later.index("r.b") if "r.b" in later else len(later)
            reached = 2 if "r.b" in later else 1
            if "r.x" in later[:until]:
                ended = max(ended, reached)
            else:
                level = max(level, reached)
        return level if level >= ended else 0

    levels = [best(mine, 86_400) for mine in EVENTS.values()]
    found = ask(
        client,
        "FunnelsQuery",
        series=[node("r.a"), node("r.b")],
        dateRange=JUNE,
        funnelsFilter={
            "funnelWindowInterval": 1,
            "exclusions": [node("r.x", funnelFromStep=0, funnelToStep=1)],
        },
    )["results"]
    assert [each["count"] for each in found] == [
        sum(level >= 1 for level in levels),
        sum(level >= 2 for level in levels),
    ]


def test_retention(client: httpx.Client) -> None:
    expected = [[0] * DAYS for _ in range(DAYS)]
    for mine in EVENTS.values():
        days = {at // 86_400 for at, name, _ in mine if name == "r.a"}
        back = {at // 86_400 for at, name, _ in mine if name == "r.b"}
        for base in days:
            for gap in range(DAYS - base):
                expected[base][gap] += gap == 0 or base + gap in back
    found = ask(
        client,
        "RetentionQuery",
        dateRange={"date_to": "2026-06-08"},
        retentionFilter={
            "totalIntervals": DAYS,
            "targetEntity": {"id": "r.a", "type": "events"},
            "returningEntity": {"id": "r.b", "type": "events"},
        },
    )["results"]
    assert [[each["count"] for each in row["values"]] for row in found] == expected


def test_trends(client: httpx.Client) -> None:
    people: dict[str, list[set[str]]] = defaultdict(lambda: [set() for _ in range(DAYS)])
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * DAYS)
    for person, mine in EVENTS.items():
        for at, name, color in mine:
            if name == "r.a":
                people[color][at // 86_400].add(person)
                counts[color][at // 86_400] += 1
    by_color = {"breakdownFilter": {"breakdown": "color"}, "dateRange": JUNE}
    for math, expected in (
        ("total", dict(counts)),
        ("dau", {color: [len(each) for each in days] for color, days in people.items()}),
    ):
        found = ask(client, "TrendsQuery", series=[node("r.a", math=math)], **by_color)["results"]
        assert {each["breakdown_value"]: each["data"] for each in found} == expected
    weekly = ask(client, "TrendsQuery", series=[node("r.a", math="weekly_active")], dateRange=JUNE)[
        "results"
    ][0]["data"]
    everybody = [set().union(*(people[color][day] for color in people)) for day in range(DAYS)]
    assert weekly == [
        len(set().union(*everybody[max(0, day - 6) : day + 1])) for day in range(DAYS)
    ]
