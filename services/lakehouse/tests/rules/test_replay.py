"""The rules over the logs give the live service's events, byte for byte; what the logs do not tell is refused or told."""

from __future__ import annotations

import json
import os
import random
import struct
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from lakelab.lake import Lake
from pyspark.sql import functions as sf
from yard import rental
from yard.comparing import bytes_of, check_generation, published
from yard.history import End, History
from yard.written import Yard

from tidings_domain.language.events import contract_of, topic_of
from tidings_domain.loading.domain import load_domain
from tidings_lakehouse.cli import main
from tidings_lakehouse.errors import HistoryError, ReplayError
from tidings_lakehouse.history.history import write_history
from tidings_lakehouse.replay.comparison import compare
from tidings_lakehouse.replay.generation import files_of
from tidings_lakehouse.replay.run import Replayed, replayed, write_table
from tidings_lakehouse.retention_rules import RETAINED_PROPERTY
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.tables.names import known_names
from tidings_lakehouse.tables.table_counts import table_names
from tidings_lakehouse.topics import log_of
from tidings_translator.base.records import Output

if TYPE_CHECKING:
    from lakelab.topics import Topics
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]

DOMAIN = load_domain("yard.domain")


class Written(NamedTuple):
    """A history in the lake, and what the live service makes of it."""

    lake: Lake
    yard: Yard
    history: History
    live: list[Output]

    @property
    def session(self) -> SparkSession:
        return self.lake.session

    def log(self, table: str) -> str:
        """The name of a table's log."""
        names = known_names(self.session)
        return log_of(names["technical", f"{self.yard.source}.public.{table}"])

    def replayed(self, **more: Any) -> AbstractContextManager[Replayed]:
        return replayed(self.session, self.yard.source, DOMAIN, **more)


@pytest.fixture(scope="module")
def written(
    session: SparkSession,
    topics: Topics,
    kafka_bootstrap: str,
    registry_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Written:
    seed = int(os.environ.get("TIDINGS_REPLAY_SEED", "7"))
    print(f"seed {seed}")
    source = f"yard{seed}"
    history = History(seed)
    history.snapshot()
    for _ in range(60):
        history.grow(2)
        rental.lend(history)
    yard = Yard(topics, source)
    yard.write(history.records)
    settings = LakehouseSettings(
        kafka=kafka_bootstrap,
        registry=registry_url,
        source=source,
        lakehouse_domains="yard",
        lakehouse_checkpoint=str(tmp_path_factory.mktemp("checkpoints")),
    )
    lake = Lake(session, settings)
    lake.drain()
    live = yard.live(registry_url, random.Random(seed), DOMAIN)
    assert len(live) > 50
    return Written(lake, yard, history, live)


def test_the_logs_give_the_live_events_byte_for_byte(written: Written) -> None:
    with written.replayed(shares=3) as found:
        assert found.range.until == written.history.last
        assert sorted(bytes_of(found)) == sorted(published(written.live))
        assert found.events.count() == len(written.live)
        told = {row["told"] for row in found.rows.where("told IS NOT NULL").collect()}
        assert told <= {"letter", "partial"}


def test_a_generation_from_history_gives_the_live_events(
    written: Written, registry_url: str, tmp_path: Path
) -> None:
    """Also where rows were left out, of which a marker's header tells."""
    write_history(written.session, written.yard.source, tmp_path / "history")
    chance = random.Random(written.history.seed)
    found = written.yard.from_lake(tmp_path / "history", registry_url, chance, DOMAIN)
    assert sorted(published(found)) == sorted(published(written.live))


@pytest.mark.turns
def test_a_generation_goes_on_live_from_the_commit_up_to_which_it_was_replayed(
    written: Written, registry_url: str, tmp_path: Path
) -> None:
    """Whichever commit that is: what was replayed and what follows are the live service's events, byte for byte."""
    chance = random.Random(written.history.seed)
    commits = sorted(one.commit for one in written.history.records if isinstance(one, End))
    for number, until in enumerate([chance.choice(commits[5:-1]), commits[-1]]):
        check_generation(
            written.session,
            written.yard,
            DOMAIN,
            until,
            written.live,
            registry_url,
            chance,
            tmp_path / str(number),
        )
    counts = dict.fromkeys(range(3), 1)
    assert len(files_of(tmp_path / "0", counts)) == 3
    with pytest.raises(ReplayError, match="1 of 4 files are not in"):
        files_of(tmp_path / "0", counts | {3: 1})


@pytest.mark.long
def test_the_second_example_gives_its_events_byte_for_byte(written: Written, registry_url: str) -> None:
    domain = load_domain("rental")
    live = written.yard.live(registry_url, random.Random(written.history.seed), domain)
    assert len({one.topic for one in live}) > 3
    with replayed(written.session, written.yard.source, domain, shares=2) as found:
        assert sorted(bytes_of(found)) == sorted(published(live))
        assert not found.rows.where("told IS NOT NULL").count()


@pytest.mark.turns("replay")
def test_what_was_published_is_compared_and_each_difference_is_found(
    written: Written,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    contracts = {topic_of(one): contract_of(one) for one in DOMAIN.event_classes()}
    ids = {topic: topics.register(f"{topic}-value", contract) for topic, contract in contracts.items()}
    for topic in contracts:
        topics.create(topic)
    lost, changed, *others = [one for one in written.live if one.topic == "yard.box-changed.v1"]
    rest = [one for one in written.live if one.topic != "yard.box-changed.v1"]
    planted = topics.encode(ids["yard.box-changed.v1"], {"box": "planted", "items": 77})
    for one in [*rest, *others]:
        body = struct.pack(">bI", 0, ids[one.topic]) + (one.value or b"")
        topics.produce(one.topic, one.key, body, one.headers)
    topics.produce(changed.topic, changed.key, planted, changed.headers)
    extra = [(name, b"planted" if name == "ce_id" else value) for name, value in changed.headers or ()]
    topics.produce(changed.topic, changed.key, planted, extra)
    topics.flush()
    written.lake.streams = ["business"]
    written.lake.drain()
    warehouse = url2pathname(urlsplit(written.session.conf.get("spark.sql.catalog.lake.warehouse")).path)
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", warehouse)
    monkeypatch.setenv("TIDINGS_SOURCE", written.yard.source)
    monkeypatch.setattr("tidings_lakehouse.spark.session.create_session", lambda *_, **__: written.session)
    monkeypatch.setattr(written.session, "stop", lambda: None)
    capsys.readouterr()
    assert main(["replay", "--domain", "yard.domain", "--json"]) == 3
    told = capsys.readouterr()
    compared = {row["event"]: row for row in map(json.loads, told.out.splitlines())}
    assert compared.keys() == contracts.keys()
    one = compared.pop("yard.box-changed.v1")
    for row in compared.values():
        assert (row["missing"], row["extra"], row["different"], row["examples"]) == (0, 0, 0, {})
    assert [one[state] for state in ("equal", "missing", "extra", "different", "told")] == [
        len(others),
        1,
        1,
        1,
        0,
    ]
    assert one["examples"] == {
        "missing": [dict(lost.headers or ())["ce_id"].decode()],
        "extra": ["planted"],
        "different": [dict(changed.headers or ())["ce_id"].decode()],
    }
    assert told.err.startswith("up to commit 0/")
    assert main(["replay", "--domain", "yard.domain", "--until", "nothing"]) != 0
    assert "--until is not a position" in capsys.readouterr().err


@pytest.mark.turns
def test_events_become_a_table_of_their_own(written: Written) -> None:
    with written.replayed(with_data=True, shares=2) as found:
        name = write_table(written.session, found, f"Tried_{written.yard.source}")
        with pytest.raises(ReplayError, match="is there already"):
            write_table(written.session, found, f"tried_{written.yard.source}")
        with pytest.raises(ReplayError, match="not a table's name"):
            write_table(written.session, found, "a.b")
    assert name == f"business_replay.tried_{written.yard.source}"
    assert name in table_names(written.session)
    rows = written.session.table(name).collect()
    assert len(rows) == len(written.live)
    row = next(one for one in rows if one["event"] == "yard.owner-renamed.v1")
    assert str(json.loads(row["data"])["owner"]) == row["ce_subject"]
    assert (row["ce_source"], row["rule"]) == ("/tidings/yard/owner", "renamed")


@pytest.mark.turns
def test_a_range_ends_at_a_commit(written: Written) -> None:
    """Nothing of what comes behind it is there, and all that comes before it is."""
    commits = sorted(one.commit for one in written.history.records if isinstance(one, End))
    middle = commits[len(commits) // 2]
    position = {one: int(dict(one[3])["ce_sequence"][:16], 16) for one in published(written.live)}
    with written.replayed(until=middle, shares=1) as found:
        assert bytes_of(found) == {one for one, at in position.items() if at <= middle}
    with pytest.raises(ReplayError, match="complete up to"), written.replayed(until=commits[-1] + 1):
        pass


@pytest.mark.turns("replay")
def test_what_the_logs_do_not_tell_is_refused_by_name(written: Written) -> None:
    """Last in the module: it takes rows out of the logs."""
    session, log = written.session, written.log("boxes")
    rows = session.table(log)
    newest = rows.where("op = 'u' AND after.state = 'touched'").orderBy(sf.col("lsn").desc()).first()
    assert newest is not None
    again = session.createDataFrame([newest], rows.schema)

    def refusal(**more: Any) -> str:
        with pytest.raises(ReplayError) as refused, written.replayed(**more):
            pass
        return f"{refused.value} {refused.value.hint}"

    with pytest.raises(ReplayError, match="no log of public"), replayed(session, "other", DOMAIN):
        pass
    # Old rows were let go.
    session.sql(f"ALTER TABLE {log} SET TBLPROPERTIES ('{RETAINED_PROPERTY}' = '2024-01-01')")
    with pytest.raises(HistoryError, match="no rows of records before 2024-01-01"), written.replayed():
        pass
    session.sql(f"ALTER TABLE {log} UNSET TBLPROPERTIES ('{RETAINED_PROPERTY}')")
    # A row is missing.
    session.sql(f"DELETE FROM {log} WHERE lsn = {newest['lsn']}")
    assert "1 transactions lack rows" in refusal()
    with written.replayed(gives_up=True) as found:
        lost = published(written.live) - bytes_of(found)
        assert found.range.given_up == 1
        assert any("left out" in note for note in found.notes())
    assert lost
    # An incremental snapshot changes an aggregate: what differs of it from then on is told.
    healed = again.withColumns(
        {
            "op": sf.lit("r"),
            "snapshot": sf.lit(True),
            "incremental": sf.lit(True),
            "tx_id": sf.lit(None).cast("bigint"),
            "total_order": sf.lit(None).cast("bigint"),
        }
    )
    healed.writeTo(log).append()
    with written.replayed(gives_up=True) as found:
        told = found.rows.where("told = 'incremental'").collect()
        assert [row["id"] for row in told] == [newest["key"]["id"]]
        compared = compare(session, found.rows, DOMAIN, found.range.until)
    assert sum(one.counts["told"] for one in compared) > 0
    # A second snapshot.
    late = healed.withColumns({"incremental": sf.lit(False), "last_commit_lsn": sf.lit(None).cast("bigint")})
    late.writeTo(log).append()
    assert "second snapshot" in refusal(gives_up=True)
    # The lake began behind its topics.
    session.sql(f"DELETE FROM {log} WHERE partition = 0 AND offset = 0")
    assert "begins at offset 1 of partition 0" in refusal(gives_up=True)
