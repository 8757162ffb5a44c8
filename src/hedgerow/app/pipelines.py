"""Pipeline records, their components and their transformations."""

from dataclasses import dataclass

import structlog

from hedgerow.lib.clock import utc_now
from hedgerow.lib.encryption import EncryptionKeys
from hedgerow.pipelines.catalogue import Catalogue, find_entry_points, load_components
from hedgerow.pipelines.records.as_code import RecordsAsCode
from hedgerow.pipelines.records.limits import EnabledLimits
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.pipelines.transformations.sandbox import Sandbox
from hedgerow.storage.engine.database import Database
from hedgerow.storage.pipelines.components import SqlComponentStore
from hedgerow.storage.pipelines.records import SqlRecordStore

_log = structlog.get_logger("hedgerow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelines:
    """Pipeline services on an open database."""

    encryption_keys: EncryptionKeys
    catalogue: Catalogue
    components: SqlComponentStore
    records: Records
    as_code: RecordsAsCode
    transformations: TransformationRegistry
    # Previews run in a separate process, so that a hanging one does not delay events.
    preview_transformations: TransformationRegistry
    processes: tuple[Sandbox, ...]

    def close(self) -> None:
        for each in self.processes:
            each.close()


def build_pipelines(
    database: Database, sealer: EncryptionKeys, limits: EnabledLimits | None = None
) -> Pipelines:
    catalogue = Catalogue()
    store = SqlRecordStore(database, limits)
    foreign, tried = Sandbox(), Sandbox()
    return Pipelines(
        encryption_keys=sealer,
        catalogue=catalogue,
        components=SqlComponentStore(database),
        records=Records(store, catalogue, sealer),
        as_code=RecordsAsCode(store, catalogue, sealer),
        transformations=TransformationRegistry(store, catalogue, sealer, foreign),
        preview_transformations=TransformationRegistry(store, catalogue, sealer, tried),
        processes=(foreign, tried),
    )


async def register_components(pipelines: Pipelines) -> None:
    """Load the components of installed packages and assign each its id."""
    components, broken = load_components(find_entry_points())
    for entry in broken:
        _log.warning("component failed to load", name=entry.name, reason=entry.reason)
    ids = await pipelines.components.component_ids(components, utc_now())
    pipelines.catalogue.add(ids, components, broken)
