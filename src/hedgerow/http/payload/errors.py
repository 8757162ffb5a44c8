"""What is wrong with a payload."""

from hedgerow.errors import Malformed, TooLarge


class MalformedData(Malformed):
    """No JSON can be found in what the client sent."""

    status, type, code = 400, "validation_error", "malformed_data"
    default_detail = "Malformed request data."

    def __init__(self, reason: str) -> None:
        super().__init__(f"Malformed request data: {reason}")


class NoData(Malformed):
    """The client sent nothing at all."""

    status, type, code = 400, "validation_error", "no_data"
    default_detail = "No data found. Send it in the body of a POST request."


def too_large_unpacked(limit: int) -> TooLarge:
    return TooLarge(f"Request body is larger than {limit} bytes when it is unpacked.")
