"""The SDK configuration in responses of /decide and /flags. It changes only with the site apps and
surveys of the project, so it is cached as bytes.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hedgerow.http.sdk.site_apps import script_path
from hedgerow.lib import jsonio
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.store import PublicRecordStore
from hedgerow.projects.model import ProjectId

# Projects read by one statement.
BATCH_SIZE = 500
# Public values.
COMMON_FIELDS = {
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
# The names in the specification of /decide; Hedgerow reads all of them.
DECIDE_FIELDS = b',"supportedCompression":["gzip","lz64"]'
# Current SDKs compress with the last of these, which also saves pages a preflight request. With
# hasFeatureFlags false, a page would never request flags again.
CURRENT_FIELDS = (
    b',"supportedCompression":["gzip","gzip-js"],"hasFeatureFlags":true'
    b',"errorTracking":{"autocaptureExceptions":false,"suppressionRules":[]}'
)


def render_current(part: bytes, token: str) -> bytes:
    """Add the fields of /flags and remote configs to the common ones."""
    return b'%s%s,"token":%s' % (part, CURRENT_FIELDS, jsonio.encode(token))


class ConfigFields(Protocol):
    """Renders the common fields of the SDK configuration of a project."""

    def render_fields(self, project_id: ProjectId) -> bytes: ...


class RenderedFields(NamedTuple):
    """The fields as bytes in the middle of a JSON object, for projects without and with a running
    survey."""

    without_surveys: bytes
    with_surveys: bytes


def _render(site_apps: Sequence[Mapping[str, Any]]) -> RenderedFields:
    return RenderedFields(
        *(_render_fields(site_apps, surveys=surveys) for surveys in (False, True))
    )


def _render_fields(site_apps: Sequence[Mapping[str, Any]], *, surveys: bool) -> bytes:
    return b"," + jsonio.encode({**COMMON_FIELDS, "surveys": surveys, "siteApps": site_apps})[1:-1]


NO_SITE_APPS = _render([])


class SdkConfigs:
    """The SDK configurations of all projects. A background task calls `refresh` twice a second."""

    def __init__(
        self,
        records: PublicRecordStore,
        catalogue: Catalogue,
        any_survey_runs: Callable[[ProjectId], bool],
    ) -> None:
        self._records = records
        self._catalogue = catalogue
        self._any_survey_runs = any_survey_runs
        self._generations: Mapping[ProjectId, int] = {}
        self._rendered: dict[ProjectId, RenderedFields] = {}

    def render_fields(self, project_id: ProjectId) -> bytes:
        part = self._rendered.get(project_id, NO_SITE_APPS)
        return part.with_surveys if self._any_survey_runs(project_id) else part.without_surveys

    def get_fields(self, project_id: ProjectId) -> Mapping[str, Any]:
        """Return the common fields, for edge processes."""
        fields: Mapping[str, Any] = jsonio.parse(b"{%s}" % self.render_fields(project_id)[1:])
        return fields

    async def refresh(self) -> None:
        """Render the projects whose records changed since the last call."""
        stored = await self._records.generations()
        moved = [id for id, number in stored.items() if self._generations.get(id) != number]
        for start in range(0, len(moved), BATCH_SIZE):
            await self._load(moved[start : start + BATCH_SIZE])
        self._generations = stored

    async def _load(self, ids: Sequence[ProjectId]) -> None:
        apps: dict[ProjectId, list[dict[str, Any]]] = defaultdict(list)
        for record in await self._records.public_apps(ids):
            if (app := self._describe_app(record)) is not None:
                apps[record.project_id].append(app)
        for id in ids:
            if id in apps:
                self._rendered[id] = _render(apps[id])
            else:
                self._rendered.pop(id, None)

    def _describe_app(self, record: Record) -> dict[str, Any] | None:
        component = self._catalogue.component(record.component_id)
        if component is None or component.script is None:
            return None
        return {"id": record.id, "url": script_path(record, component)}
