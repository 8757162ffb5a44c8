"""The `hedgerow` program of a guide's reader: a fork with the arguments, environment, directory and
streams of this process. Signals are passed on, and it ends as the fork does.

    python -IS client.py SOCKET PROGRAM ARGUMENT...
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType


def main() -> None:
    path, *arguments = sys.argv[1:]
    request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
    read, write = os.pipe()
    with socket.socket(socket.AF_UNIX) as server, os.fdopen(read) as reports:
        server.connect(path)
        socket.send_fds(server, [len(request).to_bytes(4)], [1, 2, write, 0])
        server.sendall(request)
        os.close(write)
        pid = int(reports.readline())

        def forward(number: int, _frame: FrameType | None) -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, forward)
        status = int(reports.readline())
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
