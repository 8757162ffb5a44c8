"""The printer of calls. Most keep their name; a few need the project's time zone or other
syntax.
"""

from collections.abc import Sequence

from hedgerow.hogql.ast import (
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    FunctionCall,
    Lambda,
    WindowFunction,
)
from hedgerow.hogql.errors import HogQLError, did_you_mean, quote
from hedgerow.hogql.functions import (
    AGGREGATES,
    WINDOW_FUNCTIONS,
    Function,
    find_function,
    is_aggregate,
)
from hedgerow.hogql.printer.comparisons import check_regex, to_text
from hedgerow.hogql.printer.context import number_from_text
from hedgerow.hogql.printer.conversions import ConversionPrinter
from hedgerow.hogql.typed_sql import TypedSql, ValueType

# Functions that are operators.
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
# Aggregate functions over numbers: they convert an untyped property to a number.
_NUMERIC = frozenset(
    name
    for name, each in AGGREGATES.items()
    if each.type is ValueType.NUMBER
    and not name.startswith(("count", "uniq", "retention"))
    and not name.startswith(("window", "sequence", "entropy", "cramers", "theils", "contingency"))
) | {
    name
    for name in AGGREGATES
    if name.startswith(("quantile", "median", "sumCount", "histogram", "groupArrayMoving"))
}
# Those whose other arguments are numbers as well.
_NUMERIC_THROUGHOUT = {
    name
    for name in AGGREGATES
    if name.startswith(("covar", "corr", "rankCorr", "maxIntersections"))
    or name.endswith(("Test", "Regression"))
} | {
    "analysisOfVariance",
    "avgWeighted",
    "boundingRatio",
    "deltaSumTimestamp",
    "exponentialMovingAverage",
    "intervalLengthSum",
    "largestTriangleThreeBuckets",
}
# Aggregate functions that accept times in whole seconds only.
_SECOND_PRECISION = frozenset({"windowFunnel", "sequenceMatch", "sequenceCount",
                        "exponentialTimeDecayedAvg", "exponentialTimeDecayedSum"})  # fmt: skip
# Functions whose second argument is a regular expression.
_REGEX_SECOND = frozenset({"match", "extract", "extractAll", "replaceRegexpOne",
                             "replaceRegexpAll", "countMatches", "extractGroups"})  # fmt: skip
_TEXT_GROUPS = ("JSON", "Searching and splitting", "Texts", "URLs and addresses")
_MAX_ARGUMENTS = 1_000
SUNDAY_WEEKS, MONDAY_WEEKS = 0, 3


class CallPrinter(ConversionPrinter):
    """Prints calls and window functions."""

    def print_call(self, call: FunctionCall) -> TypedSql:
        if len(call.args) > _MAX_ARGUMENTS:
            raise HogQLError("This call has more than 1,000 arguments", start=call.start)
        op = COMPARISONS.get(call.name.lower())
        if op is not None and len(call.args) == 2:
            left, right = call.args
            return self.print_expr(
                CompareOperation(op=op, left=left, right=right, start=call.start, end=call.end)
            )
        args = _args_without_star(call)
        found = find_function(call.name, len(args), call.start)
        if found.group == "Special":
            return self.print_special(found.name, call)
        if is_aggregate(found.name):
            return self._print_aggregation(found, call, args)
        if call.params is not None or call.distinct:
            raise HogQLError(
                f"Function '{call.name}' takes one list of arguments, without DISTINCT",
                start=call.start,
            )
        self._check_constant_args(found, args)
        if found.name == "toStartOfWeek" and len(args) == 1:
            args = [*args, Constant(value=self._week_mode)]
        printed = [self._print_argument(found, each, number) for number, each in enumerate(args)]
        return _print_result(found, printed)

    @property
    def _week_mode(self) -> int:
        """The project's first day of a week, as ClickHouse numbers it."""
        return MONDAY_WEEKS if self.state.print_context.starts_weeks_on_monday else SUNDAY_WEEKS

    def _print_argument(self, found: Function, node: Expr, number: int) -> TypedSql:
        if isinstance(node, Lambda):
            return TypedSql(self.print_lambda(node), nullable=False)
        if found.group == "Logic" or (
            found.name in ("if", "multiIf") and _is_condition(found, number)
        ):
            return self.print_condition(node)
        piece = self.print_expr(node)
        if piece.is_untyped and found.group == "Arithmetic and mathematics":
            return TypedSql(number_from_text(piece), ValueType.NUMBER)
        if piece.is_untyped and found.group == "Dates and times" and "parse" not in found.name:
            return self.state.parse_time(piece.sql)
        if _returns_array(found) and piece.type is ValueType.STRING and piece.nullable:
            return TypedSql(f"ifNull({piece.sql}, '')", ValueType.STRING, nullable=False)
        if found.engine_name in ("startsWith", "endsWith", "position", "substring") and not number:
            return to_text(piece)
        return piece

    def _print_aggregation(
        self, found: Function, call: FunctionCall, args: Sequence[Expr]
    ) -> TypedSql:
        engine = found.engine_name
        if call.distinct:
            engine = "uniqExact" if engine == "count" else f"{engine}Distinct"
            if not args:
                raise HogQLError("DISTINCT requires an argument", start=call.start)
        return TypedSql(
            f"{engine}{self._print_params(call.params)}({self._print_aggregate_args(found, args)})",
            found.type,
            nullable=found.name not in ("count", "uniq", "uniqExact", "countIf", "uniqIf"),
        )

    def _print_aggregate_args(self, found: Function, args: Sequence[Expr]) -> str:
        is_grouped, self.is_grouped = self.is_grouped, False
        try:
            return self._print_plain_args(found, args)
        finally:
            self.is_grouped = is_grouped

    def _print_plain_args(self, found: Function, args: Sequence[Expr]) -> str:
        printed = []
        conditional = found.name.endswith("If")
        base = found.name.removesuffix("If").removesuffix("OrNull").removesuffix("OrDefault")
        for number, each in enumerate(args):
            if conditional and number == len(args) - 1:
                printed.append(self.print_condition(each).sql)
                continue
            if isinstance(each, Lambda):
                raise HogQLError("Aggregate functions do not accept a lambda", start=each.start)
            piece = self.print_expr(each)
            if base in _SECOND_PRECISION and number == 0 and piece.type is ValueType.DATETIME:
                piece = piece.with_sql(f"toDateTime({piece.sql})")
            is_number = base in _NUMERIC_THROUGHOUT or (base in _NUMERIC and not number)
            converts = piece.is_untyped and is_number
            printed.append(number_from_text(piece) if converts else piece.sql)
        return ", ".join(printed)

    def _print_params(self, params: Sequence[Expr] | None) -> str:
        if params is None:
            return ""
        for each in params:
            if not isinstance(each, Constant):
                raise HogQLError("The parameters of a function must be constants", start=each.start)
        return f"({self.print_list(params)})"

    def _check_constant_args(self, found: Function, args: Sequence[Expr]) -> None:
        if found.name == "arrayReduce":
            _check_array_reduce(args[0])
        if found.name in _REGEX_SECOND and isinstance(args[1], Constant):
            value = args[1].value
            if isinstance(value, str):
                check_regex(value, args[1].start)

    def print_window_function(self, node: WindowFunction) -> TypedSql:
        found = find_function(node.name, len(_args_without_star(node)), node.start, in_window=True)
        if found.name not in WINDOW_FUNCTIONS and not is_aggregate(found.name):
            raise HogQLError(f"Function '{node.name}' cannot be used with OVER", start=node.start)
        args = self._print_aggregate_args(found, _args_without_star(node))
        if isinstance(node.over, str):
            name = self.scope.windows.get(node.over)
            if name is None:
                hint = did_you_mean(node.over, self.scope.windows)
                raise HogQLError(f"Unknown window {quote(node.over)}", start=node.start, hint=hint)
            over = name
        else:
            over = f"({self.print_window(node.over) if node.over else ''})"
        return TypedSql(
            f"{found.engine_name}{self._print_params(node.params)}({args}) OVER {over}", found.type
        )


def _args_without_star(call: FunctionCall | WindowFunction) -> Sequence[Expr]:
    """Return the arguments. `count(*)` has none."""
    only = call.args[0] if len(call.args) == 1 else None
    if isinstance(only, Field) and tuple(only.chain) == ("*",) and call.name.lower() == "count":
        return ()
    return call.args


def _returns_array(found: Function) -> bool:
    """Return whether the function returns an array, which cannot be NULL: NULL text becomes empty
    text."""
    return found.name == "JSONExtract" or (
        found.type is ValueType.ARRAY and found.group in _TEXT_GROUPS
    )


def _is_condition(found: Function, number: int) -> bool:
    return number % 2 == 0 if found.name == "multiIf" else number == 0


def _print_result(found: Function, printed: Sequence[TypedSql]) -> TypedSql:
    sql = f"{found.engine_name}({', '.join([piece.sql for piece in printed])})"
    kind, loose = found.type, False
    if found.name in ("if", "ifNull", "coalesce", "nullIf", "greatest", "least", "any"):
        values = printed[1:] if found.name == "if" else printed
        kinds = {piece.type for piece in values if piece.sql != "NULL"}
        kind = kinds.pop() if len(kinds) == 1 else ValueType.UNKNOWN
        loose = kind is ValueType.STRING and all(
            piece.is_untyped or piece.sql == "NULL" for piece in values
        )
    fills = found.name in ("ifNull", "coalesce") and not printed[-1].nullable
    nullable = not fills and (
        found.type in (ValueType.UNKNOWN, ValueType.ARRAY)
        or "OrNull" in found.engine_name
        or any(piece.nullable for piece in printed)
    )
    return TypedSql(sql, kind, nullable=nullable, is_untyped=loose)


def _check_array_reduce(node: Expr) -> None:
    """Raise HogQLError unless arrayReduce names an aggregate function that a query may call."""
    name = node.value if isinstance(node, Constant) else None
    if not isinstance(name, str) or not is_aggregate(name.partition("(")[0]):
        raise HogQLError("arrayReduce requires the name of an aggregate function", start=node.start)
