"""A query's answer, and how far one is that nobody waits for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.projects.model import ProjectId

# What a day of a timeline takes.
DAY_BYTES = 100


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What took how many seconds."""

    k: str
    t: float


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What a query gave. `results` is JSON already: there may be megabytes of it."""

    results: msgspec.Raw
    columns: Sequence[str]
    types: Sequence[Any]
    hogql: str
    timings: Sequence[Timing]
    limit: int | None
    offset: int
    has_more: bool
    explain: Sequence[str] | None = None
    clickhouse: str | None = None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """How many were exposed to a variant by the end of each day."""

    variant: str
    days: Sequence[str]
    exposure_counts: Sequence[int]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What a query about an experiment gave: of one metric, or of exposures."""

    kind: str
    warnings: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    metric: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    baseline: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    variant_results: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    timeseries: Sequence[Timeline] | msgspec.UnsetType = msgspec.UNSET
    total_exposures: Mapping[str, int] | msgspec.UnsetType = msgspec.UNSET
    sample_ratio_mismatch: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    date_range: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The same as it is told. Fields that we have nothing for are there because clients of PostHog
    look for them. Those from `kind` to `date_range` are there for experiments alone."""

    results: msgspec.Raw | None
    columns: Sequence[str] = ()
    types: Sequence[Any] = ()
    hogql: str = ""
    clickhouse: str | None = None
    query: Mapping[str, Any]
    timings: Sequence[Timing] = ()
    limit: int | None = None
    offset: int = 0
    has_more: bool = msgspec.field(default=False, name="hasMore")
    error: str | None = None
    explain: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None
    modifiers: Mapping[str, Any] = {}
    timezone: str
    is_cached: bool
    cache_key: str
    cache_target_age: datetime | None = None
    last_refresh: datetime | None = None
    next_allowed_client_refresh: datetime | None = None
    query_status: None = None
    kind: str | msgspec.UnsetType = msgspec.UNSET
    warnings: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    metric: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    baseline: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    variant_results: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    timeseries: Sequence[Timeline] | msgspec.UnsetType = msgspec.UNSET
    total_exposures: Mapping[str, int] | msgspec.UnsetType = msgspec.UNSET
    sample_ratio_mismatch: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    date_range: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET

    @property
    def size(self) -> int:
        """About how many bytes it is, beside what every answer has."""
        rows = len(bytes(self.results)) if self.results else 0
        days = 0 if self.timeseries is msgspec.UNSET else sum(len(t.days) for t in self.timeseries)
        return rows + days * DAY_BYTES


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a query is. `results` is the whole answer, once it is there."""

    id: str
    team_id: ProjectId
    query_async: bool = True
    complete: bool
    error: bool
    error_message: str | None
    results: Answered | None
    start_time: datetime
    end_time: datetime | None
    expiration_time: datetime | None
