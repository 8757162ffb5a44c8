"""Persons, distinct ids, groups and members of cohorts as they stand beside the events, and what
becomes of their copies next. Fields are in the order of the columns.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from hedgerow.projects.model import ProjectId

# Who stands where there is no person, as in a deleted row.
NOBODY = "00000000-0000-0000-0000-000000000000"


class Copy(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Of several copies with one key the one with the greatest version counts."""


class PersonCopy(Copy, frozen=True, kw_only=True, array_like=True):
    """`id` is the uuid, `properties` JSON text."""

    project_id: ProjectId
    id: str
    created_at: datetime
    properties: str
    is_identified: bool
    version: int
    is_deleted: bool


class DistinctIdCopy(Copy, frozen=True, kw_only=True, array_like=True):
    """`is_moved` where events may tell another person than `person_id`: whom the distinct id would
    be alone."""

    project_id: ProjectId
    distinct_id: str
    person_id: str
    is_moved: bool
    version: int
    is_deleted: bool


class GroupCopy(Copy, frozen=True, kw_only=True, array_like=True):
    project_id: ProjectId
    group_type_index: int
    group_key: str
    created_at: datetime
    properties: str
    version: int
    is_deleted: bool


class MemberCopy(Copy, frozen=True, kw_only=True, array_like=True):
    project_id: ProjectId
    cohort_id: int
    person_id: str
    version: int
    is_deleted: bool


KINDS: tuple[type[Copy], ...] = (PersonCopy, DistinctIdCopy, GroupCopy, MemberCopy)


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the queue: the numbers of its rows, what to copy for them, and how much that is."""

    ids: Sequence[int]
    copies: Sequence[Copy]
    size: int


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a kind has been copied since this version: what is older is of nobody who is
    there. `id` is the number of the queue's row."""

    id: int
    kind: type[Copy]
