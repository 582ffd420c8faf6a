"""The chart's registration of connectors, against a real worker: what is gone from the directory is removed."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_stack.capture import CaptureWorker as Worker

PROGRAM = Path(__file__).parents[4] / "helm/tidings/files/register_connector.py"
pytestmark = pytest.mark.stack


@pytest.fixture
def register(worker: Worker, tmp_path: Path) -> Any:
    """Runs the registration of these connectors."""

    def run(owner: Any, configs: Any, *, on_remove: str = "keep") -> Any:
        for file in tmp_path.glob("*.json"):
            file.unlink()
        for name, config in configs.items():
            (tmp_path / f"{name}.json").write_text(json.dumps({**config, "tidings.managed.by": owner}))
        return subprocess.run(
            [sys.executable, PROGRAM, worker.url, tmp_path],
            env={"TIDINGS_REGISTER_OWNER": owner, "TIDINGS_REGISTER_ON_REMOVE": on_remove,
                 "TIDINGS_REGISTER_SECONDS": "60"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )  # fmt: skip

    return run


def test_what_is_gone_is_removed_with_its_slot_or_names_it_and_nothing_of_others_is_touched(
    register: Any,
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")

    def of(part: Any) -> dict[str, Any]:
        name = f"{unique_name}_{part}"
        return {**connector_config, "topic.prefix": name, "slot.name": name}

    def slots() -> set[Any]:
        return {name for (name,) in sql("SELECT slot_name FROM pg_replication_slots")}

    kept, dropped, persons = (f"{unique_name}_{part}" for part in ("kept", "dropped", "persons"))
    create(of("persons"))
    done = register("data/shop", {kept: of("kept"), dropped: of("dropped")})
    assert done.returncode == 0, done.stderr
    assert {kept, dropped, persons} <= slots()
    assert worker.request("DELETE", f"/connectors/{dropped}/slot")[0] == 400, "it runs"

    # Another release has none of these; and may not take a name.
    done = register("data/other", {})
    assert done.returncode == 0, done.stderr
    taken = register("data/other", {kept: of("kept")})
    assert taken.returncode == 1
    assert f"{kept}: the worker has a connector of this name that belongs to data/shop" in taken.stderr
    assert set(worker.request("GET", "/connectors")[1]) >= {kept, dropped, persons}

    done = register("data/shop", {kept: of("kept")}, on_remove="drop")
    assert done.returncode == 0, done.stderr
    assert f"{dropped}: removed, and replication slot {dropped} of database" in done.stdout
    assert {kept, persons} <= slots()
    assert dropped not in slots()

    done = register("data/shop", {})
    assert done.returncode == 0, done.stderr
    assert f"{kept}: ITS REPLICATION SLOT IS KEPT" in done.stdout
    assert f"SELECT pg_drop_replication_slot('{kept}')" in done.stdout
    assert {kept, persons} <= slots()
    remaining = set(worker.request("GET", "/connectors")[1])
    assert persons in remaining
    assert not remaining & {kept, dropped}
    sql(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '"
        + kept
        + "'"
    )
