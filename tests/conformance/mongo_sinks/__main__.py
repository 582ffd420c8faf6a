"""Random streams past mongo-kafka's sink and ours, for as long as one likes: the documents are compared.

    python -m tests.conformance.mongo_sinks --seed 1 --cases 20

Prints a line per case. The exit code is 1 when a case found a difference; `--seed <its seed> --cases 1 --verbose` shows its
options and records. A case on which both tasks fail compares nothing, and one on which only mongo-kafka's fails is counted apart.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mongo_sinks.cases import Result, run_case
from mongo_sinks.sides import MongoKafka

from tidings_jvm import PlainProgress
from tidings_stack.connect import ConnectServer
from tidings_stack.mongo import MongoServer
from tidings_stack.stack import Stack


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.mongo_sinks", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first case; the others follow")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--changes", type=int, default=60, help="of a case")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    failed = []
    with Stack(members=("kafka",), progress=PlainProgress(print)) as stack:
        connect = stack.add(
            lambda place: ConnectServer(
                place,
                bootstrap=stack.kafka.bootstrap,
                settings={"offset.flush.interval.ms": "300"},
                plugins=("mongo-kafka",),
            )
        )
        mongo = stack.add(MongoServer)
        theirs = MongoKafka(connect.url, stack.kafka.bootstrap)
        for seed in range(given.seed, given.seed + given.cases):
            begun = time.monotonic()
            name = f"s{seed}x{secrets.token_hex(3)}"
            result: Result = run_case(seed, name, mongo.url, theirs, given.changes)
            total[result.kind] += 1
            if given.verbose:
                print(*(f"   {k} = {v}" for k, v in sorted(result.case.options.items())), sep="\n")
                for topic, key, value in result.case.records:
                    print("  ", topic, key, value)
            print(f"{result.kind:8} {seed} records {len(result.case.records)} seconds {time.monotonic() - begun:.1f}",
                  *result.lines, sep="\n   ", flush=True)  # fmt: skip
            if result.kind in {"DIFFERS", "OURS"}:
                failed.append(seed)
                print("  ", result.case.options, flush=True)
    print(dict(total), "failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
