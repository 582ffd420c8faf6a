"""`tidings doctor` on a warehouse: its directories, its file, and who has that open."""

import subprocess
import sys
from pathlib import Path

import duckdb
from diagnosing import Diagnose


def test_what_is_wrong_with_a_warehouse(tmp_path: Path, diagnose: Diagnose) -> None:
    file = tmp_path / "a" / "shop.duckdb"
    config = {
        "connector.class": "tidings.WarehouseSinkConnector",
        "connection.url": f"jdbc:duckdb:{file}",
        "auto.create": "true",
        "tidings.snapshot.file": str(tmp_path / "b" / "shop.duckdb"),
    }
    assert "mkdir -p" in diagnose(config)["no-directory"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert diagnose(config) == {}
    assert not list((tmp_path / "a").iterdir())
    duckdb.connect(str(file)).close()
    assert diagnose(config) == {}
    program = f"import duckdb; c = duckdb.connect({str(file)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        assert set(diagnose(config)) == {"file-open"}
        other.communicate(b"\n")
    file.write_bytes(b"nothing of DuckDB" * 1000)
    assert set(diagnose(config)) == {"target"}
