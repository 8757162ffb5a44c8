"""Replicas of persons, distinct ids, groups and cohort members in the event store. The fields are
in the order of the columns.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from hedgerow.projects.model import ProjectId

# Stands for the person in a deleted row.
NO_PERSON_UUID = "00000000-0000-0000-0000-000000000000"


class Replica(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Of several replicas with the same key, the one with the greatest version is valid."""


class PersonReplica(Replica, frozen=True, kw_only=True, array_like=True):
    """`id` is the uuid, `properties` JSON text."""

    project_id: ProjectId
    id: str
    created_at: datetime
    properties: str
    is_identified: bool
    version: int
    is_deleted: bool


class DistinctIdReplica(Replica, frozen=True, kw_only=True, array_like=True):
    """`is_moved` if stored events can name another person than `person_id`: the one that the
    distinct id creates on its own."""

    project_id: ProjectId
    distinct_id: str
    person_id: str
    is_moved: bool
    version: int
    is_deleted: bool


class GroupReplica(Replica, frozen=True, kw_only=True, array_like=True):
    project_id: ProjectId
    group_type_index: int
    group_key: str
    created_at: datetime
    properties: str
    version: int
    is_deleted: bool


class CohortMemberReplica(Replica, frozen=True, kw_only=True, array_like=True):
    project_id: ProjectId
    cohort_id: int
    person_id: str
    version: int
    is_deleted: bool


REPLICA_KINDS: tuple[type[Replica], ...] = (
    PersonReplica,
    DistinctIdReplica,
    GroupReplica,
    CohortMemberReplica,
)


class QueuedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the queue: the ids of its rows, their replicas, and the size of these in bytes."""

    ids: Sequence[int]
    replicas: Sequence[Replica]
    size: int


class BackfillFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The backfill of one kind is complete: replicas older than this version belong to deleted
    rows. `id` is the id of the queue row, and the version."""

    id: int
    kind: type[Replica]
