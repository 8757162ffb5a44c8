"""The address that the location of a user derives from, in requests for flags.

A browser or an app calls from the address of its user. A server does not: without a header that
names the user's address, the location is the stored one, which comes from the user's events.
"""

from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from hedgerow.flags.model import Runtime
from hedgerow.http.sdk.runtime import detect_runtime, is_server_sdk
from hedgerow.http.server.headers import read_header
from hedgerow.http.server.proxies import Address, Origins


def find_user_address(scope: Scope, body: Mapping[str, Any], origins: Origins) -> Address | None:
    """Return the address of the user, None if the request does not contain it.

    - `HTTP_X_FORWARDED_FOR` is the user's address, from any caller: a caller can also send any
      `$geoip_…` property.
    - A server SDK is not at the user's address. A proxy adds the address of the server to
      `X-Forwarded-For`, so only an address before that is the user's.
    - Otherwise `X-Forwarded-For` is the user's address, like the first header. From a trusted proxy
      it is the last address that is not a proxy.
    - Without a header, a browser or a client SDK is at the user's address, and any other caller is
      taken for a server.
    """
    if read_header(scope, b"http_x_forwarded_for"):
        return origins.reported_address(scope)
    runtime = detect_runtime(body, scope)
    if runtime is Runtime.SERVER and (is_server_sdk(scope) or body.get("evaluation_runtime")):
        return origins.address_before_client(scope)
    stated = origins.stated_address(scope)
    if stated is not None or runtime is Runtime.CLIENT or origins.is_forwarded(scope):
        return stated or origins.client_address(scope)
    return None
