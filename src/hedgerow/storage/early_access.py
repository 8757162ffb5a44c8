"""Early access features' SQL. A feature and its flag are stored in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from hedgerow.flags.early_access import Feature, FeatureWrite, Stage, Surroundings
from hedgerow.flags.model import Flag, FlagId
from hedgerow.projects.model import ProjectId
from hedgerow.storage import activity, flag_owners, generations
from hedgerow.storage.database import Database
from hedgerow.storage.flags import (
    FlagRecords,
    find_flag,
    find_flags,
    member,
    store_and_tell,
    topic_of,
)
from hedgerow.storage.tables import early_access_features as table


class FeatureRecords:
    def __init__(self, database: Database, flags: FlagRecords) -> None:
        self._database = database
        self._flags = flags

    async def features(self, project_id: ProjectId) -> Sequence[tuple[Feature, Flag]]:
        def read(connection: Connection) -> list[tuple[Feature, Flag]]:
            found = _all(connection, project_id)
            found.sort(key=lambda feature: (feature.created_at, feature.id), reverse=True)
            flags = find_flags(connection, project_id, {each.flag_id for each in found})
            return [(each, flags[each.flag_id]) for each in found]  # flags' rows are never removed

        return await self._database.read(read)

    async def by_flag(self, project_id: ProjectId) -> Mapping[FlagId, Feature]:
        found = await self._database.read(lambda connection: _all(connection, project_id))
        return {feature.flag_id: feature for feature in found}

    async def write_feature(
        self,
        project_id: ProjectId,
        decide: Callable[[Surroundings], FeatureWrite],
        now: datetime,
    ) -> tuple[Feature, Flag]:
        def change(connection: Connection) -> tuple[Feature, Flag]:
            definitions = self._flags.locked_definitions(connection, project_id)
            stored = {feature.id: feature for feature in _all(connection, project_id)}
            wish = decide(Surroundings(definitions=definitions, features=stored))
            feature = wish.feature
            is_new = feature.id not in stored
            if is_new:
                flag_owners.check_no_surveys(connection, feature.flag_id, "feature_flag_id")
            if wish.flag is not None:
                flag, _ = store_and_tell(connection, wish.flag, now)
                feature = replace(feature, flag_id=flag.id)
                generations.advance(connection, topic_of(project_id))
            _put(connection, feature, is_new=is_new, is_deleted=wish.is_deleted)
            entry = wish.tell(feature)
            if entry is not None:
                activity.record(connection, entry, now)
            return feature, _flag(connection, feature)

        return await self._database.write(change)


def _put(connection: Connection, feature: Feature, *, is_new: bool, is_deleted: bool) -> None:
    values = asdict(feature) | {"stage": feature.stage.value, "payload": feature.payload}
    own = table.c.id == feature.id
    if is_deleted:
        connection.execute(delete(table).where(own))
    elif is_new:
        connection.execute(insert(table), values)
    else:
        connection.execute(update(table).where(own).values(**values))


def _all(connection: Connection, project_id: ProjectId) -> list[Feature]:
    rows = connection.execute(select(table).where(table.c.project_id == project_id))
    return [_feature(row) for row in rows]


def _feature(row: Row[Any]) -> Feature:
    """At a stage that only another version knows it is shown to nobody."""
    return Feature(**{**row._mapping, "stage": member(Stage, row.stage, Stage.DRAFT)})


def _flag(connection: Connection, feature: Feature) -> Flag:
    flag = find_flag(connection, feature.project_id, feature.flag_id)
    assert flag is not None  # rows of flags are never removed
    return flag
