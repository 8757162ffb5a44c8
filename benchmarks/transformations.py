"""CPU time per event of none, one and five transformations, compared with processing persons.

    python -m benchmarks.transformations

The ratio compares processing with transformations to processing without. The last two lines measure
one transformation of a package in wall time, in this process and in the sandbox.
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
from hedgerow.ingestion.deduplication import ProcessedEvents
from hedgerow.ingestion.model import InboxRow
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.ingestion.transform_stage import TransformStage
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.pipelines.catalogue import Catalogue, find_entry_points, load_components
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.pipelines.transformations.sandbox import Sandbox
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId

BATCH_SIZE = 500
ROUNDS = 5
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0"
CIPHER = EncryptionKeys([generate_encryption_key()])
# Each changes every event, except the drop, which only checks it.
FIVE: Sequence[tuple[int, dict[str, Any]]] = (
    (61, {"properties": [{"key": "$pathname", "operator": "regex", "value": "^/admin"}]}),
    (62, {"names": {"$screen_width": "width"}}),
    (64, {"names": ["email"], "salt": {"$sealed": CIPHER.encrypt("pepper")}}),
    (65, {}),
    (67, {"action": "mark", "words": ["acme"]}),
)
ONE = FIVE[3:4]
# A package that adds a property.
PACKAGE = """
from hedgerow.plugin import Component, Family

COMPONENT = Component(
    key="acme/mark",
    family=Family.TRANSFORMATION,
    name="Mark",
    description="",
    version="1.0",
    transform=lambda settings: lambda event: event.with_properties({**event.properties, "mark": 1}),
)
"""
PACKAGE_COMPONENT_ID = 1000
FEW = 2_000


class Stored:
    """The records of the only project."""

    def __init__(self, records: Sequence[tuple[int, dict[str, Any]]]) -> None:
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
            for number, (component, config) in enumerate(records)
        ]

    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return self._records

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        return {PROJECT: 1}


@contextmanager
def package() -> Iterator[Catalogue]:
    """Installed for the time being."""
    with TemporaryDirectory() as folder:
        metadata = Path(folder) / "acme_mark-1.0.dist-info"
        metadata.mkdir()
        (Path(folder) / "acme_mark.py").write_text(PACKAGE)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_mark\nVersion: 1.0\n")
        entry_points = "[hedgerow.components]\nmark = acme_mark:COMPONENT\n"
        (metadata / "entry_points.txt").write_text(entry_points)
        os.environ["PYTHONPATH"] = folder
        sys.path.append(folder)
        components, broken = load_components(find_entry_points())
        catalogue = Catalogue()
        catalogue.add({"acme/mark": ComponentId(PACKAGE_COMPONENT_ID)}, components, broken)
        yield catalogue


async def measure(
    records: Sequence[tuple[int, dict[str, Any]]],
    catalogue: Catalogue,
    clock: Callable[[], float],
    sandbox: Sandbox | None = None,
    number: int = EVENTS,
) -> float:
    """Return the microseconds per event."""
    stage = TransformStage(TransformationRegistry(Stored(records), catalogue, CIPHER, sandbox))
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
    none = ProcessedEvents((), {}, {})
    best = float("inf")
    for _ in range(ROUNDS):
        start = clock()
        for first in range(0, number, BATCH_SIZE):
            some = events[first : first + BATCH_SIZE]
            row = InboxRow(id=1, project_id=PROJECT, events=some, number=len(some))
            await stage.refresh([row])
            transformed = await stage.apply([row], none)
            for left in transformed.rows:
                process_batch(PROJECT, known, left.events, nowhere)
        best = min(best, clock() - start)
    return best / number * 1e6


async def main() -> None:
    without = 0.0
    for name, records in (("no", ()), ("one", ONE), ("five", FIVE)):
        spent = await measure(records, Catalogue(), time.process_time)
        without = without or spent
        difference = f"{spent - without:6.2f} us more, ratio {spent / without:.2f}"
        print(f"{name + ' transformation(s)':<24} {spent:6.2f} us per event, {difference}")
    with package() as catalogue, closing(Sandbox()) as sandbox:
        for name, process in (("in this process", None), ("in the sandbox", sandbox)):
            records = ((PACKAGE_COMPONENT_ID, {}),)
            spent = await measure(records, catalogue, time.perf_counter, process, FEW)
            print(f"of a package, {name:<15} {spent:6.2f} us per event")


if __name__ == "__main__":
    asyncio.run(main())
