"""Rows for a person or a script: one result, whichever engine it comes from, and how it is printed."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Rows:
    """A result: columns, rows as Spark's JSON has them, and which columns are numbers."""

    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
    numeric: tuple[bool, ...]


def print_rows(rows: Rows, form: str) -> None:
    """Print as ``table``, ``json`` (one object a line) or ``csv``."""
    if form == "json":
        for row in rows.rows:
            sys.stdout.write(json.dumps(dict(zip(rows.columns, row, strict=True)), default=str) + "\n")
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(rows.columns)
        writer.writerows(rows.rows)
    else:
        table = Table()
        for name, numeric in zip(rows.columns, rows.numeric, strict=True):
            table.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in rows.rows:
            table.add_row(*["" if value is None else str(value) for value in row])
        console = Console()
        if not console.is_terminal:
            console = Console(width=max(120, 24 * len(rows.columns)))
        console.print(table)
        console.print("1 row" if len(rows.rows) == 1 else f"{len(rows.rows)} rows")
