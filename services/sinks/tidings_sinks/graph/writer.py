"""Writes what records ask for within a transaction that is open, many records by one statement."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from tidings_sinks.graph.client import Client
from tidings_sinks.graph.operations import Asked, Operation
from tidings_sinks.graph.options import CYPHER
from tidings_sinks.graph.row_statements import RowStatements, reduced
from tidings_sinks.graph.rows import RowChange, Rows
from tidings_sinks.graph.settings import Cypher, Settings
from tidings_sinks.graph.statements import cypher

_T = TypeVar("_T")


class Writer:
    """Writes operations in the order of their records; rows of different keys in any, as their order makes no difference."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._of_rows: dict[Rows, RowStatements] = {}

    def write(self, operations: Iterable[Operation]) -> None:
        """Write all of them.

        Raises:
            DataProblemError: one of them is refused; the transaction is of no use any more.
        """
        for kind, some in groupby(operations, key=type):
            if kind is RowChange:
                self._rows([change for change in some if isinstance(change, RowChange)])
            else:
                self._statements([asked for asked in some if isinstance(asked, Asked)])

    # Rows

    def _rows(self, changes: Sequence[RowChange]) -> None:
        deletes, writes = reduced(changes)
        for rows, of_rows in _by_pattern(deletes):
            for step in self._statements_of(rows).deletes(of_rows):
                self._unwind(step.statement, step.events)
        for rows, of_rows in _by_pattern(writes):
            for step in self._statements_of(rows).writes(of_rows):
                self._unwind(step.statement, step.events)

    def _statements_of(self, rows: Rows) -> RowStatements:
        found = self._of_rows.get(rows)
        if found is None:
            found = self._of_rows[rows] = RowStatements(rows.pattern, self._settings.placeholder)
        return found

    def _unwind(self, statement: str, events: Sequence[dict[str, Any]]) -> None:
        for some in _chunks(events, self._settings.batch):
            self._client.run(statement, {"rows": some})

    # Statements

    def _statements(self, asked: Sequence[Asked]) -> None:
        """Records that follow one another go together, also where they ask for different statements."""
        texts: dict[str, int] = {}
        events: list[dict[str, Any]] = []
        for item in asked:
            full = len(events) >= self._settings.batch
            if full or (item.statement not in texts and len(texts) >= self._settings.most_queries):
                self._client.run(unwound(list(texts)), {"rows": events})
                texts, events = {}, []
            number = texts.setdefault(item.statement, len(texts))
            events.append({"q": number, **item.event})
        if events:
            self._client.run(unwound(list(texts)), {"rows": events})


def unwound(statements: Sequence[str]) -> str:
    """One statement that runs for each event, in turn, the one whose number it has."""
    if len(statements) == 1:
        return f"UNWIND $rows AS e CALL (e) {{ {statements[0]} }} FINISH"
    branches = [
        f"WITH e WHERE e.q = {number} CALL (e) {{ {statement} }} RETURN count(*) AS done"
        for number, statement in enumerate(statements)
    ]
    return f"UNWIND $rows AS e CALL (e) {{ {' UNION ALL '.join(branches)} }} FINISH"


def explained(settings: Settings) -> Iterator[tuple[str, str]]:
    """The statements that a person has written, as a server can be asked to read them, by their options."""
    for topic, strategy in settings.strategies.items():
        if isinstance(strategy, Cypher):
            text = cypher(strategy.statement, settings.cypher_binds, as_event=settings.as_event)
            yield f"{CYPHER}{topic}", unwound([text]).replace("$rows", "[]", 1)


def _by_pattern(changes: Sequence[RowChange]) -> Iterator[tuple[Rows, list[RowChange]]]:
    found: dict[Rows, list[RowChange]] = {}
    for change in changes:
        found.setdefault(change.rows, []).append(change)
    return iter(found.items())


def _chunks(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
