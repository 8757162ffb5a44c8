"""What the tests of `kit.apart` ask: it answers, prints, hangs or ends."""

import os
import re
import sys
from collections.abc import Callable
from typing import NoReturn

from hedgerow.kit.apart import answering


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
    sys.stdout.write("not an answer\n")
    return question[::-1]


def loaded() -> Callable[[bytes], bytes]:
    os.write(1, b"While it is loaded.\n")
    return answer


if __name__ == "__main__":
    answering(loaded)
