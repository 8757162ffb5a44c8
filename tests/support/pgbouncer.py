"""A real PgBouncer in transaction mode, with its default options."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.support.live import find_free_port, wait_for
from tests.support.postgres import PostgresTestServer

DOWNLOADED = Path(__file__).parents[2] / ".venv" / "pgbouncer"
USER = "postgres"


def find_pgbouncer() -> str | None:
    """Return the program that the system or tests/support/install_pgbouncer provides."""
    path = str(DOWNLOADED / "usr" / "sbin")
    return shutil.which("pgbouncer", path=f"{path}{os.pathsep}/usr/sbin:{os.environ['PATH']}")


@contextmanager
def run_pgbouncer(server: PostgresTestServer, url: str, folder: Path) -> Iterator[str]:
    """Yield the URL of the same database behind PgBouncer."""
    port, program = find_free_port(), find_pgbouncer()
    assert program is not None
    libraries = os.pathsep.join(map(str, (DOWNLOADED / "usr" / "lib").glob("*")))
    with server.forward_port() as server_port:
        lines = [
            "[databases]",
            f"* = host=127.0.0.1 port={server_port} user={USER}",
            "[pgbouncer]",
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
            "auth_type = any\npool_mode = transaction\ndefault_pool_size = 4",
            # It refuses to run as root.
            "user = nobody" if os.getuid() == 0 else "",
        ]
        file = folder / "pgbouncer.ini"
        file.write_text("\n".join(lines))
        process = subprocess.Popen(
            [program, str(file)],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            stderr=subprocess.DEVNULL,
        )
        try:
            pooled = f"postgresql://{USER}@127.0.0.1:{port}{urlsplit(url).path}"
            wait_for(lambda: _answers(pooled), at_most_s=30)
            yield pooled
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
