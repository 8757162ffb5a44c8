"""Calls as SQL: most go through by name, a few need the project's time zone or another spelling."""

from collections.abc import Callable, Sequence

from hedgerow.hogql.ast import (
    Call,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    Lambda,
    WindowFunction,
)
from hedgerow.hogql.comparisons import as_text, check_pattern, compared, time_of, truth
from hedgerow.hogql.context import as_number
from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.expression_sql import ExpressionPrinter
from hedgerow.hogql.functions import AGGREGATES, Function, function, is_aggregate
from hedgerow.hogql.kinds import Kind, Piece

# Written as calls, meant as operators.
COMPARISONS = {
    "equals": Compare.EQ,
    "notequals": Compare.NOT_EQ,
    "less": Compare.LT,
    "greater": Compare.GT,
    "lessorequals": Compare.LT_EQ,
    "greaterorequals": Compare.GT_EQ,
    "like": Compare.LIKE,
    "ilike": Compare.ILIKE,
    "notlike": Compare.NOT_LIKE,
    "notilike": Compare.NOT_ILIKE,
    "in": Compare.IN,
    "notin": Compare.NOT_IN,
}
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
# Over numbers: the text of a property is read as one for these.
_NUMERIC = frozenset(
    name
    for name, each in AGGREGATES.items()
    if each.kind is Kind.NUMBER
    and not name.startswith(("count", "uniq", "retention"))
    and not name.startswith(("window", "sequence", "entropy", "cramers", "theils", "contingency"))
) | {name for name in AGGREGATES if name.startswith(("quantile", "median"))}
# These know no time finer than a second.
_BY_SECOND = frozenset({"windowFunnel", "sequenceMatch", "sequenceCount",
                        "exponentialTimeDecayedAvg", "exponentialTimeDecayedSum"})  # fmt: skip
_PATTERN_SECOND = frozenset({"match", "extract", "extractAll", "replaceRegexpOne",
                             "replaceRegexpAll", "countMatches", "extractGroups"})  # fmt: skip
# An argument that is a lambda comes first; for all others there is none.
_MAX_ARGUMENTS = 1_000


class CallPrinter(ExpressionPrinter):
    """Prints calls, window functions and casts."""

    def call(self, call: Call) -> Piece:
        if len(call.args) > _MAX_ARGUMENTS:
            raise HogQLError("This call has too many arguments", start=call.start)
        op = COMPARISONS.get(call.name.lower())
        if op is not None and len(call.args) == 2:
            left, right = call.args
            return self.expr(
                CompareOperation(op=op, left=left, right=right, start=call.start, end=call.end)
            )
        args = _without_star(call)
        found = function(call.name, len(args), call.start)
        if found.group == "Special":
            return self._special(found.name, call)
        if is_aggregate(found.name):
            return self._aggregation(found, call, args)
        if call.params is not None or call.distinct:
            raise HogQLError(
                f"Function '{call.name}' takes one plain list of arguments", start=call.start
            )
        self._check_patterns(found, args)
        printed = [self._argument(found, each, number) for number, each in enumerate(args)]
        return _result(found, printed)

    def _argument(self, found: Function, node: Expr, number: int) -> Piece:
        if isinstance(node, Lambda):
            return Piece(self.lambda_(node), nullable=False)
        if found.group == "Logic" or (
            found.name in ("if", "multiIf") and _is_condition(found, number)
        ):
            return self.condition(node)
        piece = self.expr(node)
        if piece.is_loose and found.group == "Arithmetic and mathematics":
            return Piece(as_number(piece.sql), Kind.NUMBER)
        if piece.is_loose and found.group == "Dates and times" and "parse" not in found.name:
            return self.context.parsed_time(piece.sql)
        if found.engine in ("startsWith", "endsWith", "position", "substring") and not number:
            return as_text(piece)
        return piece

    def _aggregation(self, found: Function, call: Call, args: Sequence[Expr]) -> Piece:
        engine = found.engine
        if call.distinct:
            engine = "uniqExact" if engine == "count" else f"{engine}Distinct"
            if not args:
                raise HogQLError("DISTINCT needs an argument", start=call.start)
        return Piece(
            f"{engine}{self._params(call.params)}({self._aggregated(found, args)})",
            found.kind,
            nullable=found.name not in ("count", "uniq", "uniqExact", "countIf", "uniqIf"),
        )

    def _aggregated(self, found: Function, args: Sequence[Expr]) -> str:
        printed = []
        conditional = found.name.endswith("If")
        base = found.name.removesuffix("If").removesuffix("OrNull").removesuffix("OrDefault")
        for number, each in enumerate(args):
            if conditional and number == len(args) - 1:
                printed.append(self.condition(each).sql)
                continue
            if isinstance(each, Lambda):
                raise HogQLError("An aggregation takes no lambda", start=each.start)
            piece = self.expr(each)
            if base in _BY_SECOND and number == 0 and piece.kind is Kind.DATETIME:
                piece = piece.at(f"toDateTime({piece.sql})")
            loose = piece.is_loose and base in _NUMERIC and number == 0
            printed.append(as_number(piece.sql) if loose else piece.sql)
        return ", ".join(printed)

    def _params(self, params: Sequence[Expr] | None) -> str:
        if params is None:
            return ""
        for each in params:
            if not isinstance(each, Constant):
                raise HogQLError("A parameter must be a constant", start=each.start)
        return f"({self.listed(params)})"

    def _check_patterns(self, found: Function, args: Sequence[Expr]) -> None:
        if found.name == "arrayReduce":
            _check_reduction(args[0])
        if found.name in _PATTERN_SECOND and isinstance(args[1], Constant):
            value = args[1].value
            if isinstance(value, str):
                check_pattern(value, args[1].start)

    def window_function(self, node: WindowFunction) -> Piece:
        found = function(node.name, len(_without_star(node)), node.start, in_window=True)
        if found.name not in _WINDOWED_TOO and not is_aggregate(found.name):
            raise HogQLError(f"Function '{node.name}' cannot have a window", start=node.start)
        args = self._aggregated(found, _without_star(node))
        if isinstance(node.over, str):
            name = self.scope.windows.get(node.over)
            if name is None:
                hint = did_you_mean(node.over, self.scope.windows)
                raise HogQLError(f"Unknown window '{node.over}'", start=node.start, hint=hint)
            over = name
        else:
            over = f"({self.window(node.over) if node.over else ''})"
        return Piece(f"{found.engine}{self._params(node.params)}({args}) OVER {over}", found.kind)

    def cast(self, expr: Expr, type_name: str, start: int | None) -> Piece:
        name = _TYPES.get(type_name.lower())
        if name is None:
            hint = did_you_mean(type_name, _TYPES)
            raise HogQLError(f"Unknown type {shown(type_name)}", start=start, hint=hint)
        return self._special(name, Call(name=name, args=(expr,), start=start))

    def _special(self, name: str, call: Call) -> Piece:
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


_SPECIAL: dict[str, Callable[[CallPrinter, Call], Piece]] = {
    "toInt": CallPrinter.to_int,
    "toFloat": CallPrinter.to_float,
    "toDecimal": CallPrinter.to_decimal,
    "toBool": CallPrinter.to_bool,
    "toString": CallPrinter.to_string,
    "toUUID": CallPrinter.to_uuid,
    "toDate": CallPrinter.to_date,
    "date": CallPrinter.to_date,
    "toDateTime": CallPrinter.to_date_time,
    "toDateTime64": CallPrinter.to_date_time,
    "timestamp": CallPrinter.to_date_time,
    "now": CallPrinter.now,
    "now64": CallPrinter.now,
    "today": CallPrinter.today,
    "current_date": CallPrinter.today,
    "yesterday": CallPrinter.yesterday,
    "timezone": CallPrinter.timezone,
    "dateAdd": CallPrinter.date_add,
    "date_add": CallPrinter.date_add,
    "dateSub": CallPrinter.date_add,
    "date_sub": CallPrinter.date_add,
    "cast": CallPrinter.cast_call,
    "accurateCast": CallPrinter.cast_call,
    "accurateCastOrNull": CallPrinter.cast_call,
    "_caseWithExpression": CallPrinter.case,
    "isNull": CallPrinter.is_null,
    "isNotNull": CallPrinter.is_not_null,
    "exists": CallPrinter.exists,
}
_WINDOWED_TOO = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist",
                           "ntile", "lagInFrame", "leadInFrame", "lag", "lead",
                           "nth_value"})  # fmt: skip


def _without_star(call: Call | WindowFunction) -> Sequence[Expr]:
    """`count(*)` counts rows."""
    only = call.args[0] if len(call.args) == 1 else None
    if isinstance(only, Field) and tuple(only.chain) == ("*",) and call.name.lower() == "count":
        return ()
    return call.args


def _is_condition(found: Function, number: int) -> bool:
    return number % 2 == 0 if found.name == "multiIf" else number == 0


def _result(found: Function, printed: Sequence[Piece]) -> Piece:
    sql = f"{found.engine}({', '.join([piece.sql for piece in printed])})"
    kind, loose = found.kind, False
    if found.name in ("if", "ifNull", "coalesce", "nullIf", "greatest", "least", "any"):
        values = printed[1:] if found.name == "if" else printed
        kinds = {piece.kind for piece in values if piece.sql != "NULL"}
        kind = kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN
        loose = kind is Kind.STRING and all(
            piece.is_loose or piece.sql == "NULL" for piece in values
        )
    fills = found.name in ("ifNull", "coalesce") and not printed[-1].nullable
    nullable = not fills and (
        found.kind in (Kind.UNKNOWN, Kind.ARRAY)
        or "OrNull" in found.engine
        or any(piece.nullable for piece in printed)
    )
    return Piece(sql, kind, nullable=nullable, is_loose=loose)


def _whole(node: Expr, low: int, high: int) -> int:
    if isinstance(node, Constant) and isinstance(node.value, int) and low <= node.value <= high:
        return node.value
    raise HogQLError(f"Expected a whole number from {low} to {high}", start=node.start)


def _check_reduction(node: Expr) -> None:
    """The name of an aggregation given as a text is one that a query may call."""
    name = node.value if isinstance(node, Constant) else None
    if not isinstance(name, str) or not is_aggregate(name.partition("(")[0]):
        raise HogQLError("arrayReduce needs the name of an aggregation", start=node.start)


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
