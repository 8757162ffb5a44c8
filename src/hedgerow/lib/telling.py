"""What an error says, whatever it is."""

from hedgerow.lib.text import on_one_line, storable_text

SAID_MAX = 500


def describe_error(error: BaseException) -> str:
    """Its kind and its first line, to be stored and shown. Somebody else's error may fail at it."""
    kind = type(error).__name__
    try:
        # What a driver said itself, without the statement and the values that go with it.
        text = str(getattr(error, "orig", None) or error)
    except Exception:  # noqa: BLE001 - somebody else's code may raise anything, here too
        return kind
    first = on_one_line(storable_text(text.strip().partition("\n")[0][:SAID_MAX]))
    return f"{kind}: {first}" if first else kind
