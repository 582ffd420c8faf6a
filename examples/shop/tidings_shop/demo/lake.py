"""Asks the lake, by the lakehouse's own command: one statement, because every question costs a start of Spark."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tidings_shop.errors import DemoError
from tidings_stack.pipeline.services import installed

_SECONDS = 590.0
_TAIL_LINES = 8
_JSON_OPTIONS = (
    "map('ignoreNullFields', 'false',"
    """ 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX","""
    """ 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")"""
)


def statement(tables: Iterable[str], events: Iterable[str]) -> str:
    """The statement that asks for all rows of the current-state tables, and counts and ids of the event tables."""
    questions = [
        f"select '{table}' as relation, to_json(struct(*), {_JSON_OPTIONS}) as row from technical.{table}"  # noqa: S608 - names of our own
        for table in tables
    ]
    questions += [
        f"select '{event}', to_json(named_struct('records', count(*), 'ids', count(distinct ce_id)))"  # noqa: S608 - names of our own
        f" from business.{event}"
        for event in events
    ]
    return " union all ".join(questions)


def ask(
    tables: Sequence[str], events: Sequence[str], *, environment: Mapping[str, str], directory: Path
) -> dict[str, list[dict[str, object]]]:
    """The rows of the current-state tables, and one row with counts (`records`, `ids`) of each event table.

    Raises:
        DemoError: with the end of what the command says when it fails or takes too long.
    """
    answers: dict[str, list[dict[str, object]]] = {name: [] for name in (*tables, *events)}
    if not answers:
        return answers
    command = [
        installed("tidings-lakehouse"),
        "sql",
        "--engine",
        "spark",
        "--format",
        "json",
        statement(tables, events),
    ]
    log_path = directory / "logs" / "lakehouse-sql.log"
    with log_path.open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                command,
                env=dict(environment),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"the lake did not answer in {_SECONDS:.0f} s") from error
    if done.returncode != 0:
        tail = "\n".join(log_path.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:])
        raise DemoError(f"the lake refused to answer (exit code {done.returncode}):\n{tail}")
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        answers[answer["relation"]].append(json.loads(answer["row"]))
    return answers
