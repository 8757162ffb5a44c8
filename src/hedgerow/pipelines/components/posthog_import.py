"""Another instance: events read from a PostHog-compatible service."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from hedgerow.errors import Invalid
from hedgerow.events.dates import EARLIEST, asked_moment
from hedgerow.kit import jsonio
from hedgerow.pipelines.component import Component, SettingField, Settings
from hedgerow.pipelines.components.fields import RUN_IMPORT, SCHEDULE, TEST_CONNECTION
from hedgerow.pipelines.imports.model import Around, BadRow, Portion, SourceRow
from hedgerow.pipelines.imports.schedule import check_schedule
from hedgerow.pipelines.model import Family, JobProblem
from hedgerow.pipelines.sending import CannotSend, Request

AT_ONCE = 500
ANSWER_BYTES = 64 * 1024 * 1024
ANSWER_S = 60.0
# Events may arrive late: what happened so long before the last one is asked for again.
OVERLAP = timedelta(hours=1)
MAX_WAIT_S = 120.0
WAITS = 10


def check(settings: Settings) -> None:
    check_schedule(settings.get("schedule") or "")
    try:
        host = urlsplit(settings["host"])
        is_usable = host.scheme in ("http", "https") and bool(host.hostname)
        _ = host.port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Invalid("An http:// or https:// address is required.", attr="config__host")
    if not settings["project_id"].isalnum():
        raise Invalid("The number of a project is required.", attr="config__project_id")
    if said := settings.get("date_from"):
        asked_moment(said, datetime(2026, 1, 1, tzinfo=UTC), UTC, "config__date_from")


async def read(settings: Mapping[str, Any], cursor: Any, around: Around) -> AsyncIterator[Portion]:
    """Oldest first, page after page. The next run begins a little before where this one ended."""
    newest = cursor["newest"] if cursor else ""
    url = (cursor or {}).get("next") or _first(settings, newest, around)
    while url:
        page = await _page(settings, url, around)
        results = page.get("results")
        following = page.get("next")
        if not isinstance(results, list) or not isinstance(following, str | None):
            raise JobProblem("The answer is no page of events.")
        if following and _origin(following) != _origin(settings["host"]):
            # The key is for one service alone.
            raise JobProblem("The next page is said to be at another address.")
        rows = [_row(each) for each in results if isinstance(each, dict) and each.get("id")]
        bad = [
            BadRow(place=f"an event of {urlsplit(url).hostname}", reason="It has no id.")
            for each in results
            if not isinstance(each, dict) or not each.get("id")
        ]
        moments = [row.values["timestamp"] for row in rows]
        newest = max([newest, *(each for each in moments if isinstance(each, str))])
        url = following or ""
        yield Portion(rows=rows, bad=bad, cursor={"newest": newest, "next": url})


async def reach(settings: Mapping[str, Any], around: Around) -> None:
    await _page(settings, _events_of(settings) + "?limit=1", around)


def _first(settings: Mapping[str, Any], newest: str, around: Around) -> str:
    after = EARLIEST
    if newest:
        # A clock that is wrong there must not hide what comes after.
        after = min(datetime.fromisoformat(newest), around.clock()) - OVERLAP
    elif said := settings["date_from"]:
        after = asked_moment(said, around.clock(), UTC, "config__date_from")
    asked = {"limit": AT_ONCE, "orderBy": '["timestamp"]', "after": after.isoformat()}
    return f"{_events_of(settings)}?{urlencode(asked)}"


def _events_of(settings: Mapping[str, Any]) -> str:
    return f"{settings['host'].rstrip('/')}/api/projects/{settings['project_id']}/events/"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


async def _page(settings: Mapping[str, Any], url: str, around: Around) -> dict[str, Any]:
    """Whoever says that it is too much is given the time that it asks for."""
    headers = {"authorization": f"Bearer {settings['personal_key']}", "accept": "application/json"}
    request = Request(method="GET", url=url, headers=headers, body=b"", timeout_s=ANSWER_S)
    for _ in range(WAITS):
        async with around.http.stream(request) as stream:
            body = bytearray()
            async for part in stream.parts:
                body += part
                if len(body) > ANSWER_BYTES:
                    raise JobProblem(f"A page has more than {ANSWER_BYTES} bytes.")
        if stream.status != 429:
            break
        said = stream.headers.get("retry-after", "")
        await around.sleep(min(float(said) if said.isdecimal() else 10.0, MAX_WAIT_S))
    if stream.status >= 500:
        raise CannotSend(f"The service answers {stream.status}.")
    try:
        page = jsonio.parse(bytes(body))
    except jsonio.JsonError:
        page = None
    if stream.status != 200:
        detail = page.get("detail") if isinstance(page, dict) else ""
        raise JobProblem(f"The service answers {stream.status}. {detail or ''}".strip())
    if not isinstance(page, dict):
        raise JobProblem("The answer is no page of events.")
    return page


def _row(event: dict[str, Any]) -> SourceRow:
    properties = event.get("properties")
    values = {
        "uuid": event["id"],
        "event": event.get("event"),
        "distinct_id": event.get("distinct_id"),
        "timestamp": event.get("timestamp"),
        "properties": properties if isinstance(properties, dict) else {},
        "elements_chain": event.get("elements_chain"),
    }
    place = f"event {event['id']}"
    return SourceRow(identity=str(event["id"]), place=place, values=values)


COMPONENT = Component(
    key="hedgerow/posthog-import",
    family=Family.IMPORT_APP,
    name="Another PostHog-compatible instance",
    description="Imports the events of a project of another Hedgerow or PostHog.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="personal_key", name="Personal key", required=True, secret=True),
        SettingField(key="project_id", name="Project id", required=True),
        SettingField(key="date_from", name="From", default="", hint="ISO time. Empty: the first."),
        SCHEDULE,
    ),
    jobs=(RUN_IMPORT, TEST_CONNECTION),
    check=check,
    read=read,
    reach=reach,
)
