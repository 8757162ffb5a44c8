"""The worker process of test_worker_process.py: it responds, prints, hangs or ends."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hedgerow.lib.workers.process import serve_requests


def hang() -> NoReturn:
    # In C code that holds the GIL.
    re.match("(a+)+$", "a" * 60 + "b")
    raise AssertionError("the match ended early")


def handle(request: bytes) -> bytes:
    if request == b"hang":
        hang()
    if request == b"who":
        return str(os.getpid()).encode()
    if request == b"end":
        os._exit(3)
    if request.startswith(b"crash "):
        os.kill(os.getpid(), int(request.split()[1]))
    if request == b"grow":
        return bytes(1 << 30)
    if request == b"terminate a child":
        return str(subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode).encode()
    if request == b"leave a child":
        return str(subprocess.Popen(["sleep", "600"]).pid).encode()
    if request == b"leave a thread":
        threading.Thread(target=threading.Event().wait).start()
    if request.startswith(b"prepare "):
        time.sleep(1.5)
        Path(os.fsdecode(request.removeprefix(b"prepare "))).touch()
    sys.stdout.write("not a response\n")
    return request[::-1]


def load_handler() -> Callable[[bytes], bytes]:
    os.write(1, b"While it is loaded.\n")
    return handle


if __name__ == "__main__":
    serve_requests(load_handler)
