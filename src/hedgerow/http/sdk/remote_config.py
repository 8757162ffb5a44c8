"""Remote config, the first request of posthog-js: `/array/<project key>/config` as JSON and
`/array/<project key>/config.js` as a script.
"""

from starlette.responses import Response

from hedgerow.errors import AppError
from hedgerow.http.auth.project_key import find_project_by_token
from hedgerow.http.call import PublicCall
from hedgerow.http.endpoint import endpoint
from hedgerow.http.openapi.sdk_types import NO_KEY, NOT_MODIFIED, SCRIPT, SdkConfig
from hedgerow.http.sdk.cors_assets import (
    JAVASCRIPT,
    JSON,
    REVALIDATE,
    build_asset_error,
    build_asset_response,
    build_preflight_response,
    escape_for_script,
)
from hedgerow.http.sdk.sdk_config import ConfigFields, render_current
from hedgerow.lib import jsonio
from hedgerow.projects.directory import Directory

CONFIG = "/array/{token}/config/"
CONFIG_SCRIPT = "/array/{token}/config.js/"


class RemoteConfigEndpoints:
    tag = "Pages"

    def __init__(self, directory: Directory, configs: ConfigFields) -> None:
        self._directory = directory
        self._configs = configs

    @endpoint(
        "GET",
        CONFIG,
        access=None,
        keys=NO_KEY,
        response=SdkConfig,
        statuses=NOT_MODIFIED,
        name="remote_config",
    )
    async def retrieve_config(self, call: PublicCall) -> Response:
        """Retrieve the configuration that posthog-js reads first."""
        try:
            config = await self._render_config(call.path_param("token"))
        except AppError as error:
            return build_asset_error(error)
        return build_asset_response(call.request, config, JSON, REVALIDATE)

    @endpoint(
        "GET",
        CONFIG_SCRIPT,
        access=None,
        keys=NO_KEY,
        response=str,
        media_type=SCRIPT,
        statuses=NOT_MODIFIED,
        name="remote_config_script",
    )
    async def retrieve_config_script(self, call: PublicCall) -> Response:
        """Retrieve the same configuration as a script."""
        token = call.path_param("token")
        try:
            config = (await self._render_config(token)).decode()
        except AppError as error:
            return build_asset_error(error)
        name = escape_for_script(jsonio.encode(token).decode())
        # Site apps load from the URLs in the config; the script itself carries none.
        script = (
            "(function () {\n"
            "window._POSTHOG_REMOTE_CONFIG = window._POSTHOG_REMOTE_CONFIG || {}\n"
            f"window._POSTHOG_REMOTE_CONFIG[{name}] = "
            f"{{ config: {escape_for_script(config)}, siteApps: [] }}\n"
            "})()\n"
        )
        return build_asset_response(call.request, script.encode(), JAVASCRIPT, REVALIDATE)

    @endpoint("OPTIONS", CONFIG, CONFIG_SCRIPT, access=None, is_documented=False)
    async def preflight(self, call: PublicCall) -> Response:
        return build_preflight_response(call.request)

    async def _render_config(self, token: str) -> bytes:
        project = await find_project_by_token(self._directory, token)
        return b"{%s}" % render_current(self._configs.render_fields(project.id), token)[1:]
