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
    - A browser or a client SDK is at the user's address.
    - A server SDK and any unknown caller are not. What they send as `X-Forwarded-For` is the user's
      address. A trusted proxy adds the address of the caller to it, so only an address before that
      is the user's. The header of a server SDK may also come from a proxy that is not configured.
    """
    if read_header(scope, b"http_x_forwarded_for"):
        return origins.reported_address(scope)
    runtime = detect_runtime(body, scope)
    if runtime is Runtime.CLIENT:
        return origins.stated_address(scope) or origins.client_address(scope)
    before_caller = origins.address_before_client(scope)
    if runtime is Runtime.SERVER and (is_server_sdk(scope) or body.get("evaluation_runtime")):
        return before_caller
    return before_caller or origins.stated_address(scope)
