"""The fields of request bodies, and how a broken rule becomes the one error shape.

Messages and codes are those of Django REST framework, which PostHog's clients know. Forms bring
everything as text, so "5" is an integer and "true" a boolean wherever JSON's own would be.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Le, MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from hedgerow.errors import Invalid
from hedgerow.http.body import Form
from hedgerow.lib.text import cut_short, why_unstorable

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# The default of a field that may be left out, and yet may not be null.
LEFT_OUT: Any = None


def _no_null_defaults(schema: dict[str, Any]) -> None:
    """LEFT_OUT is our own mark: in the documentation such a field just has no default."""
    for property in schema.get("properties", {}).values():
        if property.get("default", ...) is None:
            del property["default"]


class Fields(BaseModel):
    """A request body. Unknown and read-only fields are ignored."""

    model_config = ConfigDict(
        extra="ignore",
        coerce_numbers_to_str=True,
        str_strip_whitespace=True,
        frozen=True,
        json_schema_extra=_no_null_defaults,
    )


def _storable(value: Any) -> Any:
    if isinstance(value, str) and (unstorable := why_unstorable(value)):
        code, detail = unstorable
        raise PydanticCustomError("unstorable", "{detail}", {"code": code, "detail": detail})
    return value


def _maybe_boolean(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        raise PydanticCustomError("bool_type", "Must be a valid boolean.")
    return value


# A lone surrogate is text that pydantic cannot even look at.
Boolean = Annotated[bool, BeforeValidator(_maybe_boolean)]


def _maybe_integer(value: Any) -> Any:
    # A lone surrogate is text that pydantic cannot even look at.
    if isinstance(value, bool) or (isinstance(value, str) and not value.isascii()):
        raise PydanticCustomError("int_type", "A valid integer is required.")
    return value


@dataclass(frozen=True, slots=True)
class Text(GroupedMetadata):
    """For Annotated[str, Text(n)]: at most so long, storable, and not blank unless said."""

    max_length: int
    blank: bool = False

    def __iter__(self) -> Iterator[Any]:
        if not self.blank:
            yield MinLen(1)
        yield MaxLen(self.max_length)
        yield BeforeValidator(_storable)  # last here is first to run


@dataclass(frozen=True, slots=True)
class Between(GroupedMetadata):
    """For Annotated[int, Between(a, b)]: a whole number, and true is none."""

    least: int = -INT32_MAX - 1
    most: int = INT32_MAX

    def __iter__(self) -> Iterator[Any]:
        yield Ge(self.least)
        yield Le(self.most)
        yield BeforeValidator(_maybe_integer)  # last here is first to run


def asked_truth(text: str, attr: str) -> bool | None:
    """A query parameter that is true or false; None if it is empty."""
    if not text:
        return None
    if text.lower() not in ("true", "false"):
        raise Invalid("Must be a valid boolean.", attr=attr)
    return text.lower() == "true"


F = TypeVar("F", bound=Fields)


def validated(model: type[F], value: Any) -> F:
    """`value` as the model, or Invalid with the first rule it breaks."""
    if not isinstance(value, dict):
        raise Invalid(f"Invalid data. Expected a dictionary, but got {type(value).__name__}.")
    try:
        return model.model_validate(_unfolded(model, value) if isinstance(value, Form) else value)
    except ValidationError as error:
        raise _first(error.errors(include_url=False)[0]) from None


def _unfolded(model: type[Fields], form: Form) -> dict[str, Any]:
    """A form's values one by one, except where the model wants a list."""
    lists = {name for name, field in model.model_fields.items() if _is_list(field.annotation)}
    return {name: values if name in lists else values[-1] for name, values in form.items()}


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


def _first(error: ErrorDetails) -> Invalid:
    attr = "__".join(str(part) for part in error["loc"]) or None
    if error["input"] is None and error["type"] != "missing":
        return Invalid("This field may not be null.", attr=attr, code="null")
    code, detail = _WORDS.get(error["type"], _own_words)(error)
    return Invalid(detail, attr=attr, code=code)


Words = tuple[str, str]


def _saying(code: str, detail: str) -> Callable[[ErrorDetails], Words]:
    return lambda error: (code, detail.format(**error.get("ctx", {})))


def _own_words(error: ErrorDetails) -> Words:
    """For rules of our own and the rare rest: the message as it is."""
    return error.get("ctx", {}).get("code", "invalid_input"), error["msg"]


def _choice(error: ErrorDetails) -> Words:
    return "invalid_choice", f'"{cut_short(error["input"])}" is not a valid choice.'


def _list(error: ErrorDetails) -> Words:
    kind = type(error["input"]).__name__
    return "not_a_list", f'Expected a list of items but got type "{kind}".'


def _dictionary(error: ErrorDetails) -> Words:
    kind = type(error["input"]).__name__
    return "not_a_dict", f'Expected a dictionary of items but got type "{kind}".'


_integer = _saying("invalid_input", "A valid integer is required.")
_boolean = _saying("invalid_input", "Must be a valid boolean.")
_number = _saying("invalid_input", "A valid number is required.")

_WORDS: dict[str, Callable[[ErrorDetails], Words]] = {
    "missing": _saying("required", "This field is required."),
    "int_type": _integer,
    "int_parsing": _integer,
    "int_parsing_size": _integer,
    "int_from_float": _integer,
    "float_type": _number,
    "float_parsing": _number,
    "finite_number": _number,
    "bool_type": _boolean,
    "bool_parsing": _boolean,
    "string_type": _saying("invalid_input", "Not a valid string."),
    "string_too_short": _saying("blank", "This field may not be blank."),
    "string_too_long": _saying(
        "max_length", "Ensure this field has no more than {max_length} characters."
    ),
    "too_long": _saying("max_length", "Ensure this field has no more than {max_length} elements."),
    "less_than_equal": _saying("max_value", "Ensure this value is less than or equal to {le}."),
    "greater_than_equal": _saying(
        "min_value", "Ensure this value is greater than or equal to {ge}."
    ),
    "list_type": _list,
    "dict_type": _dictionary,
    "literal_error": _choice,
    "enum": _choice,
}
