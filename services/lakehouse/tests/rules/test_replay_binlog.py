"""The rules over the logs of a MariaDB or a MySQL give the live service's events, byte for byte, replayed and in a generation."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakelab.lake import Lake
from yard import rental
from yard.comparing import bytes_of, check_generation, published
from yard.history import End, History
from yard.written import BinlogYard

from tidings_domain.loading.domain import load_domain
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.history.history import write_history
from tidings_lakehouse.replay.run import replayed

if TYPE_CHECKING:
    from lakelab.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@pytest.mark.turns("binlog")
@pytest.mark.parametrize("connector", ["mariadb", pytest.param("mysql", marks=pytest.mark.long)])
def test_the_logs_give_the_live_events_byte_for_byte(
    lake: Lake, topics: Topics, unique_name: str, registry_url: str, connector: str, tmp_path: Path
) -> None:
    """Positions come from GTIDs or numbers of commits, moments from another unit; what a crash repeats counts once."""
    seed = int(os.environ.get("TIDINGS_REPLAY_SEED", "7"))
    print(f"seed {seed}")
    history = History(seed)
    history.snapshot()
    for _ in range(60):
        history.grow(2)
        rental.lend(history)
    yard = BinlogYard(topics, unique_name, connector)
    yard.write(history.records)
    lake.drain()
    assert lake.rows(f"SELECT * FROM tidings.quarantine WHERE topic LIKE '{unique_name}.%'") == []
    write_history(lake.session, unique_name, tmp_path / "history")
    chance = random.Random(seed)
    commits = [yard.position(one.tx_id) for one in history.records if isinstance(one, End)]
    for name, shares in (("yard.domain", 3), ("rental", 2)):
        domain = load_domain(name)
        live = yard.live(registry_url, random.Random(seed), domain)
        assert len(live) > 50
        with replayed(lake.session, unique_name, domain, shares=shares) as found:
            assert found.range.until == yard.position(history.tx_id)
            assert sorted(bytes_of(found)) == sorted(published(live))
            told = {row["told"] for row in found.rows.where("told IS NOT NULL").collect()}
            assert told <= {"letter", "partial"}
        again = yard.from_lake(tmp_path / "history", registry_url, random.Random(seed), domain)
        assert sorted(published(again)) == sorted(published(live)), (
            "a generation that is started from the lake"
        )
        until = chance.choice(commits[5:])
        check_generation(lake.session, yard, domain, until, live, registry_url, chance, tmp_path / name)


@pytest.mark.turns("binlog")
def test_a_moment_whose_unit_the_log_does_not_tell_is_refused(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    history = History(3)
    history.snapshot()
    history.grow(5)
    BinlogYard(topics, unique_name, "mariadb").write(history.records)
    lake.drain()
    with (
        pytest.raises(ReplayError, match=r"public\.boxes: column made_at has moments"),
        replayed(lake.session, unique_name, load_domain("yard.numbers")),
    ):
        pass
