"""What a replay knows of a MariaDB's servers is what a sequencer knows that has read the same markers."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from lakelab.lake import Lake
from lakelab.topics import MarkerTopic

from tidings_envelope.errors import OrderError
from tidings_envelope.gtid import Gtid
from tidings_envelope.position import lsn_to_text
from tidings_envelope.server_numbers import ServerNumbers
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.replay.servers import refuse_numbers_that_go_back, server_numbers
from tidings_lakehouse.topics import TRANSACTION_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakelab.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

_END = 1 << 62


def markers_of(chance: random.Random, count: int) -> list[Gtid]:
    """Of a server after the other, with what a crash writes again."""
    found: list[Gtid] = []
    sequence, server = chance.randrange(1, 50), 1
    for _ in range(count):
        if chance.random() < 0.1:
            server = chance.randrange(1, 5)
        sequence += chance.choice((1, 1, 1, 7))
        found.append(Gtid(0, server, sequence))
        if chance.random() < 0.1:
            found += found[-chance.randrange(1, 9) :]
    return found


def read(markers: Iterable[Gtid]) -> tuple[ServerNumbers, list[Gtid]]:
    """What is known behind them, and those before which a sequencer stops."""
    known, back = ServerNumbers(), []
    for gtid in markers:
        if gtid.sequence > known.highest:
            known.note(gtid)
            continue
        try:
            known.check_told(gtid)
        except OrderError:
            back.append(gtid)
    return known, back


def test_servers_are_those_of_the_markers_and_numbers_that_go_back_are_refused(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    seed = int(os.environ.get("TIDINGS_REPLAY_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    topics.table(f"{unique_name}.public.s_{unique_name}")
    topic = MarkerTopic(topics, unique_name)

    def told(markers: list[Gtid]) -> None:
        topic.mariadb(*map(str, markers))
        topics.flush()
        lake.drain()

    markers = markers_of(chance, 60)
    told(markers)
    session = lake.session
    for _ in range(3):
        newest = chance.choice(markers)
        wanted, back = read(one for one in markers if one.sequence <= newest.sequence)
        assert back == []
        assert server_numbers(session, unique_name, newest.commit_position) == wanted
    refuse_numbers_that_go_back(session, unique_name, _END)

    # A second primary has logged commits of numbers that were taken before, and of some that were left out.
    first, last = markers[0].sequence, markers[-1].sequence
    other = sorted({chance.randrange(first, last + 1) for _ in range(4)})
    markers += [Gtid(0, 9, number) for number in other]
    markers += [Gtid(0, 9, last + 1), Gtid(0, 9, other[-1])]
    told(markers[-len(other) - 2 :])
    wanted, back = read(markers)
    assert back
    assert server_numbers(session, unique_name, _END) == wanted
    least = min(back, key=lambda one: one.sequence)
    with pytest.raises(
        ReplayError, match=f"transaction {least.sequence} of server 9 follows number {last}"
    ) as refused:
        refuse_numbers_that_go_back(session, unique_name, _END)
    before = least.commit_position - 1
    assert f"--until {lsn_to_text(before)}" in refused.value.hint
    refuse_numbers_that_go_back(session, unique_name, before)


def test_markers_of_an_earlier_release_do_not_name_their_server(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """Servers are known from those on that do."""
    topics.table(f"{unique_name}.public.s_{unique_name}")
    topic = MarkerTopic(topics, unique_name)

    def told(*gtids: str) -> None:
        topic.mariadb(*gtids)
        topics.flush()
        lake.drain()

    def known() -> ServerNumbers:
        refuse_numbers_that_go_back(session, unique_name, _END)
        return server_numbers(session, unique_name, _END)

    told("0-1-3", "0-1-4")
    session = lake.session
    assert known() == ServerNumbers({1: 4}, 3)
    session.sql(f"ALTER TABLE {TRANSACTION_LOG} DROP COLUMN server")
    assert known() == ServerNumbers()
    told("0-2-4", "0-1-5", "0-2-6", "0-1-4", "0-2-5")
    session.sql(f"UPDATE {TRANSACTION_LOG} SET server = NULL WHERE topic = '{topic.topic}' AND tx_id = 5")
    assert known() == ServerNumbers({2: 6}, 6)
