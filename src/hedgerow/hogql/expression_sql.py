"""Expressions as SQL."""

from abc import abstractmethod
from collections.abc import Sequence

from hedgerow.hogql.ast import (
    Alias,
    And,
    Arithmetic,
    ArithmeticOperation,
    Array,
    ArrayAccess,
    BetweenExpr,
    Call,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    Lambda,
    Not,
    Or,
    Placeholder,
    SelectQuery,
    SelectSet,
    Tuple,
    TupleAccess,
    TypeCast,
    Window,
    WindowFunction,
)
from hedgerow.hogql.comparisons import (
    as_text,
    check_pattern,
    compared,
    truth,
    with_null,
)
from hedgerow.hogql.context import as_number, as_truth
from hedgerow.hogql.errors import HogQLError, shown
from hedgerow.hogql.kinds import Kind, Piece
from hedgerow.hogql.memberships import MembershipPrinter, chain_of
from hedgerow.hogql.sources import below

# What walks over a tree calls itself several times for each level.
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
    """Prints the expressions of one SELECT; what a name means is the scope's to say."""

    @abstractmethod
    def call(self, call: Call) -> Piece: ...

    @abstractmethod
    def window_function(self, function: WindowFunction) -> Piece: ...

    @abstractmethod
    def cast(self, expr: Expr, type_name: str, start: int | None) -> Piece: ...

    def expr(self, node: Expr) -> Piece:
        """Any expression."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise HogQLError("The query nests too deep", start=node.start)
        piece = self._printed(node)
        self.context.bounded(piece.sql)
        self.depth -= 1
        return piece

    def _printed(self, node: Expr) -> Piece:  # noqa: C901 - a case a node
        match node:
            case Constant():
                return self.context.parameters.constant(node.value)
            case Field():
                return self.field(node)
            case And() | Or():
                return self._logic(node)
            case Not():
                return truth(f"not({self.condition(node.expr).sql})")
            case CompareOperation():
                return self._comparison(node)
            case ArithmeticOperation():
                return self._arithmetic(node)
            case BetweenExpr():
                return self._between(node)
            case Call():
                return self.call(node)
            case TypeCast():
                return self.cast(node.expr, node.type_name, node.start)
            case Array():
                return Piece(f"[{self.listed(node.exprs)}]", Kind.ARRAY, nullable=False)
            case Tuple():
                return Piece(f"tuple({self.listed(node.exprs)})", nullable=False)
            case ArrayAccess():
                return self._element(node)
            case TupleAccess():
                return Piece(f"tupleElement({self.expr(node.tuple).sql}, {int(node.index)})")
            case Alias():
                return self.expr(node.expr)
            case WindowFunction():
                return self.window_function(node)
            case SelectQuery() | SelectSet():
                return Piece(f"({self.subquery(node)})")
            case Lambda():
                raise HogQLError("A lambda can only be an argument", start=node.start)
            case Placeholder():
                name = ".".join(node.chain)
                raise HogQLError(
                    f"No value was given for the placeholder {shown(name)}", start=node.start
                )

    def listed(self, exprs: Sequence[Expr]) -> str:
        return ", ".join([self.expr(each).sql for each in exprs])

    def field(self, node: Field) -> Piece:
        if node.chain[-1] == "*":
            raise HogQLError("A star cannot stand here", start=node.start)
        if (local := self.scope.local(node.chain)) is not None:
            return local
        name = str(node.chain[0])
        named = self.scope.ctes.get(name)
        if named is not None and named.cte.is_column and name not in self.scope.sources:
            return below(self.context, self.named_value(name), node.chain[1:])
        return self.scope.stored(node.chain, node.start)

    def named_value(self, name: str) -> Piece:
        """`WITH expr AS name`: printed once for each SELECT that uses it."""
        if name not in self.scope.values:
            named, before = self.scope.ctes[name], self.scope.ctes
            self.scope.ctes = named.visible
            piece = self.expr(named.cte.expr)
            self.scope.ctes = before
            ours = self.context.new_name("v")
            self.scope.values[name] = (piece.sql, piece.at(ours))
        return self.scope.values[name][1]

    def condition(self, node: Expr) -> Piece:
        """An expression where a yes or no is wanted: the text of a property is read as one."""
        piece = self.expr(node)
        if piece.is_loose:
            return truth(f"ifNull({as_truth(piece.sql)}, false)")
        return piece

    def _logic(self, node: And | Or) -> Piece:
        word = " AND " if isinstance(node, And) else " OR "
        parts = [self.condition(each).sql for each in node.exprs]
        return truth(f"({word.join(parts)})")

    def _comparison(self, node: CompareOperation) -> Piece:
        op = _PLAIN_IN.get(node.op, node.op)
        if op in (Compare.IN_COHORT, Compare.NOT_IN_COHORT):
            return self.in_cohort(node)
        if op in _IN:
            return self.among_values(op, node)
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, Constant) and side.value is None:
                return self.of_people(op, node) or with_null(op, self.expr(other))
        if (among_persons := self.is_person(op, node)) is not None:
            return among_persons
        if op in _REGEXES and isinstance(node.right, Constant):
            if not isinstance(node.right.value, str):
                raise HogQLError("A pattern must be a text", start=node.right.start)
            check_pattern(node.right.value, node.right.start)
        if (of_people := self.of_people(op, node)) is not None:
            return of_people
        left, right = self.expr(node.left), self.expr(node.right)
        return compared(self.context, op, left, right, is_join=self.is_join)

    def _between(self, node: BetweenExpr) -> Piece:
        subject = self.expr(node.expr)
        low = compared(self.context, Compare.GT_EQ, subject, self.expr(node.low))
        high = compared(self.context, Compare.LT_EQ, subject, self.expr(node.high))
        both = f"({low.sql} AND {high.sql})"
        return truth(f"not{both}" if node.negated else both)

    def _arithmetic(self, node: ArithmeticOperation) -> Piece:
        left, right = self.expr(node.left), self.expr(node.right)
        left, right = self._operand(left, right), self._operand(right, left)
        times = [piece.kind in (Kind.DATETIME, Kind.DATE) for piece in (left, right)]
        kind = Kind.NUMBER
        if any(times) and not (all(times) and node.op is Arithmetic.SUB):
            kind = left.kind if times[0] else right.kind
        elif Kind.UNKNOWN in (left.kind, right.kind):
            kind = Kind.UNKNOWN
        sql = f"{_OPERATORS[node.op]}({left.sql}, {right.sql})"
        return Piece(sql, kind, nullable=left.nullable or right.nullable)

    def _operand(self, piece: Piece, other: Piece) -> Piece:
        """The text of a property is reckoned with as a number, or as a time beside an interval."""
        if not piece.is_loose:
            return piece
        if other.sql.startswith("toInterval"):
            return self.context.parsed_time(piece.sql)
        return Piece(as_number(piece.sql), Kind.NUMBER)

    def _element(self, node: ArrayAccess) -> Piece:
        chain = chain_of(node)
        if chain is not None and "properties" in chain.chain:
            return self.expr(chain)
        array, index = self.expr(node.array), self.expr(node.index)
        if array.kind in (Kind.PROPERTIES, Kind.STRING):
            if isinstance(node.index, Constant) and isinstance(node.index.value, str | int):
                return self.context.property(array.sql, (node.index.value,), array.owner)
            key = as_text(index).sql
            return Piece(
                f"JSONExtract({array.sql}, {key}, 'Nullable(String)')", Kind.STRING, is_loose=True
            )
        return Piece(f"arrayElement({array.sql}, {index.sql})")

    def lambda_(self, node: Lambda) -> str:
        with self.scope.arguments(node.args) as given:
            body = self.expr(node.expr).sql
        return f"({', '.join(given)}) -> {body}"

    def window(self, window: Window) -> str:
        parts = []
        if window.partition_by:
            parts.append(f"PARTITION BY {self.listed(window.partition_by)}")
        if window.order_by:
            ordered = [
                self.expr(each.expr).sql + (" DESC" if each.descending else "")
                for each in window.order_by
            ]
            parts.append(f"ORDER BY {', '.join(ordered)}")
        if window.frame_method and window.frame_start:
            method = "RANGE" if window.frame_method == "RANGE" else "ROWS"
            first, last = window.frame_start, window.frame_end
            edges = _edge(first.is_preceding, first.value)
            if last is not None:
                edges = f"BETWEEN {edges} AND {_edge(last.is_preceding, last.value)}"
            parts.append(f"{method} {edges}")
        return " ".join(parts)


def _edge(is_preceding: bool, value: int | None) -> str:
    if value == 0:
        return "CURRENT ROW"
    amount = "UNBOUNDED" if value is None else str(int(value))
    return f"{amount} {'PRECEDING' if is_preceding else 'FOLLOWING'}"
