"""The printer of expressions."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from hedgerow.hogql.ast import (
    Alias,
    And,
    Arithmetic,
    ArithmeticOperation,
    Array,
    ArrayAccess,
    BetweenExpr,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    FunctionCall,
    Lambda,
    Not,
    Or,
    Placeholder,
    SelectQuery,
    SelectSet,
    Tuple,
    TupleAccess,
    TypeCast,
    WindowFunction,
    WindowSpec,
)
from hedgerow.hogql.errors import HogQLError, quote
from hedgerow.hogql.printer.comparisons import (
    bool_sql,
    check_regex,
    print_comparison,
    print_null_comparison,
    to_text,
)
from hedgerow.hogql.printer.context import bool_from_text, number_from_text
from hedgerow.hogql.printer.membership import MembershipPrinter, as_field
from hedgerow.hogql.printer.sources import descend
from hedgerow.hogql.typed_sql import TypedSql, ValueType

# Printing makes several recursive calls for each level.
MAX_DEPTH = 150

_OPERATORS = {
    Arithmetic.ADD: "plus",
    Arithmetic.SUB: "minus",
    Arithmetic.MULT: "multiply",
    Arithmetic.DIV: "divide",
    Arithmetic.MOD: "modulo",
}
_REGEXES = (Compare.REGEX, Compare.NOT_REGEX, Compare.IREGEX, Compare.NOT_IREGEX)

_IN = (Compare.IN, Compare.NOT_IN, Compare.GLOBAL_IN, Compare.GLOBAL_NOT_IN)


_PLAIN_IN = {Compare.GLOBAL_IN: Compare.IN, Compare.GLOBAL_NOT_IN: Compare.NOT_IN}


class ExpressionPrinter(MembershipPrinter):
    """Prints the expressions of one SELECT. The scope resolves names."""

    @abstractmethod
    def print_call(self, call: FunctionCall) -> TypedSql: ...

    @abstractmethod
    def print_window_function(self, function: WindowFunction) -> TypedSql: ...

    @abstractmethod
    def print_cast(self, expr: Expr, type_name: str, start: int | None) -> TypedSql: ...

    def print_expr(self, node: Expr) -> TypedSql:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise HogQLError("The query is nested too deeply", start=node.start)
        piece = self._print_node(node)
        self.state.check_size(piece.sql)
        self.depth -= 1
        return piece

    def _print_node(self, node: Expr) -> TypedSql:  # noqa: C901 - a case a node
        match node:
            case Constant():
                return self.state.parameters.add_constant(node.value)
            case Field():
                return self.print_field(node)
            case And() | Or():
                return self._print_logic(node)
            case Not():
                return bool_sql(f"not({self.print_condition(node.expr).sql})")
            case CompareOperation():
                return self._print_comparison(node)
            case ArithmeticOperation():
                return self._print_arithmetic(node)
            case BetweenExpr():
                return self._print_between(node)
            case FunctionCall():
                return self.print_call(node)
            case TypeCast():
                return self.print_cast(node.expr, node.type_name, node.start)
            case Array():
                return TypedSql(f"[{self.print_list(node.exprs)}]", ValueType.ARRAY, nullable=False)
            case Tuple():
                return TypedSql(f"tuple({self.print_list(node.exprs)})", nullable=False)
            case ArrayAccess():
                return self._print_element(node)
            case TupleAccess():
                return TypedSql(
                    f"tupleElement({self.print_expr(node.tuple).sql}, {int(node.index)})"
                )
            case Alias():
                return self.print_expr(node.expr)
            case WindowFunction():
                return self.print_window_function(node)
            case SelectQuery() | SelectSet():
                return TypedSql(f"({self.print_subquery(node)})")
            case Lambda():
                raise HogQLError(
                    "A lambda is allowed only as an argument of a function", start=node.start
                )
            case Placeholder():
                name = ".".join(node.chain)
                raise HogQLError(
                    f"Missing value for the placeholder {quote(name)}", start=node.start
                )

    def print_list(self, exprs: Sequence[Expr]) -> str:
        return ", ".join([self.print_expr(each).sql for each in exprs])

    def print_field(self, node: Field) -> TypedSql:
        if node.chain[-1] == "*":
            raise HogQLError("* is not allowed here", start=node.start)
        if (local := self.scope.resolve_local(node.chain)) is not None:
            return local
        piece = self._resolve_field(node)
        if not self.is_grouped:
            return piece
        if piece.stored is not None:
            self.group_keys[piece.sql] = piece.stored.group_key
        # A group has the text of a property only.
        return replace(piece, stored=None)

    def _resolve_field(self, node: Field) -> TypedSql:
        name = str(node.chain[0])
        named = self.scope.ctes.get(name)
        if named is not None and named.cte.is_column and name not in self.scope.sources:
            return descend(self.state, self.print_named_value(name), node.chain[1:])
        return self.scope.resolve_column(node.chain, node.start)

    def print_named_value(self, name: str) -> TypedSql:
        """Print `WITH expr AS name` once for each SELECT that uses it."""
        if name not in self.scope.values:
            named, before = self.scope.ctes[name], self.scope.ctes
            self.scope.ctes = named.visible
            piece = self.print_expr(named.cte.expr)
            self.scope.ctes = before
            ours = self.state.new_name("v")
            self.scope.values[name] = (piece.sql, piece.with_sql(ours))
        return self.scope.values[name][1]

    def print_condition(self, node: Expr) -> TypedSql:
        """Print an expression as a condition. An untyped property is converted to a boolean."""
        piece = self.print_expr(node)
        if piece.is_untyped:
            return bool_sql(f"ifNull({bool_from_text(piece)}, false)")
        return piece

    def _print_logic(self, node: And | Or) -> TypedSql:
        word = " AND " if isinstance(node, And) else " OR "
        parts = [self.print_condition(each).sql for each in node.exprs]
        return bool_sql(f"({word.join(parts)})")

    def _print_comparison(self, node: CompareOperation) -> TypedSql:
        op = _PLAIN_IN.get(node.op, node.op)
        if op in (Compare.IN_COHORT, Compare.NOT_IN_COHORT):
            return self.print_in_cohort(node)
        if op in _IN:
            return self.print_in(op, node)
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, Constant) and side.value is None:
                return self.print_person_filter(op, node) or print_null_comparison(
                    op, self.print_expr(other)
                )
        if (among_persons := self.print_person_equality(op, node)) is not None:
            return among_persons
        if op in _REGEXES and isinstance(node.right, Constant):
            if not isinstance(node.right.value, str):
                raise HogQLError("A regular expression must be a string", start=node.right.start)
            check_regex(node.right.value, node.right.start)
        if (of_people := self.print_person_filter(op, node)) is not None:
            return of_people
        left, right = self.print_expr(node.left), self.print_expr(node.right)
        return print_comparison(self.state, op, left, right, is_join=self.is_join)

    def _print_between(self, node: BetweenExpr) -> TypedSql:
        subject = self.print_expr(node.expr)
        low = print_comparison(self.state, Compare.GT_EQ, subject, self.print_expr(node.low))
        high = print_comparison(self.state, Compare.LT_EQ, subject, self.print_expr(node.high))
        both = f"({low.sql} AND {high.sql})"
        return bool_sql(f"not{both}" if node.negated else both)

    def _print_arithmetic(self, node: ArithmeticOperation) -> TypedSql:
        left, right = self.print_expr(node.left), self.print_expr(node.right)
        left, right = self._convert_operand(left, right), self._convert_operand(right, left)
        times = [piece.type in (ValueType.DATETIME, ValueType.DATE) for piece in (left, right)]
        kind = ValueType.NUMBER
        if any(times) and not (all(times) and node.op is Arithmetic.SUB):
            kind = left.type if times[0] else right.type
        elif ValueType.UNKNOWN in (left.type, right.type):
            kind = ValueType.UNKNOWN
        sql = f"{_OPERATORS[node.op]}({left.sql}, {right.sql})"
        return TypedSql(sql, kind, nullable=left.nullable or right.nullable)

    def _convert_operand(self, piece: TypedSql, other: TypedSql) -> TypedSql:
        """Convert an untyped property to a number, or to a time if the other operand is an
        interval."""
        if not piece.is_untyped:
            return piece
        if other.sql.startswith("toInterval"):
            return self.state.parse_time(piece.sql)
        return TypedSql(number_from_text(piece), ValueType.NUMBER)

    def _print_element(self, node: ArrayAccess) -> TypedSql:
        chain = as_field(node)
        if chain is not None and "properties" in chain.chain:
            return self.print_expr(chain)
        array, index = self.print_expr(node.array), self.print_expr(node.index)
        if array.type in (ValueType.PROPERTIES, ValueType.STRING):
            if isinstance(node.index, Constant) and isinstance(node.index.value, str | int):
                return self.state.extract_property(array.sql, (node.index.value,))
            key = to_text(index).sql
            return TypedSql(
                f"JSONExtract({array.sql}, {key}, 'Nullable(String)')",
                ValueType.STRING,
                is_untyped=True,
            )
        return TypedSql(f"arrayElement({array.sql}, {index.sql})")

    def print_lambda(self, node: Lambda) -> str:
        with self.scope.bind_arguments(node.args) as given:
            body = self.print_expr(node.expr).sql
        return f"({', '.join(given)}) -> {body}"

    def print_window(self, window: WindowSpec) -> str:
        parts = []
        if window.partition_by:
            parts.append(f"PARTITION BY {self.print_list(window.partition_by)}")
        if window.order_by:
            ordered = [
                self.print_expr(each.expr).sql + (" DESC" if each.descending else "")
                for each in window.order_by
            ]
            parts.append(f"ORDER BY {', '.join(ordered)}")
        if window.frame_method and window.frame_start:
            method = "RANGE" if window.frame_method == "RANGE" else "ROWS"
            first, last = window.frame_start, window.frame_end
            edges = _print_frame_edge(first.is_preceding, first.value)
            if last is not None:
                edges = f"BETWEEN {edges} AND {_print_frame_edge(last.is_preceding, last.value)}"
            parts.append(f"{method} {edges}")
        return " ".join(parts)


def _print_frame_edge(is_preceding: bool, value: int | None) -> str:
    if value == 0:
        return "CURRENT ROW"
    amount = "UNBOUNDED" if value is None else str(int(value))
    return f"{amount} {'PRECEDING' if is_preceding else 'FOLLOWING'}"
