"""Expressions as SQL."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from uuid import UUID

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
    Node,
    Not,
    Or,
    Placeholder,
    Select,
    SelectQuery,
    SelectSet,
    Tuple,
    TupleAccess,
    TypeCast,
    Window,
    WindowFunction,
)
from hedgerow.hogql.comparisons import (
    among,
    as_text,
    check_pattern,
    compared,
    in_array,
    in_query,
    truth,
    uuids,
    with_null,
)
from hedgerow.hogql.context import Context, as_number, as_truth
from hedgerow.hogql.errors import HogQLError, shown
from hedgerow.hogql.kinds import Kind, Piece
from hedgerow.hogql.scope import Scope
from hedgerow.hogql.sources import StoredTable, below

# What walks over a tree calls itself several times for each level.
MAX_DEPTH = 150

_OPERATORS = {
    Arithmetic.ADD: "plus",
    Arithmetic.SUB: "minus",
    Arithmetic.MULT: "multiply",
    Arithmetic.DIV: "divide",
    Arithmetic.MOD: "modulo",
}
_IN = (Compare.IN, Compare.NOT_IN, Compare.GLOBAL_IN, Compare.GLOBAL_NOT_IN)
_PLAIN_IN = {Compare.GLOBAL_IN: Compare.IN, Compare.GLOBAL_NOT_IN: Compare.NOT_IN}
_REGEXES = (Compare.REGEX, Compare.NOT_REGEX, Compare.IREGEX, Compare.NOT_IREGEX)


class ExpressionPrinter(ABC):
    """Prints the expressions of one SELECT; what a name means is the scope's to say."""

    def __init__(self, context: Context, scope: Scope, depth: int) -> None:
        self.context = context
        self.scope = scope
        self.depth = depth
        # In the condition of a join comparison is plain.
        self.is_join = False

    @abstractmethod
    def subquery(self, query: Select) -> str:
        """A query inside this one, without brackets."""

    @abstractmethod
    def outside_query(self, query: Select) -> str:
        """A query that is not part of the text: names of its WITH mean nothing there."""

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
            return self._in_cohort(node)
        if op in _IN:
            return self._in(op, node)
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, Constant) and side.value is None:
                return with_null(op, self.expr(other))
        if (among_persons := self._is_person(op, node)) is not None:
            return among_persons
        if op in _REGEXES and isinstance(node.right, Constant):
            if not isinstance(node.right.value, str):
                raise HogQLError("A pattern must be a text", start=node.right.start)
            check_pattern(node.right.value, node.right.start)
        left, right = self.expr(node.left), self.expr(node.right)
        return compared(self.context, op, left, right, is_join=self.is_join)

    def _in(self, op: Compare, node: CompareOperation) -> Piece:
        right = node.right
        values = _constants(right)
        table = self._events_of(node.left)
        if isinstance(right, SelectQuery | SelectSet):
            query = self.subquery(right)
            if table is not None:
                return _either(table.person_among(f"({query})"), op)
            return in_query(op, self.expr(node.left), query)
        if values is not None and table is not None and None not in values:
            return _either(table.person_among(uuids(self.context, values)), op)
        left = self.expr(node.left)
        if values is not None:
            return among(self.context, op, left, values)
        if isinstance(right, Tuple):
            right = Array(exprs=right.exprs, start=right.start, end=right.end)
        return in_array(op, left, self.expr(right))

    def _in_cohort(self, node: CompareOperation) -> Piece:
        right = node.right
        if not isinstance(right, Constant) or not isinstance(right.value, int | str):
            raise HogQLError("A cohort is given by its id or its name", start=right.start)
        query = self.context.world.cohort(right.value)
        if query is None:
            by = "id" if isinstance(right.value, int) else "name"
            what = f"Could not find cohort with {by} {str(right.value)[:100]}"
            raise HogQLError(what, start=right.start)
        members = self.outside_query(query)
        table = self._events_of(node.left)
        if table is not None:
            return _either(table.person_among(f"({members})"), node.op)
        return in_query(node.op, self.expr(node.left), members)

    def _events_of(self, node: Expr) -> StoredTable | None:
        """The events whose today's person the expression names. Not in a join's condition, which
        needs a plain comparison."""
        is_field = isinstance(node, Field) and not self.is_join
        return self.scope.person_of(node.chain) if is_field else None  # type: ignore[union-attr]

    def _is_person(self, op: Compare, node: CompareOperation) -> Piece | None:
        """`person_id = '...'`, on either side."""
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if op in (Compare.EQ, Compare.NOT_EQ) and isinstance(other, Constant):
                table = self._events_of(side)
                if table is not None and isinstance(other.value, str | UUID):
                    return _either(table.person_among(uuids(self.context, [other.value])), op)
        return None

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
        chain = _chain(node)
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


def _either(sql: str, op: Compare) -> Piece:
    is_negative = op in (Compare.NOT_EQ, Compare.NOT_IN, Compare.NOT_IN_COHORT)
    return truth(f"not{sql}" if is_negative else sql)


def _constants(node: Expr) -> list[object] | None:
    """The values of a list of constants, or of one constant; None when something is computed."""
    if isinstance(node, Constant):
        is_list = isinstance(node.value, list | tuple)
        return list(node.value) if is_list else [node.value]  # type: ignore[arg-type]
    if isinstance(node, Tuple | Array):
        values: list[object] = []
        for each in node.exprs:
            if not isinstance(each, Constant) or isinstance(each.value, list | tuple):
                return None
            values.append(each.value)
        return values
    return None


def _chain(node: Node) -> Field | None:
    """`properties['a'].b` is the field `properties.a.b`."""
    if isinstance(node, Field):
        return node
    if not isinstance(node, ArrayAccess) or not isinstance(node.index, Constant):
        return None
    link = node.index.value
    below_it = _chain(node.array)
    if below_it is None or isinstance(link, bool) or not isinstance(link, str | int):
        return None
    return Field(chain=(*below_it.chain, link), start=node.start, end=node.end)
