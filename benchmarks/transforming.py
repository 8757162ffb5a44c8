"""What transformations cost per event: none, one and five of them, beside deciding about persons.

    python -m benchmarks.transforming

A project without transformations pays for finding that out; the ratio is that of the whole settle
decision with them to the same without. Time of the processor, so that others on the machine do not
count. The last line is one of a package, in its process apart, by the clock on the wall.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.person_changes import EVENTS, PAGE, PROJECT, event, known_after, nowhere
from hedgerow.ingestion.model import Accepted
from hedgerow.ingestion.repeats import KnownEvents
from hedgerow.ingestion.transform import Transforming
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.persons.process import process
from hedgerow.pipelines.catalogue import Catalogue, installed, load_components
from hedgerow.pipelines.foreign import Foreign
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
# Adds a property, as somebody else's would.
PACKAGE = """
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.model import Family

COMPONENT = Component(
    key="acme/mark",
    family=Family.TRANSFORMATION,
    name="Mark",
    description="",
    version="1.0",
    transform=lambda settings: lambda event: event.having({**event.properties, "mark": 1}),
)
"""
OF_PACKAGE = 1000
FEW = 2_000


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


@contextmanager
def package() -> Iterator[Catalogue]:
    """Installed for the time being."""
    with TemporaryDirectory() as folder:
        facts = Path(folder) / "acme_mark-1.0.dist-info"
        facts.mkdir()
        (Path(folder) / "acme_mark.py").write_text(PACKAGE)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_mark\nVersion: 1.0\n")
        named = "[hedgerow.components]\nmark = acme_mark:COMPONENT\n"
        (facts / "entry_points.txt").write_text(named)
        os.environ["PYTHONPATH"] = folder
        sys.path.append(folder)
        components, broken = load_components(installed())
        catalogue = Catalogue()
        catalogue.add({"acme/mark": ComponentId(OF_PACKAGE)}, components, broken)
        yield catalogue


async def measured(
    wanted: Sequence[tuple[int, dict[str, Any]]],
    catalogue: Catalogue,
    clock: Callable[[], float],
    foreign: Foreign | None = None,
    number: int = EVENTS,
) -> float:
    """Microseconds an event."""
    transforming = Transforming(Transformations(Stored(wanted), catalogue, SEALER, foreign))
    known = known_after(PAGE, nowhere)
    events = [
        event(
            each,
            {
                **PAGE,
                "email": f"person-{each}@example.com",
                "$raw_user_agent": BROWSER.format(100 + each % 50, 100 + each % 50),
            },
        )
        for each in range(number)
    ]
    none = KnownEvents((), {}, {})
    best = float("inf")
    for _ in range(ROUNDS):
        begun = clock()
        for first in range(0, number, AT_ONCE):
            some = events[first : first + AT_ONCE]
            row = Accepted(id=1, project_id=PROJECT, events=some, number=len(some))
            await transforming.refresh([row])
            transformed = await transforming.transformed([row], none)
            for left in transformed.rows:
                process(PROJECT, known, left.events, nowhere)
        best = min(best, clock() - begun)
    return best / number * 1e6


async def main() -> None:
    without = 0.0
    for name, wanted in (("no", ()), ("one", ONE), ("five", FIVE)):
        spent = await measured(wanted, Catalogue(), time.process_time)
        without = without or spent
        told = f"{spent - without:6.2f} us more, ratio {spent / without:.2f}"
        print(f"{name + ' transformation(s)':<24} {spent:6.2f} us an event, {told}")
    with package() as catalogue, closing(Foreign()) as foreign:
        for name, apart in (("in this process", None), ("apart", foreign)):
            wanted = ((OF_PACKAGE, {}),)
            spent = await measured(wanted, catalogue, time.perf_counter, apart, FEW)
            print(f"of a package, {name:<15} {spent:6.2f} us an event")


if __name__ == "__main__":
    asyncio.run(main())
