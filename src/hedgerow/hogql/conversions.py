"""Conversions, times of the project, and other calls that are written in a way of their own."""

from collections.abc import Callable

from hedgerow.hogql.ast import Call, Compare, Constant, Expr, Field
from hedgerow.hogql.comparisons import as_text, compared, time_of, truth
from hedgerow.hogql.context import as_number
from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.expression_sql import ExpressionPrinter
from hedgerow.hogql.kinds import Kind, Piece

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
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "millisecond")


class ConversionPrinter(ExpressionPrinter):
    """Prints the functions of `functions.SPECIAL`."""

    def cast(self, expr: Expr, type_name: str, start: int | None) -> Piece:
        name = _TYPES.get(type_name.lower())
        if name is None:
            hint = did_you_mean(type_name, _TYPES)
            raise HogQLError(f"Unknown type {shown(type_name)}", start=start, hint=hint)
        return self.special(name, Call(name=name, args=(expr,), start=start))

    def special(self, name: str, call: Call) -> Piece:
        if call.params is not None or call.distinct:
            raise HogQLError(
                f"Function '{name}' takes one plain list of arguments", start=call.start
            )
        return _SPECIAL[name](self, call)

    def to_int(self, call: Call) -> Piece:
        inner = self.expr(call.args[0])
        return Piece(f"accurateCastOrNull({inner.sql}, 'Int64')", Kind.NUMBER)

    def to_float(self, call: Call) -> Piece:
        inner = self.expr(call.args[0])
        return Piece(f"accurateCastOrNull({inner.sql}, 'Float64')", Kind.NUMBER)

    def to_decimal(self, call: Call) -> Piece:
        inner = self.expr(call.args[0])
        scale = _whole(call.args[1], 0, 18)
        return Piece(f"accurateCastOrNull({inner.sql}, 'Decimal(18, {scale})')", Kind.NUMBER)

    def to_bool(self, call: Call) -> Piece:
        inner = self.expr(call.args[0])
        if inner.kind is Kind.BOOL:
            return inner
        text = f"lower(toString({inner.sql}))"
        return Piece(
            f"transform({text}, ['true', '1', 'yes', 'false', '0', 'no'],"
            " [true, true, true, false, false, false], NULL)",
            Kind.BOOL,
        )

    def to_string(self, call: Call) -> Piece:
        inner = self.expr(call.args[0])
        if len(call.args) == 2:
            return Piece(f"toString({inner.sql}, {self._zone(call.args[1])})", Kind.STRING)
        return Piece(f"toString({inner.sql})", Kind.STRING, nullable=inner.nullable)

    def to_uuid(self, call: Call) -> Piece:
        return Piece(f"accurateCastOrNull({self.expr(call.args[0]).sql}, 'UUID')", Kind.UUID)

    def to_date(self, call: Call) -> Piece:
        inner = self._time(call.args[0])
        return Piece(f"toDate({inner.sql})", Kind.DATE, nullable=inner.nullable)

    def to_date_time(self, call: Call) -> Piece:
        inner = self._time(call.args[0])
        if len(call.args) > 1 and call.name.lower() != "todatetime64":
            zone = self._zone(call.args[1])
            piece = self.expr(call.args[0])
            if piece.kind in (Kind.STRING, Kind.UNKNOWN):
                text = as_text(piece).sql
                return Piece(f"parseDateTime64BestEffortOrNull({text}, 6, {zone})", Kind.DATETIME)
            return Piece(f"toTimeZone({inner.sql}, {zone})", Kind.DATETIME)
        return inner

    def _time(self, node: Expr) -> Piece:
        """A moment, from whatever it is."""
        piece = self.expr(node)
        match piece.kind:
            case Kind.DATETIME:
                return piece
            case Kind.DATE:
                sql = f"toDateTime64({piece.sql}, 6, {self.context.zone})"
                return Piece(sql, Kind.DATETIME, nullable=piece.nullable)
            case Kind.NUMBER:
                sql = f"toDateTime64({piece.sql}, 6, {self.context.zone})"
                return Piece(sql, Kind.DATETIME, nullable=piece.nullable)
            case Kind.STRING:
                moment = time_of(self.context, piece)
                return self.context.shown_time(moment.sql, nullable=moment.nullable)
            case _:
                return self.context.parsed_time(f"toString({piece.sql})")

    def _zone(self, node: Expr) -> str:
        if not isinstance(node, Constant) or not isinstance(node.value, str):
            raise HogQLError("A time zone must be a text", start=node.start)
        return self.context.parameters.text(node.value)

    def now(self, call: Call) -> Piece:
        del call
        return self.context.now

    def today(self, call: Call) -> Piece:
        del call
        return Piece(f"toDate({self.context.now.sql})", Kind.DATE, nullable=False)

    def yesterday(self, call: Call) -> Piece:
        del call
        return Piece(f"minus(toDate({self.context.now.sql}), 1)", Kind.DATE, nullable=False)

    def timezone(self, call: Call) -> Piece:
        del call
        return self.context.parameters.constant(self.context.world.timezone)

    def date_add(self, call: Call) -> Piece:
        """`dateAdd('day', 1, x)`, `dateAdd(day, 1, x)` and `dateAdd(x, interval 1 day)`."""
        sign = "minus" if "sub" in call.name.lower() else "plus"
        if len(call.args) == 2:
            moment, interval = self.expr(call.args[0]), self.expr(call.args[1])
            if moment.is_loose:
                moment = self.context.parsed_time(moment.sql)
            return Piece(f"{sign}({moment.sql}, {interval.sql})", Kind.DATETIME)
        unit = _unit(call.args[0])
        amount, moment = self.expr(call.args[1]), self.expr(call.args[2])
        if moment.kind is Kind.STRING:
            moment = time_of(self.context, moment)
        number = as_number(amount.sql) if amount.is_loose else amount.sql
        return Piece(
            f"{sign}({moment.sql}, toInterval{unit.capitalize()}({number}))", Kind.DATETIME
        )

    def cast_call(self, call: Call) -> Piece:
        kind = call.args[1]
        if not isinstance(kind, Constant) or not isinstance(kind.value, str):
            raise HogQLError("A type must be a text", start=kind.start)
        return self.cast(call.args[0], kind.value, call.start)

    def case(self, call: Call) -> Piece:
        """`CASE x WHEN 1 THEN ...`."""
        subject, *rest = call.args
        if len(rest) % 2 == 0:
            raise HogQLError("Every WHEN needs a THEN", start=call.start)
        left = self.expr(subject)
        parts: list[str] = []
        for when, then in zip(rest[:-1:2], rest[1::2], strict=True):
            equal = compared(self.context, Compare.EQ, left, self.expr(when))
            parts += [equal.sql, self.expr(then).sql]
        return Piece(f"multiIf({', '.join(parts)}, {self.expr(rest[-1]).sql})")

    def is_null(self, call: Call) -> Piece:
        return truth(f"isNull({self.expr(call.args[0]).sql})")

    def is_not_null(self, call: Call) -> Piece:
        return truth(f"isNotNull({self.expr(call.args[0]).sql})")

    def exists(self, call: Call) -> Piece:
        return truth(f"exists{self.expr(call.args[0]).sql}")


_SPECIAL: dict[str, Callable[[ConversionPrinter, Call], Piece]] = {
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
    "isNull": ConversionPrinter.is_null,
    "isNotNull": ConversionPrinter.is_not_null,
    "exists": ConversionPrinter.exists,
}


def _whole(node: Expr, low: int, high: int) -> int:
    if isinstance(node, Constant) and isinstance(node.value, int) and low <= node.value <= high:
        return node.value
    raise HogQLError(f"Expected a whole number from {low} to {high}", start=node.start)


def _unit(node: Expr) -> str:
    given = node.value if isinstance(node, Constant) else None
    if isinstance(node, Field) and len(node.chain) == 1:
        given = node.chain[0]
    unit = str(given).lower().removesuffix("s")
    if unit not in _UNITS:
        raise HogQLError(
            "Unknown unit of time", start=node.start, hint=f"One of {', '.join(_UNITS)}."
        )
    return unit
