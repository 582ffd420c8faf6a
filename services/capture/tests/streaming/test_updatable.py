"""What a connector's own publication does to an application's tables is said when it starts."""

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tidings_capture.postgres.client import Session, read_url
from tidings_capture.postgres.server.setup import captured_tables, ensure_publication, warn_of_refused_updates
from tidings_capture.postgres.settings.config import read_connector_config
from tidings_stack.connect import connector_settings


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"publication.autocreate.mode": "all_tables"}, "public.keyless, public.other"),
        ({"publication.autocreate.mode": "filtered", "table.exclude.list": "public.other"}, "public.keyless"),
        (
            {"publication.autocreate.mode": "filtered", "table.exclude.list": "public.other,public.keyless"},
            None,
        ),
        ({"publication.autocreate.mode": "all_tables", "skipped.operations": "u,d,t"}, None),
        ({"publication.autocreate.mode": "disabled"}, None),
    ],
)
def test_tables_that_nobody_can_update_any_more_are_named(
    pg_database: str,
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
    options: dict[str, str],
    told: str | None,
) -> None:
    sql(
        "CREATE TABLE keyed (id int PRIMARY KEY)",
        "CREATE TABLE keyless (id int)",
        "CREATE TABLE other (id int)",
    )
    settings = connector_settings(
        pg_database, **{"topic.prefix": "t", "publication.name": unique_name, **options}
    )
    config = read_connector_config("shop", settings, {}, "run")
    session = Session(read_url(pg_database))
    try:
        tables = captured_tables(session, config)
        with capture_logs() as logs:
            warn_of_refused_updates(session, config, tables)
            if told is not None:
                ensure_publication(session, config, tables)
                warn_of_refused_updates(session, config, tables)
    finally:
        session.close()
    assert [(log["tables"], log["log_level"]) for log in logs] == [(told, "warning")] * (
        0 if told is None else 2
    )
