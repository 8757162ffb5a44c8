"""The context of a printed query, and the state that its printers share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from zoneinfo import ZoneInfo

from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.printer.parameters import QueryParameters
from hedgerow.hogql.typed_properties import PropertyColumns, StoredProperty
from hedgerow.hogql.typed_sql import TypedSql, ValueType
from hedgerow.lib.dates import parse_iso_date


def _no_cohort(_: int | str) -> Select | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTable:
    """The values of a flag by key. `columns` of an event are its key. `values` are the values by
    name of a table with the column `k`, which has the keys; `default` is that of all others."""

    columns: tuple[str, ...]
    default: str
    values: Mapping[str, str]


def _no_flag(_: str) -> FlagTable | None:
    return None


def _no_action(_: int | str) -> Expr | None:
    return None


@dataclass(frozen=True)
class PrintContext:
    """The project, time and definitions that a query is printed for.

    `find_cohort` returns a query for the person ids of a cohort, by id or name, or None.
    `find_action` returns the condition for the events of an action, by id or name, or None.
    `find_flag` returns the values of a flag for the events of the project, or None.
    `reads_typed_columns` makes no difference for the result, only for how it is read.
    """

    project_id: int
    now: datetime
    timezone: str = "UTC"
    starts_weeks_on_monday: bool = False
    find_cohort: Callable[[int | str], Select | None] = _no_cohort
    find_action: Callable[[int | str], Expr | None] = _no_action
    find_flag: Callable[[str], FlagTable | None] = _no_flag
    reads_typed_columns: bool = True

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


# The limits of the printed SQL. A CTE is printed wherever it is used.
MAX_SQL_CHARS = 400_000
MAX_TABLES = 60


PrintView = Callable[["PrinterState", str], tuple[str, list[tuple[str, TypedSql]]]]


class PrinterState:
    """The state of printing one query: its parameters, generated names and size limits.
    `print_view` prints a view and returns its columns."""

    def __init__(self, world: PrintContext, print_view: PrintView) -> None:
        self.print_context = world
        self._print_view = print_view
        self.parameters = QueryParameters()
        self.tables = 0
        self.is_in_action = False
        # The tables that must be sent with the query.
        self.sent_tables: set[str] = set()
        self._name_count = 0

    def new_name(self, letter: str) -> str:
        """Generate a name. Names from the query never appear in the SQL."""
        self._name_count += 1
        return f"{letter}{self._name_count}"

    def print_view(self, name: str) -> tuple[str, list[tuple[str, TypedSql]]]:
        return self._print_view(self, name)

    def count_table(self) -> None:
        self.tables += 1
        if self.tables > MAX_TABLES:
            raise HogQLError(f"The query reads more than {MAX_TABLES} tables")

    def check_size(self, sql: str) -> str:
        """Return the SQL. Raises HogQLError if it is too long."""
        if len(sql) > MAX_SQL_CHARS:
            raise HogQLError("The query is too large")
        return sql

    @property
    def project(self) -> str:
        return self.parameters.add("Int64", self.print_context.project_id)

    @property
    def zone(self) -> str:
        return self.parameters.add_text(self.print_context.timezone)

    @property
    def now(self) -> TypedSql:
        return self.localize_time(self.parameters.add_time(self.print_context.now))

    def localize_time(self, sql: str, *, nullable: bool = False) -> TypedSql:
        """Convert a time to the project's time zone."""
        shown = sql if self.print_context.timezone == "UTC" else f"toTimeZone({sql}, {self.zone})"
        return TypedSql(shown, ValueType.DATETIME, nullable=nullable, instant=sql)

    def parse_time(self, sql: str) -> TypedSql:
        """Parse text as a time in the project's time zone. NULL for text that is not a time."""
        return TypedSql(
            f"parseDateTime64BestEffortOrNull({sql}, 6, {self.zone})", ValueType.DATETIME
        )

    def parse_time_constant(self, text: str) -> TypedSql | None:
        """Parse a constant here if possible, so that the event store can use its index."""
        try:
            moment = parse_iso_date(text.strip(), self.print_context.zone)
        except ValueError:
            return None
        if not 1900 < moment.year < 2290:
            return None
        return TypedSql(
            self.parameters.add_time(moment), ValueType.DATETIME, nullable=False, is_constant=True
        )

    def find_stored_property(
        self, table: str, columns: PropertyColumns, keys: Sequence[str | int]
    ) -> str | StoredProperty | None:
        """Return SQL for the text of a common property, or where another one is stored. None if
        it can only be read from the JSON text. `table` is the alias of the table."""
        key = keys[0]
        if len(keys) > 1 or not isinstance(key, str) or not self.print_context.reads_typed_columns:
            return None
        if key in columns.common_keys:
            return f"{table}.`{columns.common}`.`{key}`"
        if not columns.has_subcolumn(key):
            return None
        return StoredProperty(f"{table}.`{columns.other}`.{self.parameters.add('Identifier', key)}")

    def extract_property(
        self,
        base: str,
        keys: Sequence[str | int],
        stored: str | StoredProperty | None = None,
    ) -> TypedSql:
        """Read a property: from where it is stored, or from JSON text."""
        if isinstance(stored, StoredProperty):
            return TypedSql(stored.text, ValueType.STRING, is_untyped=True, stored=stored)
        text = stored or self._extract_text(base, keys)
        return TypedSql(text, ValueType.STRING, is_untyped=True)

    def _extract_text(self, base: str, keys: Sequence[str | int]) -> str:
        path = ", ".join(
            self.parameters.add_text(key)
            if isinstance(key, str)
            else self.parameters.add_integer(key)
            for key in keys
        )
        return f"JSONExtract({base}, {path}, 'Nullable(String)')"


def bool_from_text(piece: TypedSql) -> str:
    """Convert "true" and "false" to a boolean, and other text to NULL."""
    if piece.stored is not None:
        return piece.stored.print_bool()
    return f"transform({piece.sql}, ['true', 'false'], [true, false], NULL)"


def number_from_text(piece: TypedSql) -> str:
    return convert_to_number(piece, lambda text: f"toFloat64OrNull({text})")


def convert_to_number(piece: TypedSql, parse: Callable[[str], str]) -> str:
    """Convert text with `parse`. A number that is stored as such is not converted."""
    return parse(piece.sql) if piece.stored is None else piece.stored.print_number(parse)


def print_is_null(piece: TypedSql) -> str:
    return f"isNull({piece.sql if piece.stored is None else piece.stored.sql})"


def print_is_not_null(piece: TypedSql) -> str:
    return f"isNotNull({piece.sql if piece.stored is None else piece.stored.sql})"
