"""The worker process for large results: converts them to Python values and shapes those.

    python -m hedgerow.storage.events.result_worker

Both would otherwise hold the interpreter lock of the service for seconds.
"""

import pickle

from hedgerow.errors import AppError
from hedgerow.lib.worker_process import serve_requests
from hedgerow.storage.events.native_results import decode_native


def shape_result(request: bytes) -> bytes:
    """Return the pickled value or AppError. `request` is a pickled NativeResult and a shape."""
    result, shape = pickle.loads(request)  # noqa: S301 - from the service itself
    try:
        answer = shape(decode_native(result))
    except AppError as error:
        answer = error
    return pickle.dumps(answer)


if __name__ == "__main__":
    serve_requests(lambda: shape_result)
