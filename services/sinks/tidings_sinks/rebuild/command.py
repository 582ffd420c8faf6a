"""The command ``tidings sinks``.

Exit codes: 0 done, 1 it could not be done (a named error; nothing that readers see has changed unless it says so), 2 wrong usage,
3 the new version was looked at and refused, 130 interrupted.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tidings_connect.config.secrets import MASK
from tidings_connect.config.sink_options import CONSUMER_OVERRIDE, consumer_overrides
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.herder.files import read_connector_file
from tidings_connect.java.properties import load_properties
from tidings_connect.kafka.settings import translate_client_settings
from tidings_connect.kafka.unread import TopicEnds
from tidings_connect.rest.client import RestClient, address_of
from tidings_service import TidingsError, configure_logging, print_error
from tidings_sinks.errors import CheckError, RebuildError
from tidings_sinks.read_model import Naming
from tidings_sinks.rebuild.rebuild import Rebuild, Wishes
from tidings_sinks.rebuild.targets import open_read_model
from tidings_sinks.rebuild.versions import first_name

_REFUSED: Final = 3
_INTERRUPTED: Final = 130
_EPILOG: Final = """A rebuild that was interrupted goes on when it is run again; --abort removes the new version. docs/how-to/rebuild.md has the
whole story. Exit code 3: the check refused the new version; readers see the former one."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    given = parser().parse_args(arguments)
    configure_logging("sinks", level="ERROR")  # standard output is the report's
    try:
        return _run(given)
    except CheckError as problem:
        print_error(problem)
        return _REFUSED
    except TidingsError as problem:
        return print_error(problem)
    except KeyboardInterrupt:
        print("interrupted: run it again to go on, or with --abort", file=sys.stderr)
        return _INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="tidings sinks", description="What sink connectors have written.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    rebuild = commands.add_parser(
        "rebuild",
        help="a read model from zero beside the live one, and the switch from one to the other",
        description="Build a read model anew from the beginning of its topics, by a second connector beside the live one; when it has"
        " caught up, switch readers over at once, and remove the former one. Tables in PostgreSQL, indexes in OpenSearch, graphs in"
        " Neo4j.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rebuild.add_argument(
        "name", metavar="NAME", help="the connector, by its first name or that of any version"
    )
    rebuild.add_argument(
        "--worker", type=Path, metavar="FILE", required=True,
        help="the worker's properties: its address with its login, Kafka, where secrets are",
    )  # fmt: skip
    rebuild.add_argument(
        "--url",
        help="the worker's REST API, where it is not at the address in its properties on this machine",
    )
    rebuild.add_argument(
        "--connector", type=Path, metavar="FILE",
        help="the new version's configuration, where it is to be another than the live one's, or holds secrets that the worker"
        " does not show",
    )  # fmt: skip
    what = rebuild.add_mutually_exclusive_group()
    what.add_argument(
        "--status", action="store_true", help="say which versions there are, and change nothing"
    )
    what.add_argument(
        "--undo", action="store_true", help="let readers see the former version again, that --keep has left"
    )
    what.add_argument("--abort", action="store_true", help="remove the version that is not live yet")
    rebuild.add_argument(
        "--keep", action="store_true", help="let the former version go on beside the new one"
    )
    rebuild.add_argument(
        "--check", metavar="COMMAND",
        help="run before the switch, by the shell, with TIDINGS_REBUILD_CONNECTOR, _VERSION and _SUFFIX; any exit code but 0 refuses",
    )  # fmt: skip
    rebuild.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="for catching up (default: as long as it takes)"
    )
    rebuild.add_argument(
        "--grace", type=float, default=10.0, metavar="SECONDS",
        help="between the switch and the removal of the former version, for queries that have begun with it (default: 10)",
    )  # fmt: skip
    rebuild.add_argument("--json", action="store_true", help="with --status: one JSON object")
    return parser


def _run(given: argparse.Namespace) -> int:
    worker = read_worker_config(load_properties(given.worker))
    client = RestClient(given.url or address_of(worker), worker.rest)
    connectors = client.connectors()
    naming = Naming(first_name(given.name, connectors))
    file = None if given.connector is None else read_connector_file(given.connector).config
    known = [connectors[name] for name in sorted(connectors) if naming.is_version(name)]
    config: Mapping[str, str] = dict(file) if file is not None else known[0].config
    masked = sorted(name for name, text in config.items() if text == MASK)
    if masked:
        raise RebuildError(
            f"the worker does not show {', '.join(masked)} of {known[0].name}",
            hint="give the connector's file with --connector, or put a reference to the secret in its place (docs/security.md)",
        )
    resolved = worker.providers.resolve(dict(config))
    model = open_read_model(naming, resolved)
    try:
        if file is None:
            # The live one's, which may not be the first.
            config = connectors.get(naming.name(model.live() or 1), known[0]).config
        wishes = Wishes(
            keeps=given.keep,
            timeout_seconds=given.timeout,
            grace_seconds=given.grace,
            check=_check(given.check, naming),
        )
        rebuild = Rebuild(client, TopicEnds(_kafka(worker, resolved)), model, naming, config, wishes, _say)
        if given.status:
            _show(rebuild.status(), as_json=given.json)
        elif given.undo:
            rebuild.undo()
        elif given.abort:
            rebuild.abort()
        else:
            rebuild.run()
    finally:
        model.close()
    return 0


def _kafka(worker: WorkerConfig, config: Mapping[str, str]) -> dict[str, str]:
    """Kafka's settings of whoever reads the sink's topics."""
    own = translate_client_settings(consumer_overrides(config), CONSUMER_OVERRIDE)
    login = {name: text for name, text in own.items() if name.startswith(("sasl.", "ssl.", "security."))}
    return {**worker.common_client(), **login}


def _check(command: str | None, naming: Naming) -> Callable[[int], None]:
    def check(version: int) -> None:
        if command is None:
            return
        known = {
            "TIDINGS_REBUILD_CONNECTOR": naming.name(version),
            "TIDINGS_REBUILD_VERSION": str(version),
            "TIDINGS_REBUILD_SUFFIX": naming.suffix(version),
        }
        done = subprocess.run(command, shell=True, env={**os.environ, **known}, check=False)  # noqa: S602 - the caller's own
        if done.returncode:
            raise CheckError(
                f"the check of {naming.name(version)} ended with {done.returncode}: readers still see the former version",
                hint="run the rebuild again to check once more, or remove the new version with --abort",
            )

    return check


def _show(status: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, indent=2))
        return
    versions = status["versions"]
    assert isinstance(versions, list)
    for one in versions:
        mark = "live" if one["live"] else "    "
        has = ", ".join(f"{name} {count}" for name, count in one["has"].items()) or "nothing yet"
        print(
            f"{mark}  version {one['version']}  {one['connector']}  {one['state']}  {one['unread']} to read  {has}"
        )


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
