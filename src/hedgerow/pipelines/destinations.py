"""The destinations that deliver, as they are now: where events go, and by which settings."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import AppError
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.config import Sealer
from hedgerow.pipelines.filters import check_destination, check_settings, wants
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.route import Route, Router
from hedgerow.pipelines.sending import Deliver
from hedgerow.pipelines.store import DestinationStore
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """An enabled record with its settings in the clear. With a `problem` nothing can be sent."""

    record: Record
    name: str
    deliver: Deliver
    settings: Mapping[str, Any]
    problem: str

    @property
    def batch_size(self) -> int:
        return int(self.settings.get("batch_size") or 1)

    @property
    def batch_ms(self) -> int:
        return int(self.settings.get("batch_seconds") or 0) * 1000

    @property
    def keeps_order(self) -> bool:
        return bool(self.settings.get("keep_order"))


class Destinations:
    """Read again for each project whose records have changed."""

    def __init__(self, store: DestinationStore, catalogue: Catalogue, sealer: Sealer) -> None:
        self._store = store
        self._catalogue = catalogue
        self._sealer = sealer
        self._turn = asyncio.Lock()
        self._seen: Mapping[ProjectId, int] = {}
        self._by_project: dict[ProjectId, list[Destination]] = {}
        # Projects without destinations have none.
        self.routers: dict[ProjectId, Router] = {}
        self.enabled: Mapping[RecordId, Destination] = {}

    async def refresh(self) -> None:
        async with self._turn:
            now = await self._store.generations()
            changed = [id for id, number in now.items() if self._seen.get(id) != number]
            if not changed:
                return
            records: dict[ProjectId, list[Record]] = defaultdict(list)
            for record in await self._store.destinations(changed):
                records[record.project_id].append(record)
            for project_id in changed:
                self._replace(project_id, records[project_id])
            self.enabled = {
                each.record.id: each for some in self._by_project.values() for each in some
            }
            self._seen = now

    def _replace(self, project_id: ProjectId, records: list[Record]) -> None:
        destinations, routes = [], []
        for record in records:
            component = self._catalogue.component(record.component_id)
            if component is None or component.deliver is None:
                continue
            plain, problem = self._settings(record, component)
            try:
                route = _route(record)
            except Exception as error:  # noqa: BLE001 - one record's defect stops no other
                route, plain, problem = None, {}, _unusable(error)
            if route:
                routes.append(route)
            if record.enabled:
                destinations.append(
                    Destination(
                        record=record,
                        name=record.name or component.name,
                        deliver=component.deliver,
                        settings=plain,
                        problem=problem,
                    )
                )
        self._by_project[project_id] = destinations
        self.routers.pop(project_id, None)
        if routes:
            self.routers[project_id] = Router(routes)

    def _settings(self, record: Record, component: Component) -> tuple[Mapping[str, Any], str]:
        """In the clear, or why they cannot be used."""
        if not record.enabled:
            return {}, ""
        try:
            check_settings(component, record.config, self._sealer)
            return settings.unsealed(component, record.config, self._sealer), ""
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            return {}, f"{setting}: {error.detail}" if setting else error.detail
        except Exception as error:  # noqa: BLE001 - here too; what is meant for it waits
            return {}, _unusable(error)


def _unusable(error: Exception) -> str:
    return f"The record cannot be used: {type(error).__name__}"


def _route(record: Record) -> Route | None:
    """None if nothing can be meant for it."""
    if not record.enabled and not record.switches:
        return None
    try:
        check_destination(record.config)
    except AppError:
        return None
    return Route(
        record_id=record.id,
        is_enabled=record.enabled,
        switches=record.switches,
        wants=wants(record.config),
    )
