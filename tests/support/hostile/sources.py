"""All hostile sources, by the import app that reads them, each with how its import must end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.hostile.files import HOSTILE_FILES, MEMORY

FILES, QUERY, INSTANCE = (
    "hedgerow/file-import",
    "hedgerow/postgres-query",
    "hedgerow/posthog-import",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileSource:
    """`settings` may contain {server}, {database} and {port}. `ends` is a pattern: in the reason of
    the failure, or in the counts of an import that is done."""

    name: str
    component: str
    settings: Mapping[str, Any]
    ends: str


def list_files() -> list[HostileSource]:
    return [
        HostileSource(name=name, component=FILES, settings={"source": name}, ends=ends)
        for name, (_, ends) in HOSTILE_FILES.items()
    ]


def web_file(behavior: str, ends: str) -> HostileSource:
    settings = {"source": f"{{server}}/{behavior}", "format": "jsonl"}
    return HostileSource(name=f"web {behavior}", component=FILES, settings=settings, ends=ends)


def bucket(behavior: str, ends: str) -> HostileSource:
    settings = {"source": "s3://bucket/", "endpoint": f"{{server}}/{behavior}"}
    return HostileSource(name=f"S3 {behavior}", component=FILES, settings=settings, ends=ends)


def instance(behavior: str, ends: str) -> HostileSource:
    settings = {
        "host": f"{{server}}/{behavior}",
        "personal_key": "phx_attack",
        "project_id": "1",
        "date_from": "2026-01-01",
    }
    return HostileSource(
        name=f"instance {behavior}", component=INSTANCE, settings=settings, ends=ends
    )


def query(name: str, sql: str, ends: str) -> HostileSource:
    settings = {
        "url": "postgresql://postgres:any@127.0.0.1:{port}{database}",
        "query": sql,
        "cursor_column": "id",
    }
    return HostileSource(name=f"query {name}", component=QUERY, settings=settings, ends=ends)


def select_texts(rows: int, size: int) -> str:
    return f"SELECT n AS id, repeat('x', {size}) AS text FROM generate_series(1, {rows}) AS n"


HOSTILE_SOURCES = [
    *list_files(),
    web_file("redirect-loop", "redirects more than 5 times"),
    web_file("huge-headers", "connection failed"),
    web_file("less-than-announced", "connection failed"),
    bucket("billion-laughs", "XML with declarations"),
    bucket("deep-xml", f"0 imported|{MEMORY}"),
    bucket("same-token", "same page of objects"),
    bucket("many-objects", "more than 1000 objects at once"),
    bucket("endless-body", "response is too long"),
    bucket("html", "not XML|0 imported"),
    instance("many-items", "1,000,000 events for a page of at most 1,000"),
    instance("too-many-items", MEMORY),
    instance("deep-page", "nested deeper than 100 levels"),
    instance("endless-body", "larger than 16777216 bytes"),
    instance("empty-pages", "No row of 1,000 pages"),
    instance("same-page", "the same page"),
    instance("html", "not a page of events"),
    instance("less-than-announced", "connection failed"),
    query("of large rows", select_texts(100, 3_000_000), "0 imported, 100 bad"),
    query("of rows below the limit", select_texts(300, 1_900_000), "0 imported, 300 bad"),
    query("of a huge row", select_texts(1, 200_000_000), MEMORY),
    query(
        "of deep JSON",
        "SELECT 1 AS id, (repeat('[', 3000) || repeat(']', 3000))::json AS deep",
        "nested deeper than 100 levels|0 imported, 1 bad",
    ),
    query("of a huge cursor", "SELECT repeat('1', 1000000) AS id", "more than 1000 characters"),
]
