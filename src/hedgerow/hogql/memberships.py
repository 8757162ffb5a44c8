"""IN, cohorts, and conditions on people, who are looked up in a filter rather than joined."""

from abc import ABC, abstractmethod
from uuid import UUID

from hedgerow.hogql.ast import (
    Array,
    ArrayAccess,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    Node,
    Select,
    SelectQuery,
    SelectSet,
    Tuple,
)
from hedgerow.hogql.comparisons import (
    POSITIVE,
    among,
    compared,
    in_array,
    in_query,
    truth,
    uuids,
    with_null,
)
from hedgerow.hogql.context import Context
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.kinds import Piece
from hedgerow.hogql.scope import Scope
from hedgerow.hogql.sources import PERSON_IDS, StoredTable
from hedgerow.hogql.tables import PERSONS


class MembershipPrinter(ABC):
    """Prints whether something is among others."""

    def __init__(self, context: Context, scope: Scope, depth: int) -> None:
        self.context = context
        self.scope = scope
        self.depth = depth
        # In the condition of a join comparison is plain.
        self.is_join = False
        # In a WHERE, people are looked up; elsewhere they are joined, so that what is written
        # twice, in SELECT and in GROUP BY, prints alike.
        self.is_filter = False

    @abstractmethod
    def expr(self, node: Expr) -> Piece:
        """Any expression."""

    @abstractmethod
    def subquery(self, query: Select) -> str:
        """A query inside this one, without brackets."""

    @abstractmethod
    def outside_query(self, query: Select) -> str:
        """A query that is not part of the text: names of its WITH mean nothing there."""

    def among_values(self, op: Compare, node: CompareOperation) -> Piece:
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
        if (of_people := self.of_people(op, node)) is not None:
            return of_people
        left = self.expr(node.left)
        if values is not None:
            return among(self.context, op, left, values)
        if isinstance(right, Tuple):
            right = Array(exprs=right.exprs, start=right.start, end=right.end)
        return in_array(op, left, self.expr(right))

    def in_cohort(self, node: CompareOperation) -> Piece:
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
        """The events whose today's person the expression names, in a filter."""
        if not isinstance(node, Field) or not self.is_filter:
            return None
        place = self.scope.events_at(node.chain)
        return place[0] if place is not None and tuple(place[1]) in PERSON_IDS else None

    def is_person(self, op: Compare, node: CompareOperation) -> Piece | None:
        """`person_id = '...'`, on either side."""
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if op in (Compare.EQ, Compare.NOT_EQ) and isinstance(other, Constant):
                table = self._events_of(side)
                if table is not None and isinstance(other.value, str | UUID):
                    return _either(table.person_among(uuids(self.context, [other.value])), op)
        return None

    def of_people(self, op: Compare, node: CompareOperation) -> Piece | None:
        """`person.properties.x = 'a'` in a filter: the persons of whom it is true are found first,
        then their events. What is true of nobody known is the contrary of what is not."""
        field, values = chain_of(node.left), _constants(node.right)
        if field is None or values is None or not self.is_filter:
            return None
        place = self.scope.events_at(field.chain)
        if place is None or place[1][0] != "person" or len(place[1]) < 2 or place[1][1] == "id":
            return None
        has_null = None in values
        if has_null and (len(values) > 1 or op not in (Compare.EQ, Compare.NOT_EQ)):
            return None
        people = StoredTable(self.context, PERSONS)
        left = people.field(place[1][1:])
        if left is None:
            return None
        positive = POSITIVE.get(op, op)
        if has_null:
            positive, condition = Compare.NOT_EQ, with_null(Compare.NOT_EQ, left)
        elif positive is Compare.IN:
            condition = among(self.context, positive, left, values)
        else:
            condition = compared(self.context, positive, left, self.expr(node.right))
        sql = place[0].person_among(people.ids_sql(condition.sql))
        return truth(sql if positive is op else f"not{sql}")


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


def chain_of(node: Node) -> Field | None:
    """`properties['a'].b` is the field `properties.a.b`."""
    if isinstance(node, Field):
        return node
    if not isinstance(node, ArrayAccess) or not isinstance(node.index, Constant):
        return None
    link = node.index.value
    below_it = chain_of(node.array)
    if below_it is None or isinstance(link, bool) or not isinstance(link, str | int):
        return None
    return Field(chain=(*below_it.chain, link), start=node.start, end=node.end)
