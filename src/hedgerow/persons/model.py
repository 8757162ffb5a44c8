"""Persons, groups and cohorts as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NewType

from hedgerow.lib import jsonio
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.projects.model import ProjectId

PersonId = NewType("PersonId", int)
CohortId = NewType("CohortId", int)

MAX_GROUP_TYPES = 5
# Longer distinct ids are truncated.
DISTINCT_ID_MAX_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    id: PersonId
    project_id: ProjectId
    uuid: str
    properties: Mapping[str, Any]
    distinct_ids: Sequence[str]
    is_identified: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    project_id: ProjectId
    type_index: int
    key: str
    properties: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A named set of persons. A static cohort is a list of persons. Any other is a filter on person
    properties, `{"type": "AND", "values": [...]}`, nested to any depth."""

    id: CohortId
    project_id: ProjectId
    name: str
    description: str
    is_static: bool
    definition: Mapping[str, Any]
    deleted: bool
    created_by: str
    created_at: datetime
    updated_at: datetime


def normalize_group_text(value: Any) -> str:
    """Return a group type or key as text, "" if the value cannot be one."""
    if isinstance(value, str):
        return replace_unstorable_characters(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return jsonio.encode(value).decode()
    return ""
