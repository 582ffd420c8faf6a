"""A captured table's plan and topic."""

from tidings_capture.cdc.encoding.plan import Plan
from tidings_capture.cdc.tables import Table


class Route:
    """A captured table's plan, and how many records it has made."""

    __slots__ = ("plan", "records", "table", "topic")

    def __init__(self, table: Table, plan: Plan, topic: str) -> None:
        self.table = table
        self.plan = plan
        self.topic = topic
        self.records = 0
