"""The receipt of a captured request: when an edge process got it, and from whom.

The origin then stores the events as if it had got the request itself at that moment, with the same
uuids each time that the edge process sends it. It accepts a receipt only with a key of the project.
"""

import re
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import msgspec
from starlette.types import Scope

from hedgerow.errors import AppError, Forbidden, Malformed, NotAuthenticated
from hedgerow.http.auth.sdk_key import check_key_of_project
from hedgerow.http.server.headers import read_header
from hedgerow.lib.dates import EPOCH
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project

HEADER = b"x-hedgerow-edge"
# The clocks of two machines differ. A clock that is wrong must not date events.
MAX_AHEAD = timedelta(hours=1)
EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)

_FORM = re.compile(rf"(\S+) (\d{{1,17}}) ([0-9a-f]{{{2 * UUID7_RANDOM_BYTES}}}) ?(\S*)")


class EdgeKeyRefused(AppError):
    """The receipt has no key of the project. An edge process keeps such a request."""

    status, type, code = 403, "authentication_error", "edge_key_refused"
    default_detail = "The key of the edge process is not a key of this project."


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """`received_us` is a Unix time in microseconds. `ip` is empty if it is not known."""

    received_us: int
    randomness: bytes
    ip: str

    def encode(self, key: str) -> str:
        return f"{key} {self.received_us} {self.randomness.hex()} {self.ip}".rstrip()

    def find_moment(self, now: datetime) -> datetime:
        """Return when the edge process got the request, `now` if its clock is wrong."""
        moment = EPOCH + timedelta(microseconds=self.received_us)
        return moment if EARLIEST < moment < now + MAX_AHEAD else now


def read_receipt(scope: Scope) -> tuple[Receipt, str] | None:
    """Return the receipt and its key, which is not checked yet; None without a receipt."""
    value = read_header(scope, HEADER)
    if not value:
        return None
    found = _FORM.fullmatch(value)
    if found is None or not _is_address(found[4]):
        raise Malformed(f"The header {HEADER.decode()} cannot be read.")
    randomness = bytes.fromhex(found[3])
    return Receipt(received_us=int(found[2]), randomness=randomness, ip=found[4]), found[1]


async def check_receipt_key(key: str, directory: Directory, project: Project) -> None:
    """Raises EdgeKeyRefused."""
    try:
        await check_key_of_project(key, directory, project)
    except (NotAuthenticated, Forbidden):
        raise EdgeKeyRefused from None


def _is_address(text: str) -> bool:
    try:
        return not text or bool(ip_address(text))
    except ValueError:
        return False
