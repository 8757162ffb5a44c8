"""The room of pipeline records, joined with its storage, its components and the sealing keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from hedgerow.app.state import State, opened_state
from hedgerow.errors import Unready
from hedgerow.lib.clock import utc_now
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.pipelines.as_code import AsCode
from hedgerow.pipelines.catalogue import Catalogue, installed, load_components
from hedgerow.pipelines.foreign import Foreign
from hedgerow.pipelines.records import Records
from hedgerow.pipelines.transformations import Transformations
from hedgerow.settings import Settings
from hedgerow.storage import sealing_check
from hedgerow.storage.components import ComponentRecords
from hedgerow.storage.database import Database
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.storage.sealing_file import sealing_keys

WRONG_SEALING_KEY = (
    "the sealing key is not the one that sealed the stored secrets: bring sealing.key or "
    "HEDGEROW_SEALING_KEYS back. Nothing was changed; those secrets cannot be used until then"
)

_log = structlog.get_logger("hedgerow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelines:
    """The room of pipeline records, on an open database."""

    sealer: SealingKeys
    catalogue: Catalogue
    components: ComponentRecords
    records: Records
    as_code: AsCode
    transformations: Transformations
    # Those that are tried out have a process of their own: no event waits for one that hangs.
    tried: Transformations
    processes: tuple[Foreign, ...]

    def close(self) -> None:
        for each in self.processes:
            each.close()


def join_pipelines(database: Database, sealer: SealingKeys) -> Pipelines:
    catalogue = Catalogue()
    store = PipelineRecords(database)
    foreign, tried = Foreign(), Foreign()
    return Pipelines(
        sealer=sealer,
        catalogue=catalogue,
        components=ComponentRecords(database),
        records=Records(store, catalogue, sealer),
        as_code=AsCode(store, catalogue, sealer),
        transformations=Transformations(store, catalogue, sealer, foreign),
        tried=Transformations(store, catalogue, sealer, tried),
        processes=(foreign, tried),
    )


@asynccontextmanager
async def opened_pipelines(
    settings: Settings, *, seals: bool
) -> AsyncIterator[tuple[State, Pipelines]]:
    """For verbs that work on pipeline records of a prepared database. One that `seals` secrets
    must have the keys that the service has; the others can do without."""
    async with opened_state(settings) as state:
        if seals:
            sealer = await _fitting_keys(settings, state.database)
        else:
            sealer = SealingKeys([new_sealing_key()])
        pipelines = join_pipelines(state.database, sealer)
        await register_components(pipelines)
        yield state, pipelines


async def _fitting_keys(settings: Settings, database: Database) -> SealingKeys:
    is_first = await database.read(sealing_check.has_no_mark)
    keys = sealing_keys(settings.sealing_keys, settings.data, make=is_first)
    if not await sealing_check.keys_fit(database, keys):
        raise Unready(f"Nothing was changed: {WRONG_SEALING_KEY}.")
    return keys


async def register_components(pipelines: Pipelines) -> None:
    """Load what packages offer and give each component its number."""
    components, broken = load_components(installed())
    for entry in broken:
        _log.warning("a component cannot be loaded", name=entry.name, reason=entry.reason)
    ids = await pipelines.components.component_ids(components, utc_now())
    pipelines.catalogue.add(ids, components, broken)
