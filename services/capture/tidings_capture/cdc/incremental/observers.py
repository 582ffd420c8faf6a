"""Plans that look on: what a signal table's rows ask for, and which keys change while a snapshot's window is open.

They take a plan's place in its route, so that a route that nobody watches costs nothing.
"""

from collections.abc import Callable, Hashable, MutableMapping
from typing import Any

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.encoding.plan import Plan
from tidings_capture.cdc.encoding.row_format import RowFormat
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.route import Route
from tidings_connect.data.records import Record


class WatchingPlan:
    """Takes the keys that change out of a window, until `stop`."""

    def __init__(self, route: Route, window: MutableMapping[Hashable, Cells]) -> None:
        self._route = route
        self._window = window
        self._plan = route.plan
        route.plan = self  # type: ignore[assignment]  # what the stream asks of a plan

    def change(self, data: bytes, start: int, context: EventContext) -> list[Record]:
        """See `Plan.change`."""
        records = self._plan.change(data, start, context)
        for record in records:
            if record[0] is not None:
                self._window.pop(record[0], None)
        return records

    def truncate(self, context: EventContext) -> list[Record]:
        """See `Plan.truncate`: nothing that was read before is left."""
        self._window.clear()
        return self._plan.truncate(context)

    def stop(self) -> None:
        """Give the route its plan back."""
        current: object = self._route.plan
        if current is self:
            self._route.plan = self._plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)


class SignalPlan:
    """Hands the rows of a signal table on.

    Args:
        rows: takes a change apart.
        inserted: called with a new row's cells.
        deleted: called with a deleted row's cells, where that means anything.
    """

    def __init__(
        self,
        plan: Plan,
        rows: RowFormat,
        inserted: Callable[[Cells], None],
        deleted: Callable[[Cells], None] | None,
    ) -> None:
        self._plan = plan
        self._rows = rows
        self._inserted = inserted
        self._deleted = deleted

    def change(self, data: bytes, start: int, context: EventContext) -> list[Record]:
        """See `Plan.change`. A row that is converted again only for the numbering is not a signal."""
        records = self._plan.change(data, start, context)
        if not context.repeats:
            change = self._rows.decode(data, start)
            if change.op == "c" and change.new is not None:
                self._inserted(change.new)
            elif change.op == "d" and change.old is not None and self._deleted is not None:
                self._deleted(change.old)
        return records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)
