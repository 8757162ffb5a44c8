"""The transformations of every project, as they are now: what becomes of its events."""

import asyncio
from collections import defaultdict
from collections.abc import Collection

from hedgerow.errors import AppError
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.config import Sealer
from hedgerow.pipelines.filters import check_settings, concerns
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.store import TransformationStore
from hedgerow.pipelines.transform import Chain, Step, failing, guarded
from hedgerow.pipelines.transforming import MakeTransform, Transform
from hedgerow.projects.model import ProjectId


class Transformations:
    """Read again for each project whose records have changed, once it has events."""

    def __init__(self, store: TransformationStore, catalogue: Catalogue, sealer: Sealer) -> None:
        self._store = store
        self._catalogue = catalogue
        self._sealer = sealer
        self._turn = asyncio.Lock()
        self._seen: dict[ProjectId, int] = {}
        # Projects without transformations have none.
        self.chains: dict[ProjectId, Chain] = {}

    async def refresh(self, project_ids: Collection[ProjectId]) -> None:
        async with self._turn:
            now = await self._store.generations_of(project_ids)
            changed = [id for id, number in now.items() if self._seen.get(id) != number]
            if not changed:
                return
            steps: dict[ProjectId, list[Step]] = defaultdict(list)
            for record in await self._store.transformations(changed):
                if (step := self.step(record)) is not None:
                    steps[record.project_id].append(step)
            for project_id in changed:
                self.chains.pop(project_id, None)
                if project_id in steps:
                    self.chains[project_id] = Chain(steps[project_id])
            self._seen |= now

    def step(self, record: Record) -> Step | None:
        """None where the component is not installed, which its record says."""
        component = self._catalogue.component(record.component_id)
        if component is None or component.transform is None:
            return None
        try:
            check_settings(component, record.config, self._sealer)
            transform = self._made(record, component, component.transform)
            applies = concerns(record.config)
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            problem = f"{setting}: {error.detail}" if setting else error.detail
            return Step(record_id=record.id, transform=failing(problem))
        except Exception as error:  # noqa: BLE001 - one record's defect stops no other project
            problem = f"The record cannot be used: {type(error).__name__}"
            return Step(record_id=record.id, transform=failing(problem))
        return Step(record_id=record.id, transform=transform, applies=applies)

    def _made(self, record: Record, component: Component, make: MakeTransform) -> Transform:
        plain = settings.unsealed(component, record.config, self._sealer)
        if self._catalogue.is_ours(record.component_id):
            return make(plain)
        try:
            return guarded(make(plain))
        except BaseException as error:  # noqa: BLE001 - also what usually ends a program
            return failing(f"The component failed: {type(error).__name__}")
