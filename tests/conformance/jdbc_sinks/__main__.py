"""Random streams past Debezium's JDBC sink and ours, for as long as one likes: tables, columns and rows are compared.

    python -m tests.conformance.jdbc_sinks --seed 1 --cases 20

Prints a line per case. The exit code is 1 when a case found a difference; `--seed <its seed> --cases 1 --verbose` shows its
options and records. A case on which both tasks fail compares nothing, and one on which only Debezium's fails is counted apart.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from jdbc_sinks.cases import run_case
from jdbc_sinks.sides import Debezium
from random_streams import RunCase, run_command

from tidings_stack.connect import ConnectServer
from tidings_stack.stack import Stack


def open_sides(stack: Stack, connect: ConnectServer) -> RunCase:
    """Debezium's sink, beside which ours writes to the same server."""
    debezium = Debezium(connect.url, stack.kafka.bootstrap)
    return lambda seed, name, changes: run_case(seed, name, stack.pg.url, debezium, changes)


if __name__ == "__main__":
    sys.exit(
        run_command(
            "python -m tests.conformance.jdbc_sinks", __doc__, ("pg", "kafka"), "debezium-jdbc", open_sides
        )
    )
