"""The options of snapshots that mean the same for every database."""

from typing import Final

from tidings_capture.cdc.snapshots.options import OVERRIDES
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import not_negative_long_problem

DELAYS: Final = (
    Option(
        "snapshot.delay.ms",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="How long to wait before the snapshot, in milliseconds.",
    ),
    Option(
        "streaming.delay.ms",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="How long to wait between the snapshot and what follows it, in milliseconds.",
    ),
)
MAX_THREADS: Final = Option(
    "snapshot.max.threads",
    "int",
    "1",
    documentation="How many tables a snapshot reads at a time.",
)
"""Without a check: what is wrong with a number is said in the words of each Debezium connector."""
ORDER_BY_ROWS: Final = Option(
    "snapshot.tables.order.by.row.count",
    default="disabled",
    values=("disabled", "ascending", "descending"),
    documentation="Whether a snapshot begins with the smallest or the largest tables, by the server's estimates.",
)


def select_overrides_option(place: str) -> Option:
    """The option of SELECT statements; `place` is what a table stands in, as the database calls it."""
    return Option(
        OVERRIDES,
        "list",
        documentation=f"Tables that a snapshot reads by a SELECT of your own, given in an option for each, as `{OVERRIDES}.<{place}>.<table>`.",
        remark="Columns that the statement does not give are null.",
    )
