"""Configuration documents of a project: what each kind can do, and the words for a plan.

Commands and the API use them alike.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.lib.text import format_value
from hedgerow.lib.yamlio import FromEnv
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project

# How JSON writes `!env NAME`.
ENV_FIELD = "!env"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedDocument:
    """A document. `count` says how much it contains, `notes` what it lacks."""

    title: str
    document: Mapping[str, Any]
    count: str
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRequest:
    """A document to plan, with the variables that it refers to."""

    document: Any
    prune: bool
    environment: Mapping[str, str]
    actor: Actor
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """Names of the objects that a plan creates, changes, deletes and keeps."""

    created: Sequence[str]
    changed: Sequence[str]
    deleted: Sequence[str]
    kept: Sequence[str]

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.changed or self.deleted)

    def describe(self) -> str:
        if self.is_empty:
            return "Nothing to change."
        counts = len(self.created), len(self.changed), len(self.deleted)
        return "{} to create, {} to change, {} to delete.".format(*counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPlan:
    """What a document would change, one line per change. `apply` changes all of it, or raises
    Conflict if the project has changed since."""

    summary: PlanSummary
    lines: Sequence[str]
    apply: Callable[[], Awaitable[None]]

    @property
    def fingerprint(self) -> str:
        """A digest of what the plan shows."""
        shown = json.dumps([asdict(self.summary), list(self.lines)])
        return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()


class ProjectDocuments(Protocol):
    """One kind of document."""

    async def export(self, project: Project) -> ExportedDocument: ...

    async def plan(self, project: Project, request: DocumentRequest) -> DocumentPlan:
        """Raises Invalid with the place of an error in the document."""
        ...


def format_kept(names: Iterable[str]) -> str:
    return f"Not in the file, and kept: {', '.join(names)}. --prune deletes them."


def format_change(label: str, before: Any, after: Any, absent: Any = None) -> str:
    """Return the line for one changed field. `absent` marks a value that is not there."""
    if before is absent:
        return f"      {label}: {format_value(after)}"
    if after is absent:
        return f"      {label}: {format_value(before)} -> cleared"
    return f"      {label}: {format_value(before)} -> {format_value(after)}"


def to_plain(value: Any) -> Any:
    """Return a document as JSON: a reference to a variable becomes {"!env": NAME}."""
    if isinstance(value, FromEnv):
        return {ENV_FIELD: value.name}
    if isinstance(value, Mapping):
        return {name: to_plain(each) for name, each in value.items()}
    return [to_plain(each) for each in value] if isinstance(value, list | tuple) else value


def from_plain(value: Any) -> Any:
    """Return a document from the JSON that `to_plain` writes."""
    if isinstance(value, dict):
        if value.keys() == {ENV_FIELD} and isinstance(value[ENV_FIELD], str):
            return FromEnv(value[ENV_FIELD])
        return {name: from_plain(each) for name, each in value.items()}
    return [from_plain(each) for each in value] if isinstance(value, list) else value


def list_variables(value: Any) -> set[str]:
    """Return the names of the variables that a document refers to."""
    if isinstance(value, FromEnv):
        return {value.name}
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*(list_variables(each) for each in nested))
