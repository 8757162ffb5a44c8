"""Errors of SDK payloads."""

from hedgerow.errors import Malformed, TooLarge


class MalformedData(Malformed):
    """The payload contains no valid JSON."""

    status, type, code = 400, "validation_error", "malformed_data"
    default_detail = "Malformed request data."

    def __init__(self, reason: str) -> None:
        super().__init__(f"Malformed request data: {reason}")


class NoData(Malformed):
    """The payload is empty."""

    status, type, code = 400, "validation_error", "no_data"
    default_detail = "No data found. Send it in the body of a POST request."


def unpacked_too_large_error(limit: int) -> TooLarge:
    return TooLarge(f"Request body is larger than {limit} bytes when it is unpacked. Send less.")
