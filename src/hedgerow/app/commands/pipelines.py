"""Open pipeline records with their components and encryption keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.commands.state import open_state
from hedgerow.app.state import WRONG_ENCRYPTION_KEY, State
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.pipelines.catalogue import Catalogue, find_entry_points, load_components
from hedgerow.pipelines.records.as_code import RecordsAsCode
from hedgerow.pipelines.records.documents import RecordDocuments
from hedgerow.pipelines.records.limits import EnabledLimits
from hedgerow.settings import Settings
from hedgerow.storage.backup import encryption_check, re_encryption
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.engine.database import Database
from hedgerow.storage.pipelines.components import SqlComponentStore
from hedgerow.storage.pipelines.records import SqlRecordStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCommands:
    """Pipeline records of an installation, for commands."""

    state: State
    catalogue: Catalogue
    documents: RecordDocuments
    encryption_keys: EncryptionKeys

    async def re_encrypt(self) -> int:
        """Encrypt all stored secrets with the newest key. Returns the number of records."""
        return await re_encryption.re_encrypt(self.state.database, self.encryption_keys)


@asynccontextmanager
async def open_pipelines(
    settings: Settings, *, needs_keys: bool
) -> AsyncIterator[PipelineCommands]:
    """Open the pipeline records. A command that writes secrets needs the keys of the service."""
    async with open_state(settings) as state:
        if needs_keys:
            keys = await _load_keys(settings, state.database)
        else:
            keys = EncryptionKeys([generate_encryption_key()])
        catalogue = await _load_catalogue(state.database)
        store = SqlRecordStore(
            state.database,
            EnabledLimits(
                destinations=settings.max_enabled_destinations,
                transformations=settings.max_enabled_transformations,
            ),
        )
        yield PipelineCommands(
            state=state,
            catalogue=catalogue,
            documents=RecordDocuments(RecordsAsCode(store, catalogue, keys), catalogue),
            encryption_keys=keys,
        )


async def _load_keys(settings: Settings, database: Database) -> EncryptionKeys:
    is_first = await database.read(encryption_check.has_no_probe)
    keys = load_encryption_keys(settings.encryption_keys, settings.data_dir, create=is_first)
    if not await encryption_check.check_keys(database, keys):
        raise OperatorError(f"Nothing was changed: {WRONG_ENCRYPTION_KEY}.")
    return keys


async def _load_catalogue(database: Database) -> Catalogue:
    components, broken = load_components(find_entry_points())
    ids = await SqlComponentStore(database).component_ids(components, utc_now())
    catalogue = Catalogue()
    catalogue.add(ids, components, broken)
    return catalogue
