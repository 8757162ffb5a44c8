"""Models of request bodies, and their validation errors in the common error shape.

Messages and codes are those of Django REST framework, as in PostHog. Form values are text, so "5"
is accepted as an integer and "true" as a boolean.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, LiteralString, TypeVar, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Le, MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from hedgerow.errors import Invalid
from hedgerow.http.payload.body import FormFields, parse_bounded_json
from hedgerow.lib import jsonio
from hedgerow.lib.dates import parse_stored_date
from hedgerow.lib.shape import Shape
from hedgerow.lib.text import explain_unstorable, truncate
from hedgerow.projects.validation import check_known_fields, check_storable

# A body may contain the key that authenticates the request.
KEY_FIELD = "personal_api_key"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# The default of a field that may be omitted but not null.
OMITTED: Any = None


def _remove_null_defaults(schema: dict[str, Any]) -> None:
    """Remove OMITTED from the OpenAPI document: such a field has no default."""
    for property in schema.get("properties", {}).values():
        if property.get("default", ...) is None:
            del property["default"]


class Fields(BaseModel):
    """A request body. Unknown and read-only fields are ignored, unless `ignored_fields` lists all
    that are: then any other unknown field is an error."""

    ignored_fields: ClassVar[frozenset[str] | None] = None

    model_config = ConfigDict(
        extra="ignore",
        coerce_numbers_to_str=True,
        str_strip_whitespace=True,
        frozen=True,
        json_schema_extra=_remove_null_defaults,
    )


def _check_storable(value: Any) -> Any:
    if isinstance(value, str) and (unstorable := explain_unstorable(value)):
        code, detail = unstorable
        raise PydanticCustomError("unstorable", "{detail}", {"code": code, "detail": detail})
    return value


def _reject_surrogates(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        raise PydanticCustomError("bool_type", "Must be a valid boolean.")
    return value


# pydantic cannot process lone surrogates.
Boolean = Annotated[bool, BeforeValidator(_reject_surrogates)]


def _parse_date(value: Any) -> datetime:
    try:
        return parse_stored_date(value)
    except ValueError:
        detail = "Expected a date such as 2026-01-31T12:00:00Z."
        raise PydanticCustomError("date", detail, {"code": "invalid_date"}) from None


# A date without an offset is in UTC.
Date = Annotated[datetime, BeforeValidator(_parse_date)]


def _reject_booleans(value: Any) -> Any:
    # pydantic cannot process lone surrogates.
    if isinstance(value, bool) or (isinstance(value, str) and not value.isascii()):
        raise PydanticCustomError("int_type", "A valid integer is required.")
    return value


@dataclass(frozen=True, slots=True)
class JsonValue:
    """Marks a field whose value in a form is JSON text."""


Json = Annotated[Any, JsonValue()]


@dataclass(frozen=True, slots=True)
class Text(GroupedMetadata):
    """For Annotated[str, Text(n)]: storable text of at most n characters, not blank by default."""

    max_length: int
    blank: bool = False

    def __iter__(self) -> Iterator[Any]:
        if not self.blank:
            yield MinLen(1)
        yield MaxLen(self.max_length)
        yield BeforeValidator(_check_storable)  # the last validator runs first


@dataclass(frozen=True, slots=True)
class Between(GroupedMetadata):
    """For Annotated[int, Between(a, b)]: an integer in the range. Booleans are rejected."""

    least: int = -INT32_MAX - 1
    most: int = INT32_MAX

    def __iter__(self) -> Iterator[Any]:
        yield Ge(self.least)
        yield Le(self.most)
        yield BeforeValidator(_reject_booleans)  # the last validator runs first


def require_unset(detail: LiteralString) -> BeforeValidator:
    """Reject every value but null, false and empty ones, for PostHog fields that Hedgerow does not
    support."""

    def check(value: Any) -> None:
        if value is not None and value is not False and value not in ("", [], {}):
            raise PydanticCustomError("unsupported", detail, {"code": "not_supported"})

    return BeforeValidator(check)


F = TypeVar("F", bound=Fields)


def validate(model: type[F], value: Any) -> F:
    """Return `value` as the model. Raises Invalid for the first broken rule."""
    if not isinstance(value, dict):
        raise Invalid(f"Invalid data. Expected a dictionary, but got {type(value).__name__}.")
    if model.ignored_fields is not None:
        check_known_fields(value, _build_shape(model), "")
    fields = _unfold(model, value) if isinstance(value, FormFields) else value
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise _describe_first(error, fields) from None


def validate_part(model: type[F], value: Any, place: str) -> F:
    """Return a part of a body as the model. `place` is its path in the body."""
    try:
        return validate(model, value)
    except Invalid as error:
        attr = f"{place}__{error.attr}" if error.attr else place
        raise Invalid(error.detail, attr=attr, code=error.code) from None


@cache
def _build_shape(model: type[Fields]) -> Shape:
    names = (field.alias or name for name, field in model.model_fields.items())
    return Shape(*names, unused=(model.ignored_fields or frozenset()) | {KEY_FIELD})


def _unfold(model: type[Fields], form: FormFields) -> dict[str, Any]:
    """Return the last value of each field, or all values where the model has a list. A field that
    takes objects has JSON text in a form. An empty text, unless the field takes texts, is null, or
    no value if the field may be omitted but not null."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return {
        name: _unfold_field(fields.get(name), values)
        for name, values in form.items()
        if not (values == [""] and _is_omitted_when_empty(fields.get(name)))
    }


def _is_omitted_when_empty(field: FieldInfo | None) -> bool:
    if field is None or field.is_required() or _is_list(field.annotation) or _takes_json(field):
        return False
    return not any(_has_type(field.annotation, each) for each in (str, Any, NoneType))


def _unfold_field(field: FieldInfo | None, values: list[str]) -> Any:
    if field is None:
        return values[-1]
    is_json = _takes_json(field)
    if values == [""] and (is_json or _is_null_when_empty(field.annotation)):
        return None
    if not _is_list(field.annotation):
        return _parse_form_json(values[-1]) if is_json else values[-1]
    if not is_json:
        return values
    parsed = [_parse_form_json(text) for text in values]
    return parsed[0] if len(parsed) == 1 and not isinstance(parsed[0], dict) else parsed


def _is_null_when_empty(annotation: Any) -> bool:
    takes_text = _is_list(annotation) or _has_type(annotation, str)
    return not takes_text and _has_type(annotation, NoneType)


def _has_type(annotation: Any, type: Any) -> bool:
    return annotation is type or any(_has_type(each, type) for each in get_args(annotation))


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


def _takes_json(field: FieldInfo) -> bool:
    is_marked = any(isinstance(each, JsonValue) for each in field.metadata)
    return is_marked or _has_object(field.annotation)


def _has_object(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Fields):
        return True
    if get_origin(annotation) is list and get_args(annotation) == (Any,):
        return True
    return get_origin(annotation) is dict or any(map(_has_object, get_args(annotation)))


def _parse_form_json(text: str) -> Any:
    """Return the value of JSON text. Other text remains as it is, so that the field rejects it."""
    try:
        return parse_bounded_json(text.encode("utf-8", "surrogatepass"))
    except jsonio.JsonError:
        return text


def _describe_first(error: ValidationError, fields: dict[str, Any]) -> Invalid:
    try:
        return _build_error(error.errors(include_url=False)[0])
    except UnicodeEncodeError:  # pydantic cannot quote lone surrogates
        for name, value in fields.items():
            check_storable([name, value], name)
        raise


def _build_error(error: ErrorDetails) -> Invalid:
    context = error.get("ctx", {})
    # A check of a whole value names the path of the wrong part.
    places = [*error["loc"], *([context["path"]] if context.get("path") else [])]
    attr = "__".join(map(str, places)) or None
    if error["input"] is None and error["type"] != "missing":
        return Invalid("This field may not be null.", attr=attr, code="null")
    code, detail = _MESSAGES.get(error["type"], _own_message)(error)
    return Invalid(detail, attr=attr, code=code)


Message = tuple[str, str]


def _message(code: str, detail: str) -> Callable[[ErrorDetails], Message]:
    return lambda error: (code, detail.format(**error.get("ctx", {})))


def _own_message(error: ErrorDetails) -> Message:
    """Keep the message of custom validators and rare errors."""
    return error.get("ctx", {}).get("code", "invalid_input"), error["msg"]


def _choice(error: ErrorDetails) -> Message:
    return "invalid_choice", f'"{truncate(error["input"])}" is not a valid choice.'


def _unstorable(error: ErrorDetails) -> Message:
    return explain_unstorable(str(error["input"])) or ("invalid_input", "Not a valid string.")


def _list(error: ErrorDetails) -> Message:
    kind = type(error["input"]).__name__
    return "not_a_list", f'Expected a list of items but got type "{kind}".'


def _dictionary(error: ErrorDetails) -> Message:
    kind = type(error["input"]).__name__
    return "not_a_dict", f'Expected a dictionary of items but got type "{kind}".'


_integer = _message("invalid_input", "A valid integer is required.")
_boolean = _message("invalid_input", "Must be a valid boolean.")
_number = _message("invalid_input", "A valid number is required.")

_MESSAGES: dict[str, Callable[[ErrorDetails], Message]] = {
    "missing": _message("required", "This field is required."),
    "int_type": _integer,
    "int_parsing": _integer,
    "int_parsing_size": _integer,
    "int_from_float": _integer,
    "float_type": _number,
    "float_parsing": _number,
    "finite_number": _number,
    "bool_type": _boolean,
    "bool_parsing": _boolean,
    "string_type": _message("invalid_input", "Not a valid string."),
    "string_unicode": _unstorable,
    "string_too_short": _message("blank", "This field may not be blank."),
    "string_too_long": _message(
        "max_length", "Ensure this field has no more than {max_length} characters."
    ),
    "too_long": _message("max_length", "Ensure this field has no more than {max_length} elements."),
    "less_than_equal": _message("max_value", "Ensure this value is less than or equal to {le}."),
    "greater_than_equal": _message(
        "min_value", "Ensure this value is greater than or equal to {ge}."
    ),
    "list_type": _list,
    "dict_type": _dictionary,
    "literal_error": _choice,
    "enum": _choice,
}
