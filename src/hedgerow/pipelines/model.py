"""A pipeline record and the family it belongs to, as values."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from hedgerow.projects.model import ProjectId

RecordId = NewType("RecordId", int)
ComponentId = NewType("ComponentId", int)


class Family(StrEnum):
    """The three kinds of record. They share one shape and never see each other."""

    DESTINATION = "destination"
    FRONTEND_APP = "frontend_app"
    IMPORT_APP = "import_app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    id: RecordId
    project_id: ProjectId
    family: Family
    component_id: ComponentId
    enabled: bool
    order: int
    name: str
    description: str
    deleted: bool
    created_at: datetime
    updated_at: datetime
