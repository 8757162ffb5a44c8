"""The current transformation chain of every project."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from hedgerow.errors import AppError
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.optional_packages import name_error
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.event_filters import check_settings, compile_transformation_filter
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.secret_mask import SecretMask, build_mask
from hedgerow.pipelines.store import TransformationStore
from hedgerow.pipelines.transformations.chain import (
    ChainStep,
    TransformationChain,
    fail_always,
    guard_transform,
)
from hedgerow.pipelines.transformations.sandbox import Sandbox
from hedgerow.plugin.component import Component
from hedgerow.plugin.transform import BuildTransform, Transform
from hedgerow.projects.model import ProjectId


class TransformationRegistry:
    """Reloads the chain of a project when its records have changed and it has events. Without a
    `sandbox`, components of packages run in this process."""

    def __init__(
        self,
        store: TransformationStore,
        catalogue: Catalogue,
        cipher: Cipher,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._store = store
        self._sandbox = sandbox
        self._catalogue = catalogue
        self._cipher = cipher
        self._lock = asyncio.Lock()
        self._generations: dict[ProjectId, int] = {}
        # Without an entry for projects that have no transformations.
        self.chains: dict[ProjectId, TransformationChain] = {}

    async def refresh(self, project_ids: Collection[ProjectId]) -> None:
        async with self._lock:
            now = await self._store.generations_of(project_ids)
            changed = [id for id, number in now.items() if self._generations.get(id) != number]
            if not changed:
                return
            steps: dict[ProjectId, list[ChainStep]] = defaultdict(list)
            for record in await self._store.transformations(changed):
                if (step := self.build_step(record)) is not None:
                    steps[record.project_id].append(step)
            for project_id in changed:
                self.chains.pop(project_id, None)
                if project_id in steps:
                    self.chains[project_id] = TransformationChain(steps[project_id])
            self._generations |= now

    def build_step(self, record: Record) -> ChainStep | None:
        """Return the step of a record; None if its component is not installed."""
        component = self._catalogue.component(record.component_id)
        if component is None or component.transform is None:
            return None
        mask = SecretMask()
        try:
            mask = build_mask(component, self._decrypt(record, component))
            check_settings(component, record.config, self._cipher)
            transform = self._build_transform(record, component, component.transform)
            filter = compile_transformation_filter(record.config)
        except AppError as error:
            setting = (error.attr or "").removeprefix("config__")
            problem = f"{setting}: {error.detail}" if setting else error.detail
            return ChainStep(record_id=record.id, transform=fail_always(problem), mask=mask)
        except Exception as error:  # noqa: BLE001 - one broken record stops no other project
            problem = f"The record cannot be used: {name_error(error)}"
            return ChainStep(record_id=record.id, transform=fail_always(problem))
        return ChainStep(record_id=record.id, transform=transform, filter=filter, mask=mask)

    def _decrypt(self, record: Record, component: Component) -> Mapping[str, Any]:
        return settings.decrypt_settings(component, record.config, self._cipher)

    def _build_transform(
        self, record: Record, component: Component, make: BuildTransform
    ) -> Transform:
        decrypted = self._decrypt(record, component)
        if self._catalogue.is_builtin(record.component_id):
            return make(decrypted)
        if self._sandbox is not None:
            return self._sandbox.transform(component.key, decrypted)
        try:
            return guard_transform(make(decrypted))
        except BaseException as error:  # noqa: BLE001 - a package may even raise SystemExit
            return fail_always(f"The component failed: {name_error(error)}")
