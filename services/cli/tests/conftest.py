"""What tests of the doctor share: a connector's and a worker's files, and the command itself."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_cli.main import main

Write = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path, unique_name: str) -> Write:
    """Writes a connector's file and perhaps a worker's; gives the options that name them."""

    def files(url: str, bootstrap: str | None = None, **options: str) -> list[str]:
        place = conninfo_to_dict(url)
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": place["host"],
            "database.port": place["port"],
            "database.user": place["user"],
            "database.password": place["password"],
            "database.dbname": place["dbname"],
            "topic.prefix": unique_name,
            "slot.name": unique_name,
            "provide.transaction.metadata": "true",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        connector, worker = tmp_path / "connector.json", tmp_path / "worker.properties"
        connector.write_text(json.dumps({"name": unique_name, "config": config}))
        given = ["--connector", str(connector)]
        if bootstrap is not None:
            worker.write_text(
                f"bootstrap.servers={bootstrap}\ngroup.id={unique_name}\n"
                "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
                "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
                + "".join(
                    f"{kind}.storage.topic={unique_name}-{kind}\n" for kind in ("config", "offset", "status")
                )
            )
            given += ["--worker", str(worker)]
        return given

    return files


@pytest.fixture
def doctor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Sequence[str]], Any]:
    """Runs the command; exit code, and the findings' codes."""
    for name in ("TIDINGS_KAFKA", "TIDINGS_SOURCE", "TIDINGS_REGISTRY", "TIDINGS_LAKEHOUSE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)

    def call(arguments: Sequence[str]) -> tuple[int, set[str]]:
        code = main(["doctor", *arguments, "--json"])
        said = json.loads(capsys.readouterr().out)
        for one in said["findings"]:
            assert one["what"]
            assert one["why"]
            assert one["mend"]
        return code, {one["code"] for one in said["findings"]}

    return call
