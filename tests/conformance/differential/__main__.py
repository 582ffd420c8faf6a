"""Random tables, options and changes past the real Debezium and a real worker: every record is compared.

    python -m tests.conformance.differential --seed 1 --cases 100 --minutes 30

Prints a line per case. The exit code is 1 when a case found a difference; `--seed <its seed> --cases 1 --verbose` runs it
again and shows tables and options. A case on which Debezium's task fails compares nothing and is counted apart.
"""

import argparse
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka.admin import AdminClient
from differential.case import Outcome, make_case, run
from side_by_side import Pair, Side

from tidings_stack.capture import CaptureWorkers
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.stack import Stack


class Lab:
    """The servers that all cases share."""

    def __init__(self, stack: Stack, worker_url: str) -> None:
        self._stack = stack
        self._worker_url = worker_url
        self.registry = stack.registry.url

    def run(self, seed: int, *, verbose: bool) -> Outcome:
        """One case, in a database of its own."""
        case = make_case(seed, self.registry)
        if verbose:
            print(
                *case.setup,
                *(f"-- {name} = {value}" for name, value in sorted(case.options.items())),
                sep=";\n",
            )
            for step in case.steps:
                print("-- step", *step, sep=";\n")
        name, token = f"random_{secrets.token_hex(4)}", secrets.token_hex(4)
        url = create_database(self._stack.pg.url, name)
        bootstrap = self._stack.kafka.bootstrap
        theirs = Side(self._stack.connect.url, f"d{token}", bootstrap)
        mine = Side(self._worker_url, f"t{token}", bootstrap)
        pair = Pair(url, theirs, mine, case.options)
        try:
            return run(case, pair)
        finally:
            topics = [*theirs.topics(), *mine.topics()]
            try:
                pair.close()
            finally:
                drop_database(self._stack.pg.url, name)
                admin = AdminClient({"bootstrap.servers": bootstrap})
                for future in (admin.delete_topics(topics) if topics else {}).values():
                    future.exception(60)


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first case; the others follow")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no case after so long")
    parser.add_argument("--pg", default="16", help="PostgreSQL's version")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    total: Counter[str] = Counter()
    failed: list[int] = []
    members = ("pg", "kafka", "registry", "connect")
    with (
        Stack(members, pg_version=given.pg) as stack,
        tempfile.TemporaryDirectory() as directory,
        CaptureWorkers(Path(directory), stack.kafka.bootstrap) as workers,
    ):
        lab = Lab(stack, workers.start(workers.properties("differential")).url)
        for seed in range(given.seed, given.seed + given.cases):
            if time.monotonic() > until:
                break
            begun = time.monotonic()
            try:
                found = lab.run(seed, verbose=given.verbose)
            except Exception:  # noqa: BLE001 - the next case may do
                found = Outcome(problems=traceback.format_exc().splitlines())
            total.update({found.kind: 1, "records": found.records})
            print(
                f"{found.kind:6} {seed} records {found.records} refused {found.refused} seconds {time.monotonic() - begun:.1f}",
                found.only_theirs or found.both_failed,
                *found.problems,
                sep="\n   " if found.problems else " ",
                flush=True,
            )
            if found.problems:
                failed.append(seed)
    print(dict(total), "failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
