"""Early access features. A feature and its flag are stored in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from hedgerow.flags.early_access import (
    EarlyAccessFeature,
    FeatureContext,
    FeatureStage,
    FeatureStore,
    FeatureWrite,
)
from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags import owners
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.flags import (
    SqlFlagStore,
    find_flag,
    find_flags,
    flag_topic,
    parse_member,
    store_flag,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import early_access_features as table


class SqlFeatureStore(FeatureStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def features(self, project_id: ProjectId) -> Sequence[tuple[EarlyAccessFeature, Flag]]:
        def read(connection: Connection) -> list[tuple[EarlyAccessFeature, Flag]]:
            found = _read_all(connection, project_id)
            found.sort(key=lambda feature: (feature.created_at, feature.id), reverse=True)
            flags = find_flags(connection, project_id, {each.flag_id for each in found})
            return [(each, flags[each.flag_id]) for each in found]  # flag rows are never deleted

        return await self._database.read(read)

    async def by_flag(self, project_id: ProjectId) -> Mapping[FlagId, EarlyAccessFeature]:
        found = await self._database.read(lambda connection: _read_all(connection, project_id))
        return {feature.flag_id: feature for feature in found}

    async def write_feature(
        self,
        project_id: ProjectId,
        decide: Callable[[FeatureContext], FeatureWrite],
        now: datetime,
    ) -> tuple[EarlyAccessFeature, Flag]:
        def change(connection: Connection, gate: WriteGate) -> tuple[EarlyAccessFeature, Flag]:
            definitions = self._flags.lock_definitions(connection, project_id)
            stored = {feature.id: feature for feature in _read_all(connection, project_id)}
            write = decide(FeatureContext(definitions=definitions, features=stored))
            feature = write.feature
            is_new = feature.id not in stored
            if is_new:
                owners.check_not_owned_by_survey(connection, feature.flag_id, "feature_flag_id")
            if write.flag is not None:
                flag, _ = store_flag(connection, write.flag, now, gate)
                feature = replace(feature, flag_id=flag.id)
                generations.advance(connection, flag_topic(project_id))
            _write_row(connection, feature, is_new=is_new, is_deleted=write.is_deleted)
            entry = write.build_entry(feature)
            if entry is not None:
                activity.record(connection, entry, now)
            return feature, _read_flag(connection, feature)

        return await self._flags.write_gated(change)


def _write_row(
    connection: Connection, feature: EarlyAccessFeature, *, is_new: bool, is_deleted: bool
) -> None:
    values = asdict(feature) | {"stage": feature.stage.value, "payload": feature.payload}
    own = table.c.id == feature.id
    if is_deleted:
        connection.execute(delete(table).where(own))
    elif is_new:
        connection.execute(insert(table), values)
    else:
        connection.execute(update(table).where(own).values(**values))


def _read_all(connection: Connection, project_id: ProjectId) -> list[EarlyAccessFeature]:
    rows = connection.execute(select(table).where(table.c.project_id == project_id))
    return [_decode_feature(row) for row in rows]


def _decode_feature(row: Row[Any]) -> EarlyAccessFeature:
    """A feature at an unknown stage, written by a newer version, counts as a draft."""
    return EarlyAccessFeature(
        **{**row._mapping, "stage": parse_member(FeatureStage, row.stage, FeatureStage.DRAFT)}
    )


def _read_flag(connection: Connection, feature: EarlyAccessFeature) -> Flag:
    flag = find_flag(connection, feature.project_id, feature.flag_id)
    assert flag is not None  # flag rows are never deleted
    return flag
