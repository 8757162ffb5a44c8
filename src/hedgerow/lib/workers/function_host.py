"""The worker process of a FunctionPool: runs pickled functions of the service.

python -m hedgerow.lib.workers.function_host
"""

import pickle
from typing import Any

from hedgerow.lib.workers.process import serve_requests


def run_function(request: bytes) -> bytes:
    """Return whether the function succeeded, and its result or error."""
    try:
        answer: tuple[bool, Any] = (True, pickle.loads(request)())  # noqa: S301 - from the service
    except MemoryError:
        raise  # the process ends
    except Exception as error:  # noqa: BLE001 - raised again in the service
        answer = (False, error)
    return pickle.dumps(answer)


if __name__ == "__main__":
    serve_requests(lambda: run_function)
