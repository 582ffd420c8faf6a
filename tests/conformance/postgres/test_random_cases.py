"""A few of the random cases that ``python -m tests.conformance.differential`` runs for hours: the generator still makes cases
that PostgreSQL and Debezium take, and what is compared is the same."""

import secrets

import pytest
from differential.case import make_case, run
from side_by_side import Pair, Side

MOST_REFUSED = 60
"""Statements of one case, of about 400, that PostgreSQL may refuse."""


@pytest.mark.parametrize("seed", [2, 13])
def test_a_random_case(
    seed: int, pg_database: str, connect_url: str, worker_url: str, kafka_bootstrap: str, registry_url: str
) -> None:
    case = make_case(seed, registry_url)
    token = secrets.token_hex(4)
    theirs, mine = (
        Side(url, f"{letter}{token}", kafka_bootstrap)
        for url, letter in ((connect_url, "d"), (worker_url, "t"))
    )
    pair = Pair(pg_database, theirs, mine, case.options)
    try:
        outcome = run(case, pair)
    finally:
        pair.close()
    assert outcome.kind == "ok", outcome
    assert outcome.records > 100, "the options leave too little to compare: choose another seed"
    assert outcome.refused < MOST_REFUSED


def test_a_seed_always_makes_the_same_case() -> None:
    assert make_case(7, "http://registry") == make_case(7, "http://registry")
