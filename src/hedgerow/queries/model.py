"""The results of queries, and the status of asynchronous ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.projects.model import ProjectId

# An estimate of the size of one day in a timeline.
TIMELINE_DAY_BYTES = 100


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that a step took."""

    k: str
    t: float


class QueryOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a query. `results` is encoded JSON, possibly megabytes."""

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


class ExposureTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The number of exposures to a variant by the end of each day."""

    variant: str
    days: Sequence[str]
    exposure_counts: Sequence[int]


class ExperimentOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of an experiment query, for one metric or for exposures."""

    kind: str
    warnings: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    metric: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    baseline: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    variant_results: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    timeseries: Sequence[ExposureTimeline] | msgspec.UnsetType = msgspec.UNSET
    total_exposures: Mapping[str, int] | msgspec.UnsetType = msgspec.UNSET
    sample_ratio_mismatch: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    date_range: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET


class InsightOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of an insight query. `results` is encoded JSON."""

    results: msgspec.Raw
    hogql: str
    timings: Sequence[Timing]
    has_more: bool = False
    resolved_date_range: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET


class QueryResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response of the query endpoint. Some fields have no value in Hedgerow and exist because
    PostHog clients expect them. The fields from `kind` to `date_range` are for experiments only."""

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
    resolved_date_range: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType = msgspec.UNSET
    warnings: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    metric: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    baseline: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    variant_results: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    timeseries: Sequence[ExposureTimeline] | msgspec.UnsetType = msgspec.UNSET
    total_exposures: Mapping[str, int] | msgspec.UnsetType = msgspec.UNSET
    sample_ratio_mismatch: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    date_range: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET

    @property
    def size(self) -> int:
        """The approximate number of bytes, without the fixed fields."""
        rows = len(memoryview(self.results)) if self.results else 0
        days = 0 if self.timeseries is msgspec.UNSET else sum(len(t.days) for t in self.timeseries)
        return rows + days * TIMELINE_DAY_BYTES


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an asynchronous query. `results` is the whole response once it is complete."""

    id: str
    team_id: ProjectId
    query_async: bool = True
    complete: bool
    error: bool
    error_message: str | None
    results: QueryResponse | None
    start_time: datetime | None
    end_time: datetime | None
    expiration_time: datetime | None
