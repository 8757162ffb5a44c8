"""A real nats-server with JetStream, which a test can kill and start again on the same files."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.live import find_free_port, wait_for

DOWNLOADED = Path(__file__).parents[2] / ".venv" / "nats"


def find_nats() -> str | None:
    """Return the program that the system or tests/support/install_nats provides."""
    path = str(DOWNLOADED / "usr" / "sbin")
    return shutil.which("nats-server", path=f"{path}{os.pathsep}/usr/sbin:{os.environ['PATH']}")


needs_nats = pytest.mark.skipif(
    find_nats() is None, reason="nats-server is missing: tests/support/install_nats gets it"
)


class NatsTestServer:
    """`options` are further ones of JetStream. `program` is another server than the usual one."""

    def __init__(self, folder: Path, options: str = "", program: str | None = None) -> None:
        self._program = program or find_nats()
        self.store = folder / "jetstream"
        self.port = find_free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._config = folder / "nats.conf"
        self._log = folder / "nats.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f"listen: 127.0.0.1:{self.port}\nmax_payload: 8MB\n"
            f"jetstream {{ store_dir: {self.store}\n max_file_store: 400GB\n {options} }}\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        assert self._program is not None
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [self._program, "-c", str(self._config)], stdout=log, stderr=log
            )
        wait_for(self._answers, at_most_s=60)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it, without a chance to write anything."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
