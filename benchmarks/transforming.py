"""What transformations cost per event: none, one and five of them, beside deciding about persons.

    python -m benchmarks.transforming

A project without transformations pays for finding that out; the ratio is that of the whole settle
decision with them to the same without. Time of the processor, so that others on the machine do not
count.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.person_changes import EVENTS, PAGE, PROJECT, event, known_after, nowhere
from hedgerow.capture.model import Accepted
from hedgerow.capture.repeats import KnownEvents
from hedgerow.capture.transform import Transforming
from hedgerow.kit.sealing import SealingKeys, new_sealing_key
from hedgerow.persons.process import process
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordId
from hedgerow.pipelines.transformations import Transformations
from hedgerow.projects.model import ProjectId

AT_ONCE = 500
ROUNDS = 5
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0"
SEALER = SealingKeys([new_sealing_key()])
# Each does something to every event, but for the drop, which looks at every event.
FIVE: Sequence[tuple[int, dict[str, Any]]] = (
    (61, {"properties": [{"key": "$pathname", "operator": "regex", "value": "^/admin"}]}),
    (62, {"names": {"$screen_width": "width"}}),
    (64, {"names": ["email"], "salt": {"$sealed": SEALER.seal("pepper")}}),
    (65, {}),
    (67, {"action": "mark", "words": ["acme"]}),
)
ONE = FIVE[3:4]


class Stored:
    """The records of the only project."""

    def __init__(self, wanted: Sequence[tuple[int, dict[str, Any]]]) -> None:
        now = event(0, {}).timestamp
        self._records = [
            Record(
                id=RecordId(number),
                project_id=PROJECT,
                family=Family.TRANSFORMATION,
                component_id=ComponentId(component),
                component_version="1.0.0",
                enabled=True,
                order=number,
                name="",
                description="",
                deleted=False,
                config=config,
                web_token="",
                created_at=now,
                updated_at=now,
            )
            for number, (component, config) in enumerate(wanted)
        ]

    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return self._records

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        return {PROJECT: 1}


async def measured(wanted: Sequence[tuple[int, dict[str, Any]]]) -> float:
    """Microseconds an event."""
    transforming = Transforming(Transformations(Stored(wanted), Catalogue(), SEALER))
    known = known_after(PAGE, nowhere)
    events = [
        event(
            number,
            {
                **PAGE,
                "email": f"person-{number}@example.com",
                "$raw_user_agent": BROWSER.format(100 + number % 50, 100 + number % 50),
            },
        )
        for number in range(EVENTS)
    ]
    none = KnownEvents((), {}, {})
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for first in range(0, EVENTS, AT_ONCE):
            some = events[first : first + AT_ONCE]
            row = Accepted(id=1, project_id=PROJECT, events=some, number=len(some))
            await transforming.refresh([row])
            transformed = await transforming.transformed([row], none)
            for each in transformed.rows:
                process(PROJECT, known, each.events, nowhere)
        best = min(best, time.process_time() - begun)
    return best / EVENTS * 1e6


async def main() -> None:
    without = 0.0
    for name, wanted in (("no", ()), ("one", ONE), ("five", FIVE)):
        spent = await measured(wanted)
        without = without or spent
        told = f"{spent - without:6.2f} us more, ratio {spent / without:.2f}"
        print(f"{name + ' transformation(s)':<24} {spent:6.2f} us an event, {told}")


if __name__ == "__main__":
    asyncio.run(main())
