"""The rights that each service needs in Kafka, and no more: what the secured pipeline is granted, and docs/security.md shows.

``python -m tests.e2e.acls`` writes the table into the page again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN = "<!-- from tests/e2e/acls.py: python -m tests.e2e.acls -->\n"
END = "<!-- end of the ACLs -->\n"


@dataclass(frozen=True)
class Acl:
    """A right of one service; `shop` stands for topic.prefix, `shop-connect` for the worker's group.id."""

    service: Literal["capture", "sequencer", "translator", "lakehouse"]
    resource: Literal["topic", "group", "transactional id"]
    name: str
    pattern: Literal["literal", "prefixed"]
    operations: tuple[str, ...]
    why: str


ACLS = (
    Acl("capture", "group", "shop-connect", "literal", ("Read",), "workers share the connectors out"),
    Acl(
        "capture",
        "topic",
        "shop-connect-",
        "prefixed",
        ("Create", "Read", "Write", "DescribeConfigs"),
        "config.storage.topic, offset.storage.topic, status.storage.topic",
    ),
    Acl(
        "capture",
        "group",
        "tidings-capture-",
        "prefixed",
        ("Describe",),
        "librdkafka asks for the group of every reader",
    ),
    Acl("capture", "topic", "shop.", "prefixed", ("Create", "Write"), "rows and transactions"),
    Acl("sequencer", "topic", "shop.", "prefixed", ("Read",), "rows and transactions"),
    Acl(
        "sequencer",
        "topic",
        "tidings.shop.",
        "prefixed",
        ("Create", "Read", "Write", "DescribeConfigs", "AlterConfigs"),
        "change sets, its state, dead letters, the ledger of generations; the retention of these",
    ),
    Acl("sequencer", "group", "tidings-sequencer-shop", "prefixed", ("Read",), "one works, others stand by"),
    Acl(
        "sequencer", "group", "tidings-ledger", "literal", ("Describe",), "librdkafka asks for every reader's"
    ),
    Acl("sequencer", "group", "tidings-restore", "literal", ("Describe",), "the same"),
    Acl(
        "sequencer",
        "transactional id",
        "tidings-sequencer-shop",
        "prefixed",
        ("Write",),
        "outputs and offsets in one",
    ),
    Acl("translator", "topic", "shop.", "prefixed", ("Create", "Write", "Describe"), "business events"),
    Acl(
        "translator",
        "topic",
        "tidings.shop.",
        "prefixed",
        ("Create", "Read", "Write", "DescribeConfigs", "AlterConfigs"),
        "change sets, states, dead letters, the ledger of generations; the retention of these",
    ),
    Acl("translator", "group", "tidings-translator-shop", "prefixed", ("Read",), "partitions are shared out"),
    Acl(
        "translator",
        "group",
        "tidings-ledger",
        "literal",
        ("Describe",),
        "librdkafka asks for every reader's",
    ),
    Acl("translator", "group", "tidings-restore", "literal", ("Describe",), "the same"),
    Acl(
        "translator",
        "transactional id",
        "tidings-translator-shop",
        "prefixed",
        ("Write",),
        "events, states and offsets in one",
    ),
    Acl("lakehouse", "topic", "shop.", "prefixed", ("Read",), "rows, transactions and business events"),
    Acl("lakehouse", "group", "spark-kafka-source-", "prefixed", ("Read",), "Spark's readers"),
)


def table() -> str:
    """The table of the page."""
    return "".join(("| User | Resource | Operations | Why |\n|---|---|---|---|\n", *_lines()))


def _lines() -> Iterator[str]:
    for acl in ACLS:
        star = "*" if acl.pattern == "prefixed" else ""
        operations = ", ".join(acl.operations)
        yield f"| {acl.service} | {acl.resource} `{acl.name}{star}` | {operations} | {acl.why} |\n"


def page_with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
