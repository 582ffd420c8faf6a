"""The one package that speaks to PostgreSQL, through psycopg: sessions, COPY out, and the replication stream.

`Session` is an ordinary connection for catalog reads and COPY; `Replication` a walsender. Both are synchronous and for
one thread.
"""

from tidings_capture.postgres.client.endpoint import Endpoint, read_url
from tidings_capture.postgres.client.replication import CreatedSlot, Replication, parse_keepalive
from tidings_capture.postgres.client.session import Session
from tidings_capture.postgres.sql_text import quote

__all__ = ["CreatedSlot", "Endpoint", "Replication", "Session", "parse_keepalive", "quote", "read_url"]
