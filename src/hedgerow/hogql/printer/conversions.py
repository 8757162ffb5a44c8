"""The printer of conversions, current time, date arithmetic, CASE and other special functions."""

from collections.abc import Callable

from hedgerow.hogql.ast import Compare, Constant, Expr, Field, FunctionCall
from hedgerow.hogql.errors import HogQLError, did_you_mean, quote
from hedgerow.hogql.printer.comparisons import bool_sql, print_comparison, time_from_text, to_text
from hedgerow.hogql.printer.context import (
    convert_to_number,
    number_from_text,
    print_is_not_null,
    print_is_null,
)
from hedgerow.hogql.printer.expressions import ExpressionPrinter
from hedgerow.hogql.traversal import qualify_fields
from hedgerow.hogql.typed_sql import TypedSql, ValueType

_TYPES = {
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "tinyint", "int8", "int16", "int32",
                     "int64"), "toInt"),
    **dict.fromkeys(("float", "double", "real", "numeric", "float32", "float64", "decimal"),
                    "toFloat"),
    **dict.fromkeys(("string", "text", "varchar", "char"), "toString"),
    **dict.fromkeys(("bool", "boolean"), "toBool"),
    **dict.fromkeys(("datetime", "datetime64", "timestamp", "timestamptz",
                     "timestamp with time zone", "timestamp without time zone"), "toDateTime"),
    "date": "toDate",
    "uuid": "toUUID",
}  # fmt: skip
# Text that filters compare as a number.
DECIMAL_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "millisecond")


class ConversionPrinter(ExpressionPrinter):
    """Prints the functions of `functions.SPECIAL`."""

    def print_cast(self, expr: Expr, type_name: str, start: int | None) -> TypedSql:
        name = _TYPES.get(type_name.lower())
        if name is None:
            hint = did_you_mean(type_name, _TYPES)
            raise HogQLError(f"Unknown type {quote(type_name)}", start=start, hint=hint)
        return self.print_special(name, FunctionCall(name=name, args=(expr,), start=start))

    def print_special(self, name: str, call: FunctionCall) -> TypedSql:
        if call.params is not None or call.distinct:
            raise HogQLError(
                f"Function '{name}' takes one list of arguments, without DISTINCT", start=call.start
            )
        return _PRINTERS[name](self, call)

    def to_int(self, call: FunctionCall) -> TypedSql:
        inner = self.print_expr(call.args[0])
        return TypedSql(f"accurateCastOrNull({inner.sql}, 'Int64')", ValueType.NUMBER)

    def to_float(self, call: FunctionCall) -> TypedSql:
        inner = self.print_expr(call.args[0])
        return TypedSql(convert_to_number(inner, _parse_float), ValueType.NUMBER)

    def to_number(self, call: FunctionCall) -> TypedSql:
        """Convert text that is a decimal number, NULL for other text."""
        pattern = self.state.parameters.add_text(DECIMAL_NUMBER)
        inner = self.print_expr(call.args[0])

        def parse(text: str) -> str:
            return f"if(match({text}, {pattern}), {_parse_float(text)}, NULL)"

        return TypedSql(convert_to_number(inner, parse), ValueType.NUMBER)

    def may_have_key(self, call: FunctionCall) -> TypedSql:
        """Search JSON text for a key, unless the key is read from a column of its own: a search is
        much faster than JSON extraction, and most events lack a rare key."""
        text, key = call.args
        if not isinstance(text, Field) or not isinstance(key, Constant):
            raise HogQLError(f"Unknown function {quote(call.name)}", start=call.start)
        piece = self.print_expr(Field(chain=(*text.chain, str(key.value))))
        if not piece.sql.startswith("JSONExtract"):
            return bool_sql("true")
        mention = self.state.parameters.add_text(f'"{key.value}"')
        return bool_sql(f"greater(position({self.print_expr(text).sql}, {mention}), 0)")

    def to_decimal(self, call: FunctionCall) -> TypedSql:
        inner = self.print_expr(call.args[0])
        scale = _read_integer(call.args[1], 0, 18)
        return TypedSql(
            f"accurateCastOrNull({inner.sql}, 'Decimal(18, {scale})')", ValueType.NUMBER
        )

    def to_bool(self, call: FunctionCall) -> TypedSql:
        inner = self.print_expr(call.args[0])
        if inner.type is ValueType.BOOL:
            return inner
        text = f"lower(toString({inner.sql}))"
        return TypedSql(
            f"transform({text}, ['true', '1', 'yes', 'false', '0', 'no'],"
            " [true, true, true, false, false, false], NULL)",
            ValueType.BOOL,
        )

    def to_string(self, call: FunctionCall) -> TypedSql:
        inner = self.print_expr(call.args[0])
        if len(call.args) == 2:
            return TypedSql(
                f"toString({inner.sql}, {self._print_zone(call.args[1])})", ValueType.STRING
            )
        return TypedSql(f"toString({inner.sql})", ValueType.STRING, nullable=inner.nullable)

    def to_uuid(self, call: FunctionCall) -> TypedSql:
        return TypedSql(
            f"accurateCastOrNull({self.print_expr(call.args[0]).sql}, 'UUID')", ValueType.UUID
        )

    def to_date(self, call: FunctionCall) -> TypedSql:
        inner = self._print_time(call.args[0])
        return TypedSql(f"toDate({inner.sql})", ValueType.DATE, nullable=inner.nullable)

    def to_date_time(self, call: FunctionCall) -> TypedSql:
        inner = self._print_time(call.args[0])
        if len(call.args) > 1 and call.name.lower() != "todatetime64":
            zone = self._print_zone(call.args[1])
            piece = self.print_expr(call.args[0])
            if piece.type in (ValueType.STRING, ValueType.UNKNOWN):
                text = to_text(piece).sql
                return TypedSql(
                    f"parseDateTime64BestEffortOrNull({text}, 6, {zone})", ValueType.DATETIME
                )
            return TypedSql(f"toTimeZone({inner.sql}, {zone})", ValueType.DATETIME)
        return inner

    def _print_time(self, node: Expr) -> TypedSql:
        """Convert any value to a time."""
        piece = self.print_expr(node)
        match piece.type:
            case ValueType.DATETIME:
                return piece
            case ValueType.DATE:
                sql = f"toDateTime64({piece.sql}, 6, {self.state.zone})"
                return TypedSql(sql, ValueType.DATETIME, nullable=piece.nullable)
            case ValueType.NUMBER:
                sql = f"toDateTime64({piece.sql}, 6, {self.state.zone})"
                return TypedSql(sql, ValueType.DATETIME, nullable=piece.nullable)
            case ValueType.STRING:
                moment = time_from_text(self.state, piece)
                return self.state.localize_time(moment.sql, nullable=moment.nullable)
            case _:
                return self.state.parse_time(f"toString({piece.sql})")

    def _print_zone(self, node: Expr) -> str:
        if not isinstance(node, Constant) or not isinstance(node.value, str):
            raise HogQLError("A time zone must be a string", start=node.start)
        return self.state.parameters.add_text(node.value)

    def now(self, call: FunctionCall) -> TypedSql:
        del call
        return self.state.now

    def today(self, call: FunctionCall) -> TypedSql:
        del call
        return TypedSql(f"toDate({self.state.now.sql})", ValueType.DATE, nullable=False)

    def yesterday(self, call: FunctionCall) -> TypedSql:
        del call
        return TypedSql(f"minus(toDate({self.state.now.sql}), 1)", ValueType.DATE, nullable=False)

    def timezone(self, call: FunctionCall) -> TypedSql:
        del call
        return self.state.parameters.add_constant(self.state.print_context.timezone)

    def date_add(self, call: FunctionCall) -> TypedSql:
        """Print `dateAdd('day', 1, x)`, `dateAdd(day, 1, x)` and `dateAdd(x, interval 1 day)`."""
        sign = "minus" if "sub" in call.name.lower() else "plus"
        if len(call.args) == 2:
            moment, interval = self.print_expr(call.args[0]), self.print_expr(call.args[1])
            if moment.is_untyped:
                moment = self.state.parse_time(moment.sql)
            return TypedSql(f"{sign}({moment.sql}, {interval.sql})", ValueType.DATETIME)
        unit = _read_unit(call.args[0])
        amount, moment = self.print_expr(call.args[1]), self.print_expr(call.args[2])
        if moment.type is ValueType.STRING:
            moment = time_from_text(self.state, moment)
        number = number_from_text(amount) if amount.is_untyped else amount.sql
        return TypedSql(
            f"{sign}({moment.sql}, toInterval{unit.capitalize()}({number}))", ValueType.DATETIME
        )

    def cast_call(self, call: FunctionCall) -> TypedSql:
        kind = call.args[1]
        if not isinstance(kind, Constant) or not isinstance(kind.value, str):
            raise HogQLError("A type must be a string", start=kind.start)
        return self.print_cast(call.args[0], kind.value, call.start)

    def case(self, call: FunctionCall) -> TypedSql:
        """Print `CASE x WHEN 1 THEN ...`."""
        subject, *rest = call.args
        if len(rest) % 2 == 0:
            raise HogQLError("Every WHEN needs a THEN", start=call.start)
        left = self.print_expr(subject)
        parts: list[str] = []
        for when, then in zip(rest[:-1:2], rest[1::2], strict=True):
            equal = print_comparison(self.state, Compare.EQ, left, self.print_expr(when))
            parts += [equal.sql, self.print_expr(then).sql]
        return TypedSql(f"multiIf({', '.join(parts)}, {self.print_expr(rest[-1]).sql})")

    def is_null(self, call: FunctionCall) -> TypedSql:
        return bool_sql(print_is_null(self.print_expr(call.args[0])))

    def is_not_null(self, call: FunctionCall) -> TypedSql:
        return bool_sql(print_is_not_null(self.print_expr(call.args[0])))

    def exists(self, call: FunctionCall) -> TypedSql:
        return bool_sql(f"exists{self.print_expr(call.args[0]).sql}")

    def matches_action(self, call: FunctionCall) -> TypedSql:
        """Print the condition of an action, for the events of the query."""
        which = call.args[0].value if isinstance(call.args[0], Constant) else None
        if isinstance(which, bool) or not isinstance(which, int | str):
            raise HogQLError("Expected the id or the name of an action", start=call.start)
        if self.state.is_in_action:
            raise HogQLError("The steps of an action cannot refer to actions", start=call.start)
        condition = self.state.print_context.find_action(which)
        if condition is None:
            raise HogQLError("Could not find the action", start=call.start)
        events = self.scope.find_events_name()
        if events is None:
            raise HogQLError("matchesAction needs a query of one events table", start=call.start)
        condition = qualify_fields(condition, events)
        self.state.is_in_action = True
        try:
            return bool_sql(f"ifNull({self.print_expr(condition).sql}, false)")
        finally:
            self.state.is_in_action = False

    def flag(self, call: FunctionCall) -> TypedSql:
        """Print the value of a flag for the distinct id and the groups of an event, as text."""
        key = call.args[0].value if isinstance(call.args[0], Constant) else None
        if not isinstance(key, str):
            raise HogQLError("Expected the key of a flag, as text", start=call.start)
        found = self.state.print_context.find_flag(key)
        if found is None:
            raise HogQLError(f"Could not find the flag {quote(key[:100])}", start=call.start)
        events = self.scope.find_events_name()
        if events is None:
            raise HogQLError("flag() needs a query of one events table", start=call.start)
        default = self.state.parameters.add_text(found.default)
        if not found.values:
            return TypedSql(default, ValueType.STRING, nullable=False)
        columns = [
            f"ifNull({self.scope.resolve_column((events, name), call.start).sql}, '')"
            for name in found.columns
        ]
        key_sql = columns[0]
        if len(columns) > 1:
            parts = ", ".join(f"toString(length({each})), ':', {each}" for each in columns)
            key_sql = f"concat({parts})"
        self.state.sent_tables.update(found.values)
        cases = ", ".join(
            f"{key_sql} IN (SELECT k FROM {name}), {self.state.parameters.add_text(value)}"  # noqa: S608 - ours
            for name, value in found.values.items()
        )
        return TypedSql(f"multiIf({cases}, {default})", ValueType.STRING, nullable=False)


_PRINTERS: dict[str, Callable[[ConversionPrinter, FunctionCall], TypedSql]] = {
    "toInt": ConversionPrinter.to_int,
    "toFloat": ConversionPrinter.to_float,
    "toDecimal": ConversionPrinter.to_decimal,
    "toBool": ConversionPrinter.to_bool,
    "toString": ConversionPrinter.to_string,
    "toUUID": ConversionPrinter.to_uuid,
    "toDate": ConversionPrinter.to_date,
    "date": ConversionPrinter.to_date,
    "toDateTime": ConversionPrinter.to_date_time,
    "toDateTime64": ConversionPrinter.to_date_time,
    "timestamp": ConversionPrinter.to_date_time,
    "now": ConversionPrinter.now,
    "now64": ConversionPrinter.now,
    "today": ConversionPrinter.today,
    "current_date": ConversionPrinter.today,
    "yesterday": ConversionPrinter.yesterday,
    "timezone": ConversionPrinter.timezone,
    "dateAdd": ConversionPrinter.date_add,
    "date_add": ConversionPrinter.date_add,
    "dateSub": ConversionPrinter.date_add,
    "date_sub": ConversionPrinter.date_add,
    "cast": ConversionPrinter.cast_call,
    "accurateCast": ConversionPrinter.cast_call,
    "accurateCastOrNull": ConversionPrinter.cast_call,
    "_caseWithExpression": ConversionPrinter.case,
    "_toNumber": ConversionPrinter.to_number,
    "_mayHaveKey": ConversionPrinter.may_have_key,
    "isNull": ConversionPrinter.is_null,
    "isNotNull": ConversionPrinter.is_not_null,
    "exists": ConversionPrinter.exists,
    "matchesAction": ConversionPrinter.matches_action,
    "flag": ConversionPrinter.flag,
}


def _parse_float(text: str) -> str:
    return f"accurateCastOrNull({text}, 'Float64')"


def _read_integer(node: Expr, low: int, high: int) -> int:
    if isinstance(node, Constant) and isinstance(node.value, int) and low <= node.value <= high:
        return node.value
    raise HogQLError(f"Expected a whole number from {low} to {high}", start=node.start)


def _read_unit(node: Expr) -> str:
    sent = node.value if isinstance(node, Constant) else None
    if isinstance(node, Field) and len(node.chain) == 1:
        sent = node.chain[0]
    unit = str(sent).lower().removesuffix("s")
    if unit not in _UNITS:
        raise HogQLError(
            "Unknown unit of time", start=node.start, hint=f"Use one of: {', '.join(_UNITS)}."
        )
    return unit
