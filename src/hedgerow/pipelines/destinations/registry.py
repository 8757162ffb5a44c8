"""The current destinations of every project, with their settings and routers."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import AppError
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.optional_packages import MissingPackage, name_error
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.deliveries.router import DestinationRouter, Route
from hedgerow.pipelines.destinations.attempt import DeliveryTarget
from hedgerow.pipelines.event_filters import (
    check_destination_settings,
    check_settings,
    compile_event_filter,
    is_of_activity_log,
)
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.secret_mask import build_mask
from hedgerow.pipelines.store import DestinationStore
from hedgerow.plugin.component import Component
from hedgerow.plugin.templates import load_liquid
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """An enabled record with its component and decrypted settings. With a `problem` nothing can be
    sent."""

    record: Record
    name: str
    target: DeliveryTarget
    problem: str

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.target.settings

    @property
    def batch_size(self) -> int:
        return int(self.settings.get("batch_size") or 1)

    @property
    def batch_ms(self) -> int:
        return int(self.settings.get("batch_seconds") or 0) * 1000

    @property
    def keeps_order(self) -> bool:
        return bool(self.settings.get("keep_order"))


class DestinationRegistry:
    """Reloads the destinations of a project when its records have changed."""

    def __init__(self, store: DestinationStore, catalogue: Catalogue, cipher: Cipher) -> None:
        self._store = store
        self._catalogue = catalogue
        self._cipher = cipher
        self._lock = asyncio.Lock()
        self._generations: Mapping[ProjectId, int] = {}
        self._by_project: dict[ProjectId, list[Destination]] = {}
        # Without an entry for projects that have no destinations.
        self.routers: dict[ProjectId, DestinationRouter] = {}
        self.enabled: Mapping[RecordId, Destination] = {}

    async def refresh(self) -> None:
        async with self._lock:
            now = await self._store.generations()
            changed = [id for id, number in now.items() if self._generations.get(id) != number]
            if not changed:
                return
            records: dict[ProjectId, list[Record]] = defaultdict(list)
            for record in await self._store.destinations(changed):
                records[record.project_id].append(record)
            if records:  # checking their templates needs Liquid, which takes long to load
                with suppress(MissingPackage):  # those without templates need none
                    await run_in_thread(load_liquid)
            for project_id in changed:
                self._replace(project_id, records[project_id])
            self.enabled = {
                each.record.id: each for some in self._by_project.values() for each in some
            }
            self._generations = now

    def _replace(self, project_id: ProjectId, records: list[Record]) -> None:
        destinations, routes = [], []
        for record in records:
            component = self._catalogue.component(record.component_id)
            if component is None or component.deliver is None:
                continue
            decrypted, problem = self._settings(record, component)
            try:
                route = _build_route(record)
            except Exception as error:  # noqa: BLE001 - one broken record stops no other
                route, decrypted, problem = None, {}, _describe_defect(error)
            if route:
                routes.append(route)
            if record.enabled:
                destinations.append(
                    Destination(
                        record=record,
                        name=record.name or component.name,
                        target=DeliveryTarget(
                            project_id=record.project_id,
                            record_id=record.id,
                            deliver=component.deliver,
                            settings=decrypted,
                            mask=build_mask(component, decrypted),
                        ),
                        problem=problem,
                    )
                )
        self._by_project[project_id] = destinations
        self.routers.pop(project_id, None)
        if routes:
            self.routers[project_id] = DestinationRouter(routes)

    def _settings(self, record: Record, component: Component) -> tuple[Mapping[str, Any], str]:
        """Return the decrypted settings, or the problem that makes them unusable."""
        if not record.enabled:
            return {}, ""
        try:
            check_settings(component, record.config, self._cipher)
            return settings.decrypt_settings(component, record.config, self._cipher), ""
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            problem = f"{setting}: {error.detail}" if setting else error.detail
            return {}, self._mask_problem(record, component, problem)
        except Exception as error:  # noqa: BLE001 - one broken record stops no other; its events wait
            return {}, _describe_defect(error)

    def _mask_problem(self, record: Record, component: Component, problem: str) -> str:
        """Mask secrets: a component's check may quote the value that it refuses."""
        try:
            decrypted = settings.decrypt_settings(component, record.config, self._cipher)
        except AppError:
            return problem
        return build_mask(component, decrypted).apply(problem)


def _describe_defect(error: Exception) -> str:
    return f"The record cannot be used: {name_error(error)}"


def _build_route(record: Record) -> Route | None:
    """Return the route of a record; None if no captured event can match it."""
    if (not record.enabled and not record.switches) or is_of_activity_log(record.config):
        return None
    try:
        check_destination_settings(record.config)
    except AppError:
        return None
    return Route(
        record_id=record.id,
        is_enabled=record.enabled,
        switches=record.switches,
        matches=compile_event_filter(record.config),
    )
