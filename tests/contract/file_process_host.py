"""The worker process of tests of requests with files."""

import os
import signal
from collections.abc import Sequence

from hedgerow.lib.workers.process import serve_file_requests

CPU_LIMIT_S = 0.2


def handle(request: bytes, files: Sequence[int]) -> bytes:
    if request == b"spin":
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
        while True:
            pass
    if not files:
        return b"no file" if request == b"nothing" else count_files()
    with os.fdopen(files[0], "rb") as file:
        file.seek(0)
        content = file.read()
    return count_files() if request == b"count" else str(len(content)).encode()


def count_files() -> bytes:
    return str(len(os.listdir("/proc/self/fd"))).encode()


if __name__ == "__main__":
    serve_file_requests(lambda: handle)
