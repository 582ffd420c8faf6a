"""What stands under ``tidings``: which module has each command, and an example of each.

Nothing is imported before a command is asked for, so that ``tidings --help`` and completion stay quick.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

_DATABASE: Final = "postgresql://tidings@db.example/shop"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: a module with ``main(arguments) -> exit code`` and ``parser() -> ArgumentParser``."""

    section: str
    summary: str
    module: str
    distribution: str
    examples: Mapping[str, str]
    """By subcommand (an empty text where there are none): the rest of a command line."""
    main: str = "main"
    parser: str = "parser"
    old_name: str | None = field(default=None)
    """The console script that does the same."""
    needs: str | None = field(default=None)
    """The package that must be there, where it is not the module's."""

    @property
    def installed(self) -> bool:
        """Whether the distribution that has it is there."""
        return find_spec(self.needs or self.module.partition(".")[0]) is not None


_RUN, _LOOK, _AUTHOR, _TRY = "Run the pipeline", "Look and mend", "Write a domain, read its events", "Try it"

COMMANDS: Final[Mapping[str, Entry]] = {
    "capture": Entry(
        _RUN, "A worker that takes Debezium's connectors over Kafka Connect's REST API.",
        "tidings_connect.worker", "tidings-capture", {"": "worker.properties"},
        needs="tidings_capture", old_name="tidings-capture",
    ),
    "sequence": Entry(
        _RUN, "Row changes to whole transactions; settings are environment variables.",
        "tidings_translator.cli.main", "tidings-translator", {"": ""},
        main="sequencer", parser="sequencer_parser", old_name="tidings-sequencer",
    ),
    "translate": Entry(
        _RUN, "Whole transactions to business events; settings are environment variables.",
        "tidings_translator.cli.main", "tidings-translator", {"": ""},
        main="translator", parser="translator_parser", old_name="tidings-translator",
    ),
    "lakehouse": Entry(
        _RUN, "Topics to Iceberg tables, and a look at them.",
        "tidings_lakehouse.cli", "tidings-lakehouse",
        {
            "run": "--available-now",
            "submit-files": "submit",
            "executor": "",
            "sql": "'select * from technical.orders limit 10' --json",
            "tables": "--format csv",
            "as-of": "0/16B3748 --create",
            "tags": "--drop quarter-3",
            "views": "",
            "audit": "--table 'technical.order*' --json",
            "repair": "--table technical.orders --apply",
            "history": "history-of-june",
            "accept-loss": "shop.public.orders --yes",
            "replay": "--domain tidings_shop.domain --json",
            "erase": "--table technical.customers --key id=7 --table technical.orders --where customer_id=7 --yes",
        },
        old_name="tidings-lakehouse",
    ),
    "doctor": Entry(
        _LOOK, "What is wrong with a database, Kafka, registry and lake, and what mends it.",
        "tidings_cli.doctor.command", "tidings-capture", {"": "--connector shop.json --worker worker.properties --json"},
        needs="tidings_capture",
    ),
    "tail": Entry(
        _LOOK, "Show a database's changes as they are committed; no Kafka.",
        "tidings_capture.postgres.tail.command", "tidings-capture", {"": f"{_DATABASE} --snapshot orders"},
        old_name="tidings-capture tail",
    ),
    "wal": Entry(
        _LOOK, "What every replication slot retains, and when that becomes too much.",
        "tidings_capture.postgres.wal.command", "tidings-capture", {"": f"{_DATABASE} --disk 100GB --check"},
        old_name="tidings-capture wal",
    ),
    "ddl": Entry(
        _LOOK, "The event trigger that puts DDL into the WAL.",
        "tidings_capture.postgres.server.ddl_command", "tidings-capture", {"": f"status {_DATABASE}"},
        old_name="tidings-capture ddl",
    ),
    "dead-letters": Entry(
        _LOOK, "List, show, replay or discard what could not be translated.",
        "tidings_translator.cli.dead_letters", "tidings-translator",
        {"list": "--json", "show": "17 18 --payload", "replay": "17 --timeout 30", "discard": "--all --rule placed"},
        old_name="tidings-translator dead-letters",
    ),
    "generations": Entry(
        _LOOK, "New rules over all history beside the live ones: compare, switch over.",
        "tidings_translator.cli.generations", "tidings-translator",
        {
            "start": "june --partitions 8",
            "status": "--json",
            "diff": "june --topic shop.order-placed.v2",
            "promote": "june",
            "correct": "june --publish",
            "discard": "june",
        },
        old_name="tidings-translator generations",
    ),
    "readers": Entry(
        _LOOK, "Who still reads which version of an event.",
        "tidings_translator.cli.readers", "tidings-translator", {"": "--json"},
        old_name="tidings-translator readers",
    ),
    "sinks": Entry(
        _LOOK, "Rebuild what a sink has written, from zero beside the live one, and switch over.",
        "tidings_sinks.rebuild.command", "tidings-sinks",
        {"rebuild": "orders-placed --worker worker.properties --keep"},
    ),
    "init": Entry(
        _AUTHOR, "A project that runs, from a database's tables; again, what is new in them.",
        "tidings_cli.project.command", "tidings-domain", {"": f"{_DATABASE} --name shop"},
        needs="tidings_domain",
    ),
    "schemas": Entry(
        _AUTHOR, "Event classes from contracts, compatibility, registration.",
        "tidings_domain.contracts.cli", "tidings-domain",
        {
            "generate": "--check",
            "check": "--against origin/main",
            "register": "--registry http://127.0.0.1:8080/apis/ccompat/v7",
            "asyncapi": "--domain shop",
        },
        old_name="tidings-schemas",
    ),
    "record": Entry(
        _AUTHOR, "Transactions of a real database as a file for tests.",
        "tidings_translator.cli.record", "tidings-translator",
        {"": "tests/last-ten.json --last 10 --mask public.customers.name"},
        old_name="tidings-translator record",
    ),
    "client": Entry(
        _AUTHOR, "Event classes for a reader's program, from the registry.",
        "tidings_client.generate", "tidings-client",
        {"generate": "shop.order-placed.v2 --registry http://127.0.0.1:8080/apis/ccompat/v7"},
        old_name="tidings-client",
    ),
    "up": Entry(
        _TRY, "The whole pipeline of a project on this machine, live, until Ctrl-C.",
        "tidings_cli.up.command", "tidings-cli[up]", {"": "--keep"},
        needs="tidings_stack",
    ),
    "stack": Entry(
        _TRY, "PostgreSQL, Kafka and a registry on this machine.",
        "tidings_stack.cli", "tidings-stack",
        {"up": "--members pg,kafka --pg 17", "status": "--json", "down": "--name default"},
        old_name="tidings-stack",
    ),
    "demo": Entry(
        _TRY, "The whole pipeline under a minute of shop traffic.",
        "tidings_shop.demo.cli", "tidings-shop", {"": "--keep --seconds 30"},
        old_name="tidings-demo",
    ),
    "shop": Entry(
        _TRY, "The example's tables and traffic, on a database of your own.",
        "tidings_shop.cli", "tidings-shop",
        {
            "schema": f"--database {_DATABASE}",
            "seed": f"--database {_DATABASE} --customers 10 --json",
            "traffic": f"--database {_DATABASE} --rate 5 --duration 60 --json",
        },
        old_name="tidings-shop",
    ),
}  # fmt: skip
