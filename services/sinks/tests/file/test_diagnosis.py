"""`tidings doctor` on sinks of lines; no client of another sink is loaded for it."""

import json
import subprocess
import sys
from pathlib import Path

from diagnosing import Diagnose


def test_what_is_wrong_with_a_file(tmp_path: Path, diagnose: Diagnose) -> None:
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "a" / "lines")}
    assert set(diagnose(config)) == {"no-directory"}
    (tmp_path / "a").mkdir()
    assert diagnose(config) == {}
    assert set(diagnose(config | {"file": str(tmp_path / "a")})) == {"not-writable"}
    assert diagnose({"connector.class": "FileStreamSink"}) == {}  # standard output


def test_only_the_client_of_the_sink_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "sink.json"
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "lines"), "topics": "t"}
    file.write_text(json.dumps({"name": "sink", "config": config}))
    program = (
        "import sys\nfrom tidings_cli.doctor.command import main\n"
        f"code = main(['--connector', {str(file)!r}])\n"
        "print([one for one in ('pymongo', 'neo4j', 'duckdb', 'pyarrow', 'tidings_sinks.jdbc.databases.mariadb', 'tidings_sinks.search.client') if one in sys.modules])\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
