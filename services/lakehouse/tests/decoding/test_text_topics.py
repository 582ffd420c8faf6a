"""Topics of JSON without schemas that are kept as text."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.json_topics import change, envelope, key, record

from tidings_lakehouse.erasing.selection import Condition, Selection, condition_on_log
from tidings_lakehouse.history.history import write_history
from tidings_lakehouse.watermark.transactions import is_of_a_binlog

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

pytestmark = pytest.mark.stack


def plain(payload: Any) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode()


def end(tx_id: int, commit: int, count: int, topic: str) -> bytes:
    collection = {"data_collection": topic.partition(".")[2], "event_count": count}
    return plain(
        {
            "status": "END",
            "id": f"{tx_id}:{commit}",
            "ts_ms": 1,
            "event_count": count,
            "data_collections": [collection],
        }
    )


def test_json_without_schemas_is_kept_as_text(
    lake: Lake, topics: Topics, unique_name: str, size: str, tmp_path: Path
) -> None:
    """Whatever JSON it is, byte for byte, with a change's position; with types where a record has some; the rest is put aside."""
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_text": rf"{unique_name}\.public\..*", "registry": None}
    )
    topic, log = f"{unique_name}.public.o_{unique_name}", f"technical.o_{unique_name}_log"
    topics.create(topic)
    topics.create(f"{unique_name}.transaction")
    one = {"id": 1, "note": "pl\u00e0ced \u2603", "amount": "BNI="}
    typed = change(30, {**one, "note": "typed"})
    kept: list[tuple[bytes | None, bytes | None, tuple[Any, ...]]] = [
        (plain({"id": 1}), b" " + plain(change(10, one)), ("c", 9, 10, 10)),
        (plain({"id": 2}), plain({**change(20, one, "d"), "after": None, "before": one}), ("d", 19, 20, 20)),
        (b"customer 7", plain({"id": 7, "source": "web", "lsn": 4}), (None, None, None, None)),
        (plain(7), b"[1, 2.50]", (None, None, None, None)),
        (plain({"id": 2}), None, (None, None, None, None)),
        (None, plain({"op": "c", "source": {"lsn": "x", "sequence": 3}}), ("c", None, None, None)),
        (plain({"id": 1}), plain(change(25, one)), ("c", 24, 25, 25)),
    ]
    for key_bytes, value, _ in kept:
        topics.produce(topic, key_bytes, value)
    topics.produce(topic, key(topic, 1), record(envelope(topic), typed))
    for broken in [plain(change(40, one))[:-9], b'{"a": "\xff"}', b"secret", b"\0", b""]:
        topics.produce(topic, plain({"id": 9}), broken)
    topics.produce(topic, b"\xff\xfe", plain(change(50, one)))
    topics.produce(f"{unique_name}.transaction", plain({"id": "10:9"}), end(10, 12, 1, topic))
    topics.produce(f"{unique_name}.transaction", plain({"id": "20:19"}), end(20, 22, 1, topic))
    topics.flush()
    lake.drain()
    texts = [(a and a.decode(), b and b.decode(), *position) for a, b, position in kept]
    statement = f"select key_text, value_text, op, last_commit_lsn, lsn, tx_id from {log} order by offset"
    assert lake.rows(statement) == [*texts, (None, None, "c", 29, 30, 30)]
    assert lake.rows(f"select key.id, after.note from {log} where key is not null") == [(1, "typed")]
    assert not lake.session.catalog.tableExists(log.removesuffix("_log"))
    lost = lake.rows(f"select offset, reason from tidings.quarantine where topic = '{topic}' order by offset")
    assert [row[0] for row in lost] == [*range(8, 13), 13]
    assert all("value: neither" in row[1] and row[1].endswith("nor JSON") for row in lost[:-1])
    assert lost[-1][1].endswith("nor text in UTF-8")
    assert "secret" not in str(lost)
    watermark = f"select commit_lsn from tidings.watermark where topic = '{topic}'"
    assert lake.rows(watermark) == [(22,)]
    if size == "small":
        _check_commands(lake, unique_name, log, texts, tmp_path)


def _check_commands(lake: Lake, source: str, log: str, texts: list[tuple[Any, ...]], tmp_path: Path) -> None:
    """A person's rows are found in texts, and history is written as it was on the topic."""
    chosen = Selection(log.removesuffix("_log"), (Condition("id", "1"),))
    condition = condition_on_log(chosen, lake.session.table(log).schema)
    assert lake.rows(f"select offset from {log} where {condition} order by offset") == [
        (0,), (1,), (6,), (7,)
    ]  # fmt: skip
    write_history(lake.session, source, tmp_path / "history")
    lines = lake.session.read.text(f"{tmp_path}/history/topic={source}.public.o_{source}").collect()
    found = sorted((json.loads(row[0]) for row in lines), key=lambda line: int(line["offset"]))
    assert [line["offset"] for line in found] == list(range(14))
    assert [base64.b64decode(line["raw_value"]).decode() for line in found[:4]] == [
        row[1] for row in texts[:4]
    ]
    assert found[7]["value"]["after"]["note"] == "typed"


def test_texts_of_a_mariadb_have_positions_and_are_written_as_they_were(
    lake: Lake, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_text": rf"{unique_name}\.shop\..*", "registry": None}
    )
    topic, log = f"{unique_name}.shop.o_{unique_name}", f"technical.shop_o_{unique_name}_log"
    topics.create(topic)
    mariadb = change(0, {"id": 1, "note": "n"})
    mariadb["source"] = {"snapshot": "false", "gtid": "0-1-5", "ts_ms": 3}
    mariadb["transaction"] = {"total_order": 2}
    topics.produce(topic, plain({"id": 1}), plain(mariadb))
    marker = plain({"status": "END", "id": "0-1-5", "ts_ms": 1, "event_count": 1, "data_collections": None})
    topics.create(f"{unique_name}.transaction")
    topics.produce(f"{unique_name}.transaction", plain({"id": "0-1-5"}), marker)
    topics.flush()
    lake.drain()
    found = lake.rows(f"select op, last_commit_lsn, lsn, tx_id from {log}")
    assert found == [("c", 4 << 24, (4 << 24) + 2, 5)]
    assert is_of_a_binlog(lake.session, unique_name)
    write_history(lake.session, unique_name, tmp_path / "history")
    (line,) = lake.session.read.text(f"{tmp_path}/history/topic={topic}").collect()
    assert base64.b64decode(json.loads(line[0])["raw_value"]) == plain(mariadb)


def test_a_topic_with_a_current_state_is_not_kept_as_text(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """What is kept as text would never reach it."""
    topic, table = f"{unique_name}.public.o_{unique_name}", f"technical.o_{unique_name}"
    topics.create(topic)
    one = {"id": 1, "note": "n", "amount": None}
    topics.produce(topic, key(topic, 1), record(envelope(topic), change(10, one)))
    topics.flush()
    lake.drain()
    lake.settings = lake.settings.model_copy(update={"lakehouse_text": ".*"})
    topics.produce(topic, plain({"id": 1}), plain(change(20, one, "u")))
    topics.flush()
    lake.drain()
    ((reason,),) = lake.rows(f"select reason from tidings.set_aside where topic = '{topic}'")
    assert f"TIDINGS_LAKEHOUSE_TEXT names {topic}" in reason
    lake.settings = lake.settings.model_copy(update={"lakehouse_text": None})
    lake.drain()
    assert lake.rows(f"select __lsn from {table}") == [(10,)]
