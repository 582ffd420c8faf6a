"""One random case past both sinks."""

from jdbc_sinks.sides import Debezium, Outcome, differences, run_ours
from jdbc_sinks.stream import Case, Stream
from random_streams import Result

from tidings_stack.postgres import create_database, drop_database


def run_case(seed: int, name: str, server: str, debezium: Debezium, changes: int) -> Result:
    """Run a case in two databases of its own, which are dropped."""
    stream = Stream(seed, name)
    case = stream.case(seed, changes)
    filled: list[tuple[str, bytes | None, bytes | None]] = []
    records = case.records
    if (
        case.options["insert.mode"] == "update"
    ):  # rows that are there before, or there would be nothing to update
        filled, records = records[: changes // 2], records[changes // 2 :]
    urls = [create_database(server, f"{name}_{side}") for side in ("theirs", "ours")]
    try:
        if filled:
            for number, url in enumerate(urls):
                before = run_ours(f"{name}f{number}", url, case.options | {"insert.mode": "upsert"}, filled)
                assert before.error is None, before.error
        theirs = debezium.run(name, urls[0], case.options, records)
        ours = run_ours(name, urls[1], case.options, records)
    finally:
        for side in ("theirs", "ours"):
            drop_database(server, f"{name}_{side}")
    errors = [f"{who}: {found.error}" for who, found in (("Debezium", theirs), ("ours", ours)) if found.error]
    if theirs.error and ours.error:
        return Result(case, "both", errors)
    if theirs.error or ours.error:
        return Result(case, "debezium" if theirs.error else "OURS", errors)
    lines = differences(theirs.tables, ours.tables) + _not_the_source(case, ours)
    return Result(case, "DIFFERS" if lines else "same", lines)


def _not_the_source(case: Case, ours: Outcome) -> list[str]:
    """Whether we have as many rows as the source, where the options make a copy of it."""
    options = case.options
    copies = options["insert.mode"] == "upsert" and options.get("delete.enabled") == "true"
    if not copies or options.get("truncate.enabled") != "true":
        return []
    wanted = sorted(
        len(table.rows) for table in case.tables if any(r[0] == table.topic for r in case.records)
    )
    found = sorted(len(content.rows) for content in ours.tables.values())
    return [] if wanted == found else [f"the source has {wanted} rows, and we have {found}"]
