"""Frontend apps for web pages: `/site_app/<id>/<token>/<hash>/`, without a key. A page gets the
script and the public settings, nothing else.
"""

from starlette.responses import Response

from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.openapi.sdk_types import NO_KEY, NOT_MODIFIED, SCRIPT
from hedgerow.http.sdk.cors_assets import (
    CACHE_FOREVER,
    JAVASCRIPT,
    REVALIDATE,
    build_asset_response,
    build_preflight_response,
    build_uncached_json,
    compute_hash,
    escape_for_script,
)
from hedgerow.lib import jsonio
from hedgerow.pipelines import config as settings
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import Record, RecordId
from hedgerow.pipelines.store import PublicRecordStore
from hedgerow.plugin.component import Component

PATH = "/site_app/{record_id}/{token}/{hash}/"
# PostHog's own error body.
MISSING_SOURCE = {
    "type": "server_error",
    "code": "missing_site_app_source",
    "detail": "Unable to serve site app source code.",
    "attr": None,
}


class SiteAppEndpoints:
    tag = "Pages"

    def __init__(self, records: PublicRecordStore, catalogue: Catalogue) -> None:
        self._records = records
        self._catalogue = catalogue

    @endpoint(
        "GET",
        PATH,
        access=None,
        keys=NO_KEY,
        response=str,
        media_type=SCRIPT,
        statuses=NOT_MODIFIED,
        name="site_app",
    )
    async def retrieve_site_app(self, call: PublicCall) -> Response:
        """Retrieve a frontend app with its settings, as a script."""
        id, token = call.path_param("record_id"), call.path_param("token")
        record: Record | None = None
        if id.isascii() and id.isdecimal() and len(id) < 19 and "\x00" not in token:
            record = await self._records.public_record(RecordId(int(id)), token)
        component = self._catalogue.component(record.component_id) if record else None
        if record is None or component is None or component.script is None:
            return build_uncached_json(MISSING_SOURCE, 404)
        script = render_script(record, component).encode()
        # The hash changes with the content: a page caches the script under its current hash only.
        is_current = call.path_param("hash") == compute_hash(script)
        caching = CACHE_FOREVER if is_current else REVALIDATE
        return build_asset_response(call.request, script, JAVASCRIPT, caching)

    @endpoint("OPTIONS", PATH, access=None, is_documented=False)
    async def preflight(self, call: PublicCall) -> Response:
        return build_preflight_response(call.request)


def render_script(record: Record, component: Component) -> str:
    """Render the script that runs the app with its public settings and the SDK that the page put
    in a variable."""
    config = escape_for_script(
        jsonio.encode(settings.select_site_settings(component, record.config)).decode()
    )
    return (
        f"(function () {{\n{component.script}\n"
        f"inject({{ config: {config}, posthog: window['__$$ph_site_app_{record.id}'] }})\n}})()\n"
    )


def script_path(record: Record, component: Component) -> str:
    """Return the URL path of the script. Its hash changes with the content: pages cache it."""
    hash = compute_hash(render_script(record, component).encode())
    return f"/site_app/{record.id}/{record.web_token}/{hash}/"


def render_module(component: Component | None) -> str:
    """Render the app as a module, as PostHog's own pages load it."""
    if component is None or component.script is None:
        return 'export function getFrontendApp () { return {"no_frontend": true} }\n'
    return f"export function getFrontendApp () {{\n{component.script}\nreturn {{ inject }}\n}}\n"
