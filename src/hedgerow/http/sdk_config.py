"""What SDKs read besides flags in an answer of /decide. It is the same until a record or a survey
of the project changes, so it is kept as bytes.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hedgerow.http.site_app import page_path
from hedgerow.lib import jsonio
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.store import ServedRecords
from hedgerow.projects.model import ProjectId

# So many projects are read by one statement.
AT_ONCE = 500
# None of it is secret.
SAME_FOR_ALL = {
    "config": {"enable_collect_everything": True},
    "toolbarParams": {},
    "isAuthenticated": False,
    "sessionRecording": False,
    "capturePerformance": False,
    "captureDeadClicks": False,
    "autocapture_opt_out": False,
    "chat_opt_in": False,
    "autocaptureExceptions": False,
    "analytics": {"endpoint": "/i/v0/e/"},
    "elementsChainAsString": True,
    "defaultIdentifiedOnly": True,
    "flagsPersistenceDefault": False,
    "heatmaps": False,
}
# What the specification of /decide names; all of it can be read.
OF_DECIDE = b',"supportedCompression":["gzip","lz64"]'
# Newer SDKs pack what they send in the last of these, which also spares pages a preflight. A page
# that is told that there are no flags never asks for them again.
OF_NEWER = (
    b',"supportedCompression":["gzip","gzip-js"],"hasFeatureFlags":true'
    b',"errorTracking":{"autocaptureExceptions":false,"suppressionRules":[]}'
)


def newer(part: bytes, token: str) -> bytes:
    """A part as /flags and remote configs tell it."""
    return b'%s%s,"token":%s' % (part, OF_NEWER, jsonio.encode(token))


class Part(NamedTuple):
    """The fields as they stand in the middle of an answer, for when no survey runs and for when
    one does."""

    without_surveys: bytes
    with_surveys: bytes


def _part(site_apps: Sequence[Mapping[str, Any]]) -> Part:
    return Part(*(_fields(site_apps, surveys=surveys) for surveys in (False, True)))


def _fields(site_apps: Sequence[Mapping[str, Any]], *, surveys: bool) -> bytes:
    return b"," + jsonio.encode({**SAME_FOR_ALL, "surveys": surveys, "siteApps": site_apps})[1:-1]


WITHOUT_APPS = _part([])


class SdkConfigs:
    """Of every project. Each process asks twice a second whether records have changed."""

    def __init__(
        self,
        records: ServedRecords,
        catalogue: Catalogue,
        any_survey_runs: Callable[[ProjectId], bool],
    ) -> None:
        self._records = records
        self._catalogue = catalogue
        self._any_survey_runs = any_survey_runs
        self._seen: Mapping[ProjectId, int] = {}
        self._parts: dict[ProjectId, Part] = {}

    def part(self, project_id: ProjectId) -> bytes:
        part = self._parts.get(project_id, WITHOUT_APPS)
        return part.with_surveys if self._any_survey_runs(project_id) else part.without_surveys

    async def watch(self) -> None:
        """One turn of the background loop."""
        stored = await self._records.generations()
        moved = [id for id, number in stored.items() if self._seen.get(id) != number]
        for start in range(0, len(moved), AT_ONCE):
            await self._read(moved[start : start + AT_ONCE])
        self._seen = stored

    async def _read(self, ids: Sequence[ProjectId]) -> None:
        apps: dict[ProjectId, list[dict[str, Any]]] = defaultdict(list)
        for record in await self._records.served_apps(ids):
            if (app := self._app(record)) is not None:
                apps[record.project_id].append(app)
        for id in ids:
            if id in apps:
                self._parts[id] = _part(apps[id])
            else:
                self._parts.pop(id, None)

    def _app(self, record: Record) -> dict[str, Any] | None:
        component = self._catalogue.component(record.component_id)
        if component is None or component.script is None:
            return None
        return {"id": record.id, "url": page_path(record, component)}
