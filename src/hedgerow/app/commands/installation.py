"""Create an installation, and migrate its database."""

from hedgerow.app.state import (
    choose_initial_keys,
    ensure_data_dir,
    events_folder,
    state_location,
)
from hedgerow.lib.clock import utc_now
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.settings import Settings
from hedgerow.storage.backup.encryption_key_file import load_encryption_keys
from hedgerow.storage.events import replica_schema, schema
from hedgerow.storage.events.folder_lock import is_locked
from hedgerow.storage.migrations import apply
from hedgerow.storage.migrations.state import SchemaState


def create_installation(settings: Settings) -> InitialKeys | None:
    """Create everything that a service needs. Returns the first keys, or None if the installation
    exists already."""
    ensure_data_dir(settings.data_dir)
    keys = choose_initial_keys(settings)
    is_new = apply.prepare_database(state_location(settings), keys, utc_now)
    load_encryption_keys(settings.encryption_keys, settings.data_dir)
    return keys if is_new else None


def has_running_service(settings: Settings) -> bool:
    """Return whether a process has the embedded event store open, so that no other one can.

    Without an embedded one, several services can run, and the answer is no."""
    return not settings.clickhouse_url and is_locked(events_folder(settings))


def apply_migrations(settings: Settings) -> SchemaState:
    """Apply pending migrations. Returns the state from before."""
    ensure_data_dir(settings.data_dir)
    return apply.migrate(state_location(settings))


def build_cluster_ddl(cluster: str) -> list[str]:
    """Return the SQL that creates the event tables on a ClickHouse cluster."""
    return [
        *schema.build_cluster_ddl(cluster),
        *schema.build_cluster_upgrade_ddl(cluster),
        *replica_schema.build_cluster_ddl(cluster),
    ]
