"""Which table a topic belongs to.

``shop.public.orders`` -> ``technical.orders`` and ``technical.orders_log``; tables of another schema than ``public``
carry its name (``technical.sales_orders``). ``shop.order-placed.v1`` -> ``business.order_placed_v1``. Where two topics would
have one name, the later one gets a longer: see `names.py`.
"""

import re

CATALOG = "lake"
"""Spark's name of the Iceberg catalog; the default one, so that nobody has to write it."""
TECHNICAL = "technical"
BUSINESS = "business"
REPLAYED = "business_replay"
"""Namespace of the tables that a replay writes."""
SYSTEM = "tidings"
"""Namespace of the job's own tables."""
WATERMARK = f"{SYSTEM}.watermark"
QUARANTINE = f"{SYSTEM}.quarantine"
TRANSACTION_LOG = f"{SYSTEM}.transaction_log"
TOPICS = f"{SYSTEM}.topics"
RENAMES = f"{SYSTEM}.renames"
SET_ASIDE_TABLE = f"{SYSTEM}.set_aside"
ACCEPTED_LOSSES = f"{SYSTEM}.accepted_losses"
ERASURES = f"{SYSTEM}.erasures"


def domain_property(topic: str) -> str:
    """The property of `TRANSACTION_LOG` that says of a transaction topic which domain of MariaDB its source's commits are of; of
    MySQL `binlog.NUMBERED`."""
    return f"tidings.replication-domain.{topic}"


def transaction_topic(source: str) -> str:
    """The topic of a source's transaction markers."""
    return f"{source}.transaction"


def technical_topic(source: str, table: str) -> str:
    """The topic of ``<schema>.<table>``."""
    return f"{source}.{re.sub(r'[^A-Za-z0-9._-]', '_', table)}"


def schema_change_topic(source: str) -> str:
    """The topic on which capture tells of changed tables, if it is asked to."""
    return f"{source}.schema-changes"


def technical_table(topic: str) -> str:
    """The current-state table of ``<prefix>.<schema>.<table>``, if the name is free."""
    schema, _, table = topic.rpartition(".")
    schema = schema.rpartition(".")[2]
    return f"{TECHNICAL}.{identifier(table if schema in {'public', ''} else f'{schema}_{table}')}"


HISTORY = "_history"
"""Of a table's name and this: every version of its rows."""


def log_of(table: str) -> str:
    """The log of a current-state table."""
    return f"{table}_log"


def business_table(topic: str) -> str:
    """The table of ``<domain>.<event>.v<major>``, if the name is free."""
    event, _, major = topic.rpartition(".")
    return f"{BUSINESS}.{identifier(event.rpartition('.')[2])}_{identifier(major)}"


def identifier(name: str) -> str:
    """A name as tables have it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name).lower()
