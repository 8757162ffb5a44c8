"""The service that `hedgerow demo` talks to: the running one, or one that it starts and stops."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from hedgerow.app import commands
from hedgerow.cli.existing_installation import check_installation
from hedgerow.cli.lock_retry import retry_while_locked
from hedgerow.cli.service_client import ServiceClient, ServiceUnavailable, resolve_service_url
from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.keys import IssuedKey, KeyRequest
from hedgerow.projects.scopes import ALL_SCOPES

if TYPE_CHECKING:
    from hedgerow.projects.bootstrap import InitialKeys
    from hedgerow.settings import Settings

KEY_LABEL = "hedgerow demo"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.1
LOOPBACK = "127.0.0.1"
# A service of our own is reachable from this machine only, and leaves other ports alone.
OWN_SETTINGS = {"HEDGEROW_METRICS_PORT": "0", "HEDGEROW_SHUTDOWN_DRAIN_S": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoService:
    """`first` are the keys of an installation that did not exist before."""

    client: ServiceClient
    first: InitialKeys | None = None
    is_running_on: bool = True


@contextmanager
def open_service(settings: Settings) -> Iterator[DemoService]:
    """Connect with the running service, or start one for the block."""
    if settings.personal_key:
        yield DemoService(
            client=ServiceClient(resolve_service_url(settings), settings.personal_key)
        )
        return
    first = _create_installation(settings)
    with _issue_key(settings, first) as key:
        if commands.installation.has_running_service(settings):
            client = ServiceClient(resolve_service_url(settings), key)
            _check_address(client, settings)
            yield DemoService(client=client, first=first)
            return
        with _start_service(settings) as url:
            yield DemoService(client=ServiceClient(url, key), first=first, is_running_on=False)


def _create_installation(settings: Settings) -> InitialKeys | None:
    """Create an installation if there is none. Returns its keys then."""
    schema = commands.state.find_schema_state(settings)
    if schema is not None and schema.at:
        check_installation(settings)
        return None
    return retry_while_locked(lambda: commands.installation.create_installation(settings))


@contextmanager
def _issue_key(settings: Settings, first: InitialKeys | None) -> Iterator[str]:
    """Give out a key for the block: the first one, or another one that is revoked afterwards."""
    if first is not None:
        yield first.personal_key
        return
    issued = asyncio.run(_create_key(settings))
    try:
        yield issued.value
    finally:
        asyncio.run(_revoke_key(settings, issued))


async def _create_key(settings: Settings) -> IssuedKey:
    async with commands.state.open_state(settings) as state:
        request = KeyRequest(label=KEY_LABEL, scopes=(ALL_SCOPES,))
        return await state.keys.issue(request, state.directory.get_owner(), COMMAND_LINE, utc_now())


async def _revoke_key(settings: Settings, issued: IssuedKey) -> None:
    async with commands.state.open_state(settings) as state:
        await state.keys.revoke(issued.key.id, COMMAND_LINE, utc_now())


def _check_address(client: ServiceClient, settings: Settings) -> None:
    """Raise OperatorError unless the service at the address is that of the installation."""
    try:
        client.request_root("GET", "/api/users/@me/")
    except OperatorError as error:
        raise OperatorError(
            f"A service has this installation open, and it is not the one at "
            f"{resolve_service_url(settings)} ({error}). Say where it is with --server, or stop it."
        ) from None


@contextmanager
def _start_service(settings: Settings) -> Iterator[str]:
    """Start the service on a free port of this machine, and stop it after the block."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    url = f"http://{LOOPBACK}:{port}"
    with TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 - this program
            [
                *(sys.executable, "-c", "from hedgerow.cli import main; main()", "serve"),
                *("--host", LOOPBACK, "--port", str(port), "--data", str(settings.data_dir)),
            ],
            env=os.environ | OWN_SETTINGS,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_ready(url, process, output)
            yield url
        finally:
            _stop(process)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    client = ServiceClient(url, "")
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            client.request_root("GET", "/_readiness")
            return
        except ServiceUnavailable:
            time.sleep(POLL_INTERVAL_S)
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    raise OperatorError(f"The service does not start: {lines[-1] if lines else 'no reason'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
