"""Random streams past mongo-kafka's sink and ours, for as long as one likes: the documents are compared.

    python -m tests.conformance.mongo_sinks --seed 1 --cases 20

Prints a line per case. The exit code is 1 when a case found a difference; `--seed <its seed> --cases 1 --verbose` shows its
options and records. A case on which both tasks fail compares nothing, and one on which only mongo-kafka's fails is counted apart.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mongo_sinks.cases import run_case
from mongo_sinks.sides import MongoKafka
from random_streams import RunCase, run_command

from tidings_stack.connect import ConnectServer
from tidings_stack.mongo import MongoServer
from tidings_stack.stack import Stack


def open_sides(stack: Stack, connect: ConnectServer) -> RunCase:
    """mongo-kafka's sink, beside which ours writes to the same server."""
    mongo = stack.add(MongoServer)
    theirs = MongoKafka(connect.url, stack.kafka.bootstrap)
    return lambda seed, name, changes: run_case(seed, name, mongo.url, theirs, changes)


if __name__ == "__main__":
    sys.exit(
        run_command("python -m tests.conformance.mongo_sinks", __doc__, ("kafka",), "mongo-kafka", open_sides)
    )
