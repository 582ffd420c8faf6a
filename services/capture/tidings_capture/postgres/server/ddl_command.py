"""``tidings-capture ddl install|remove|status URL``: the event trigger that puts DDL into the WAL.

Exit codes: 0 done, 1 the server refused or could not be reached; ``status`` 3 when the trigger is not there.
"""

import argparse
import contextlib
import json
from collections.abc import Sequence

from tidings_capture.postgres.client import Session, read_url
from tidings_capture.postgres.server.ddl_trigger import install_trigger, remove_trigger, trigger_status
from tidings_service import TidingsError, print_error

_NOT_INSTALLED = 3


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    given = parser().parse_args(arguments)
    try:
        with contextlib.closing(Session(read_url(given.url))) as session:
            return _act(session, given.action, as_json=given.json)
    except TidingsError as error:
        return print_error(error)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-capture ddl",
        description="An event trigger that puts each DDL statement into the WAL, so that a connector with "
        "tidings.schema.changes=true publishes it on <prefix>.schema-changes.",
    )
    parser.add_argument("action", choices=("install", "remove", "status"), help="what to do with the trigger")
    parser.add_argument("url", help="postgresql://user:password@host/database; install needs a superuser")
    parser.add_argument("--json", action="store_true", help="the trigger's state as one JSON object")
    return parser


def _act(session: Session, action: str, *, as_json: bool) -> int:
    if action == "install":
        install_trigger(session)
    elif action == "remove":
        remove_trigger(session)
    status = trigger_status(session)
    if as_json:
        print(json.dumps({"installed": status.installed, "enabled": status.enabled}))
    elif status.installed:
        print("the DDL trigger is installed" + ("" if status.enabled else ", but disabled"))
    else:
        print("the DDL trigger is not installed")
    return _NOT_INSTALLED if action == "status" and not status.installed else 0
