"""A real S3 server from a test wheel. It stores objects as files and verifies signatures."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

import httpx

from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.destinations.s3 import S3Access, sign_request
from hedgerow.plugin.http import Request
from tests.support.live import find_free_port

KEY_ID = "test-access-key-id"
SECRET = "test-secret-access-key"


class S3Server:
    """`folder` has a subdirectory for each bucket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = f"http://127.0.0.1:{find_free_port()}"
        # Not a pipe, which would fill up.
        self._log = TemporaryFile()  # noqa: SIM115 - closed with the server
        self._process = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "rclone"),
                *("serve", "s3", str(folder)),
                *("--addr", self.endpoint.removeprefix("http://")),
                *("--auth-key", f"{KEY_ID},{SECRET}"),
                *("--config", "/dev/null"),
            ],
            stderr=self._log,
        )

    def create_bucket(self, name: str) -> Path:
        """Create a bucket through the server, which caches the list, and return its directory."""
        access = S3Access(
            endpoint=self.endpoint,
            region="us-east-1",
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
        )
        host = self.endpoint.removeprefix("http://")
        unsigned = Request(
            method="PUT", url=f"{self.endpoint}/{name}", headers={"host": host}, body=b""
        )
        request = sign_request(unsigned, f"/{name}", access, utc_now())
        made = httpx.put(request.url, headers=dict(request.headers), timeout=60, verify=False)
        assert made.status_code == 200, made.text
        return self.folder / name

    def __enter__(self) -> Self:
        deadline = time.monotonic() + 60
        while True:
            assert self._process.poll() is None, self._read_log()
            assert time.monotonic() < deadline, "the S3 server did not get ready"
            try:
                httpx.get(self.endpoint, timeout=60, verify=False)
            except httpx.TransportError:
                time.sleep(0.02)
            else:
                return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _read_log(self) -> bytes:
        self._log.seek(0)
        return self._log.read()
