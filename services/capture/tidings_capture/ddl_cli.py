"""``tidings-capture ddl install|remove|status URL``: the event trigger that puts DDL into the WAL.

Exit codes: 0 done, 1 the server refused or could not be reached; ``status`` 3 when the trigger is not there.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence

from tidings_capture.ddl_trigger import install_trigger, remove_trigger, trigger_status
from tidings_capture.postgres import Session, read_url
from tidings_service import TidingsError

_NOT_INSTALLED = 3


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="tidings-capture ddl",
        description="An event trigger that puts each DDL statement into the WAL, so that a connector with "
        "tidings.schema.changes=true publishes it on <prefix>.schema-changes.",
    )
    parser.add_argument("action", choices=("install", "remove", "status"))
    parser.add_argument("url", help="postgresql://user:password@host/database; install needs a superuser")
    given = parser.parse_args(arguments)
    try:
        with contextlib.closing(Session(read_url(given.url))) as session:
            return _act(session, given.action)
    except TidingsError as error:
        print(f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else ""), file=sys.stderr)
        return 1


def _act(session: Session, action: str) -> int:
    if action == "install":
        install_trigger(session)
    elif action == "remove":
        remove_trigger(session)
    status = trigger_status(session)
    if not status.installed:
        print("the DDL trigger is not installed")
        return _NOT_INSTALLED if action == "status" else 0
    print("the DDL trigger is installed" + ("" if status.enabled else ", but disabled"))
    return 0
