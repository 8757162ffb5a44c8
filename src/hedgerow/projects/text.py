"""The rule for names that people give things, wherever they come from."""

from hedgerow.errors import Invalid
from hedgerow.kit.text import why_unstorable


def checked_text(field: str, value: str, most: int) -> str:
    """The text without blanks around it, or Invalid naming the field."""
    text = value.strip()
    if not text:
        raise Invalid("This field may not be blank.", attr=field, code="blank")
    if unstorable := why_unstorable(text):
        code, detail = unstorable
        raise Invalid(detail, attr=field, code=code)
    if len(text) > most:
        raise Invalid(
            f"Ensure this field has no more than {most} characters.", attr=field, code="max_length"
        )
    return text
