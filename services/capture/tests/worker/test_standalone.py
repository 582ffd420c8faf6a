"""A standalone worker: connectors from files, offsets in the file that Kafka Connect keeps them in."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import OffsetError, WorkerConfigError
from tidings_connect.herder.files import read_connector_file
from tidings_connect.storage.offset_file import OffsetFile, decode_offsets, encode_offsets, read_offsets
from tidings_stack.capture import CaptureWorker as Worker

REAL = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f"
    "724900097468726573686f6c6478703f4000000000000c77080000001000000001757200025b42acf317f8060854e002"
    "000078700000002a5b22736131373935323833333033222c7b22736572766572223a2273613137393532383333303322"
    "7d5d7571007e00020000007d7b226c736e5f70726f63223a3232323137333931322c226c736e5f6576656e74735f7072"
    "6f636573736564223a312c226d65737361676554797065223a22494e53455254222c226c736e223a3232323137333931"
    "322c2274784964223a383232362c2274735f75736563223a313739353238333338333533323234387d78"
)
"""What Kafka Connect 4.3.1 wrote for a Debezium connector."""


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=300), max_size=30))
def test_what_is_written_is_read_back(offsets: Any) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


def test_a_real_file() -> None:
    found = decode_offsets(REAL)
    ((key, value),) = found.items()
    assert json.loads(key)[1] == {"server": json.loads(key)[0]}
    assert json.loads(value)["lsn"] > 0
    # Java writes the same of the same map.
    assert encode_offsets(found) == REAL


def test_deleted_offsets_and_repeated_arrays_and_an_empty_file() -> None:
    assert decode_offsets(encode_offsets({b"a": b"1", b"b": None})) == {b"a": b"1"}
    assert decode_offsets(b"") == {}
    one = encode_offsets({b"a": b"1", b"b": b"2"})
    third = one.index(b"\x75\x71\x00\x7e\x00\x02\x00\x00\x00\x012")
    again = one[:third] + b"\x71\x00\x7e\x00\x04" + one[third + 11 :]
    assert decode_offsets(again) == {b"a": b"1", b"b": b"1"}


@pytest.mark.parametrize("length", range(1, len(encode_offsets({b"key": b"value"}))))
def test_a_damaged_file_is_told(length: int, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_bytes(encode_offsets({b"key": b"value"})[:length])
    with pytest.raises(OffsetError, match=re.escape(str(file))):
        read_offsets(file)


def test_tasks_of_one_worker_share_the_file(tmp_path: Path) -> None:
    path, stored = tmp_path / "offsets", []

    def write(task: Any) -> None:
        for number in range(20):
            OffsetFile(path).put("", f"{task}".encode(), f"{number}".encode(), lambda: stored.append(1))

    threads = [threading.Thread(target=write, args=(task,)) for task in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_offsets(path) == {f"{task}".encode(): b"19" for task in range(4)}
    assert len(stored) == 80


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OffsetError, match="nowhere/offsets"):
        OffsetFile(tmp_path / "nowhere" / "offsets").put("", b"k", b"v", lambda: None)


def test_connector_files(tmp_path: Path) -> None:
    posted, flat, properties = (tmp_path / n for n in ("a.json", "b.json", "c.properties"))
    posted.write_text('{"name":"a","config":{"tasks.max":1,"x":null},"initial_state":"STOPPED"}')
    flat.write_text('{"name":"b","slot.name":"s"}')
    properties.write_text("name=c\nslot.name=s\n")
    found = [read_connector_file(path) for path in (posted, flat, properties)]
    assert [f.name for f in found] == ["a", "b", "c"]
    assert found[0].config == {"name": "a", "tasks.max": "1"}
    assert [f.initial_state for f in found] == ["STOPPED", None, None]
    for text in ("[]", "{", "{}", '{"name":"x","config":{"a":[]}}'):
        posted.write_text(text)
        with pytest.raises(WorkerConfigError, match=r"a\.json"):
            read_connector_file(posted)
    with pytest.raises(WorkerConfigError, match=r"none\.json"):
        read_connector_file(tmp_path / "none.json")


def test_which_properties_are_a_standalone_worker() -> None:
    file = {"bootstrap.servers": "k:1", "offset.storage.file.filename": "/tmp/o"}
    assert read_worker_config(file).offset_file == "/tmp/o"
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    assert read_worker_config(file | topics | {"group.id": "g"}).offset_file is None
    with pytest.raises(WorkerConfigError, match=r"group\.id"):
        read_worker_config({"bootstrap.servers": "k:1"})
    with pytest.raises(WorkerConfigError, match="distributed"):
        read_worker_config(file | {"exactly.once.source.support": "enabled"})


@pytest.fixture
def standalone(worker_properties: Callable[..., Path], unique_name: str, tmp_path: Path) -> Any:
    """Properties without a group, whose offsets are in a file."""
    path = worker_properties(f"standalone-{unique_name}")
    distributed = ("group.id", "config.storage", "status.storage", "offset.storage")
    lines = [line for line in path.read_text().splitlines() if not line.startswith(distributed)]
    lines.append(f"offset.storage.file.filename={tmp_path / 'offsets'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_worker_starts_its_files_and_goes_on_where_it_was(
    standalone: Any,
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
    wait_records: Callable[[str, int], list[Any]],
    tmp_path: Path,
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": unique_name, "config": connector_config}))
    for number in (2, 3):
        worker = start_worker(standalone, file)
        worker.wait_task(unique_name, "RUNNING")
        sql(f"INSERT INTO a VALUES ({number})")
        records = wait_records(f"{unique_name}.public.a", number)
        assert [(r.value["op"], r.value["after"]["id"]) for r in records] == [("r", 1), ("c", 2), ("c", 3)][
            :number
        ]
        if number == 2:
            assert worker.stop() == 0
    assert worker.request("PUT", f"/connectors/{unique_name}/pause")[0] == 202
    worker.wait_task(unique_name, "PAUSED")
    status, offsets = worker.request("GET", f"/connectors/{unique_name}/offsets")
    assert (status, offsets["offsets"][0]["partition"]) == (200, {"server": unique_name})
    assert worker.request("PUT", f"/connectors/{unique_name}/stop")[0] == 204
    moved = offsets["offsets"] + [{"partition": {"server": "other"}, "offset": {"lsn": 1}}]
    assert worker.request("PATCH", f"/connectors/{unique_name}/offsets", {"offsets": moved})[0] == 200
    assert len(worker.request("GET", f"/connectors/{unique_name}/offsets")[1]["offsets"]) == 2
    gone = {"offsets": [{"partition": {"server": "other"}, "offset": None}]}
    assert worker.request("PATCH", f"/connectors/{unique_name}/offsets", gone)[0] == 200
    assert worker.request("DELETE", f"/connectors/{unique_name}")[0] == 204
    assert worker.request("GET", "/connectors") == (200, [])
    assert worker.stop() == 0
    ((key, value),) = read_offsets(tmp_path / "offsets").items()
    assert json.loads(key) == [unique_name, {"server": unique_name}]
    assert json.loads(value)["lsn"] > 0


def test_files_are_for_standalone_workers(
    worker_properties: Callable[..., Path], unique_name: str, tmp_path: Path
) -> None:
    command = Path(sys.executable).with_name("tidings-capture")
    asked = [str(command), str(worker_properties(f"group-{unique_name}")), str(tmp_path / "c.json")]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "connector files are for a standalone worker" in done.stderr
