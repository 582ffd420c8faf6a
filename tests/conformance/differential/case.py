"""One random case: tables, options and changes from a seed, and what became of them on both sides."""

import contextlib
import re
from dataclasses import dataclass, field
from random import Random

import psycopg
from differential import chains, settings
from differential.tables import World
from side_by_side import Pair, Side, until

from tidings_envelope.headers.left_out import HEADER as LEFT_OUT

TABLES = 16
STEPS = 3
CHANGES = 110
SKIPS_EMPTY_TRANSACTIONS = 150000
"""From this version of PostgreSQL on an empty transaction is not sent."""


@dataclass
class Case:
    """What runs on both sides."""

    seed: int
    options: dict[str, str]
    setup: list[str]
    steps: list[list[str]]


@dataclass
class Outcome:
    """What came of a case."""

    problems: list[str] = field(default_factory=list)
    only_theirs: str = ""
    """Why Debezium's task failed where ours did not: to be looked at, since nothing could be compared."""
    records: int = 0
    refused: int = 0
    """Statements that PostgreSQL did not take."""
    both_failed: str = ""
    """Why both tasks failed."""

    @property
    def kind(self) -> str:
        """A word for it."""
        if self.problems:
            return "FAILED"
        return "theirs" if self.only_theirs else "both" if self.both_failed else "ok"


def make_case(seed: int, registry: str) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    options = settings.choose(rng) | settings.converters(rng, registry)
    chained = rng.random() < 0.35
    avro = any("Avro" in value for value in options.values())
    world = World(
        rng,
        streamed=options["snapshot.mode"] == "no_data",
        avro=avro,
        required_times=options.get("time.precision.mode") != "nanoseconds",
        bare_numerics=(bare := options["snapshot.mode"] == "no_data" or rng.random() < 0.6),
    )
    world.build(TABLES)
    options |= settings.of_tables(
        rng,
        world.tables,
        chained=chained,
        streamed=world.streamed,
        described=world.streamed or not bare,
    )
    if chained:
        options = chains.chain(rng, world.tables, options)
    world.renames = "table.include.list" not in options
    setup = list(world.setup)
    steps: list[list[str]] = []
    for number in range(STEPS):
        statements = []
        if number and not chained:
            for table in rng.sample(world.tables, 5):
                statements += world.alteration(table, compatible=avro)
            statements += world.another()
        while len(statements) < CHANGES:
            statements += changes(world, with_messages="provide.transaction.metadata" not in options)
        steps.append(statements)
    if any("truncate" in name for name in options):
        # Half a character is a wanted difference.
        setup, *steps = ([_without_surrogates(statement) for statement in part] for part in (setup, *steps))
        options = {name: _without_surrogates(value) for name, value in options.items()}
    mode = options.get("time.precision.mode")
    if mode == "structured" or (avro and mode == "connect"):  # there is no midnight at the end of a day
        setup, *steps = ([s.replace("24:00:00", "23:59:59") for s in part] for part in (setup, *steps))
    if any(value.endswith("TimezoneConverter") for value in options.values()):  # which cannot read them
        setup, *steps = ([_without_infinity(s) for s in part] for part in (setup, *steps))
    return Case(seed, options, setup, steps)


def _without_infinity(statement: str) -> str:
    for text in ("-infinity", "infinity"):
        statement = statement.replace(text, "2020-02-29")
    return statement


def _without_surrogates(statement: str) -> str:
    return statement.replace("\N{GRINNING FACE}", "\N{WHITE SMILING FACE}")


def changes(world: World, *, with_messages: bool) -> list[str]:
    """A transaction, a single change, a truncate, or a logical message."""
    rng = world.rng
    dice = rng.random()
    if dice < 0.03:
        return [f"TRUNCATE {', '.join(table.sql for table in rng.sample(world.tables, 2))}"]
    if dice < 0.06 and with_messages:
        whole = rng.choice(["true", "false"])
        return [
            f"SELECT pg_logical_emit_message({whole}, '{rng.choice(['told', 'quiet', 'other'])}', 'text \\x01 ü')"
        ]
    if dice < 0.3:
        rows = [world.change(rng.choice(world.tables)) for _ in range(rng.randrange(6))]
        if rows and rng.random() < 0.3:
            rows[len(rows) // 2 : len(rows) // 2] = [
                "SAVEPOINT a",
                world.change(world.tables[0]),
                "ROLLBACK TO a",
            ]
        return ["BEGIN", *rows, "COMMIT"]
    return [world.change(rng.choice(world.tables))]


def run(case: Case, pair: Pair) -> Outcome:
    """Run a case on a pair whose connectors have not been posted yet."""
    outcome = Outcome()
    for statement in case.setup:
        _execute(pair, statement, outcome)
    if pair.connection.info.server_version < SKIPS_EMPTY_TRANSACTIONS:
        _publish(pair)
    try:
        pair.start()
        for step in case.steps:
            for statement in step:
                _execute(pair, statement, outcome)
            pair.catch_up()
        outcome.records = sum(map(len, pair.compare({LEFT_OUT}).values()))
    except AssertionError as error:
        failed = [_failed(pair, side) for side in (pair.mine, pair.theirs)]
        if all(failed):
            outcome.both_failed = f"{failed[1]}  OURS: {failed[0]}"
        elif failed[1]:
            outcome.only_theirs = failed[1]
        else:
            outcome.problems = str(error).split("\n")
    return outcome


def _publish(pair: Pair) -> None:
    """Make both publications: old servers show one connector, as an empty transaction, that the other makes its own."""
    skipped = pair.options.get("skipped.operations", "t")
    names = {"c": "insert", "u": "update", "d": "delete", "t": "truncate"}
    published = ", ".join(name for letter, name in names.items() if letter not in skipped.replace("none", ""))
    pair.options.pop("publication.autocreate.mode", None)
    for side in (pair.mine, pair.theirs):
        by_root = pair.options.get("publish.via.partition.root", "false")
        pair.connection.execute(
            f"CREATE PUBLICATION {side.base} FOR ALL TABLES"  # type: ignore[arg-type]
            f" WITH (publish = '{published}', publish_via_partition_root = {by_root})"
        )


def _execute(pair: Pair, statement: str, outcome: Outcome) -> None:
    """Run a statement; those that PostgreSQL does not take are part of the game."""
    try:
        pair.connection.execute(statement)  # type: ignore[call-overload]
    except psycopg.Error:
        outcome.refused += 1


def _failed(pair: Pair, side: Side) -> str:
    """Why a side's task has failed; empty when it comes to the end of what has been written."""

    def known() -> bool:
        return bool(side.task()["state"] == "FAILED" or pair.arrived(side))

    with contextlib.suppress(AssertionError):
        until("the task has failed or come to the end", known)
    task = side.task()
    return summary(task["trace"]) if task["state"] == "FAILED" else ""


def summary(trace: str) -> str:
    """The causes in a stack trace."""
    found = re.findall(r"(?:^|Caused by: )(?!\s*at )([^\n]+)", trace)
    return " <- ".join(line[:300] for line in found[:1] + found[-1:])
