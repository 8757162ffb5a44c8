"""Calls as SQL: most go through by name, a few need the project's time zone or another spelling."""

from collections.abc import Sequence

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
from hedgerow.hogql.comparisons import as_text, check_pattern
from hedgerow.hogql.context import as_number
from hedgerow.hogql.conversions import ConversionPrinter
from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.functions import AGGREGATES, WINDOWED, Function, function, is_aggregate
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
# Their second argument is a regular expression.
_PATTERN_SECOND = frozenset({"match", "extract", "extractAll", "replaceRegexpOne",
                             "replaceRegexpAll", "countMatches", "extractGroups"})  # fmt: skip
_OF_TEXTS = ("JSON", "Searching and splitting", "Texts", "URLs and addresses")
_MAX_ARGUMENTS = 1_000


class CallPrinter(ConversionPrinter):
    """Prints calls and window functions."""

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
            return self.special(found.name, call)
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
        if _gives_array(found) and piece.kind is Kind.STRING and piece.nullable:
            return Piece(f"ifNull({piece.sql}, '')", Kind.STRING, nullable=False)
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
        if found.name not in WINDOWED and not is_aggregate(found.name):
            raise HogQLError(f"Function '{node.name}' cannot have a window", start=node.start)
        args = self._aggregated(found, _without_star(node))
        if isinstance(node.over, str):
            name = self.scope.windows.get(node.over)
            if name is None:
                hint = did_you_mean(node.over, self.scope.windows)
                raise HogQLError(f"Unknown window {shown(node.over)}", start=node.start, hint=hint)
            over = name
        else:
            over = f"({self.window(node.over) if node.over else ''})"
        return Piece(f"{found.engine}{self._params(node.params)}({args}) OVER {over}", found.kind)


def _without_star(call: Call | WindowFunction) -> Sequence[Expr]:
    """`count(*)` counts rows."""
    only = call.args[0] if len(call.args) == 1 else None
    if isinstance(only, Field) and tuple(only.chain) == ("*",) and call.name.lower() == "count":
        return ()
    return call.args


def _gives_array(found: Function) -> bool:
    """An array cannot be NULL: what is read from no text at all is read from an empty one."""
    return found.name == "JSONExtract" or (found.kind is Kind.ARRAY and found.group in _OF_TEXTS)


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


def _check_reduction(node: Expr) -> None:
    """The name of an aggregation given as a text is one that a query may call."""
    name = node.value if isinstance(node, Constant) else None
    if not isinstance(name, str) or not is_aggregate(name.partition("(")[0]):
        raise HogQLError("arrayReduce needs the name of an aggregation", start=node.start)
