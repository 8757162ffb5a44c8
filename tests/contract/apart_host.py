"""What the tests of `kit.apart` ask: it answers, prints, hangs or ends."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hedgerow.lib.apart import answering


def hang() -> NoReturn:
    # In C code that lets no other thread go on.
    re.match("(a+)+$", "a" * 60 + "b")
    raise AssertionError("that did not take long")


def answer(question: bytes) -> bytes:
    if question == b"hang":
        hang()
    if question == b"who":
        return str(os.getpid()).encode()
    if question == b"end":
        os._exit(3)
    if question == b"terminate a child":
        return str(subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode).encode()
    if question == b"leave a child":
        return str(subprocess.Popen(["sleep", "600"]).pid).encode()
    if question == b"leave a thread":
        threading.Thread(target=threading.Event().wait).start()
    if question.startswith(b"prepare "):
        time.sleep(1.5)
        Path(os.fsdecode(question.removeprefix(b"prepare "))).touch()
    sys.stdout.write("not an answer\n")
    return question[::-1]


def loaded() -> Callable[[bytes], bytes]:
    os.write(1, b"While it is loaded.\n")
    return answer


if __name__ == "__main__":
    answering(loaded)
