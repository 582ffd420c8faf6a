"""`tidings doctor` on a sink's configuration."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tidings_cli.main import main

Diagnose = Callable[[Mapping[str, str]], dict[str, str]]
"""What is found, with what mends it, by code."""


def diagnosing(directory: Path, capsys: pytest.CaptureFixture[str]) -> Diagnose:
    """Runs the command on a file in the directory."""

    def run(config: Mapping[str, str]) -> dict[str, str]:
        file = directory / "sink.json"
        file.write_text(json.dumps({"name": "sink", "config": {"topics": "t", **config}}))
        capsys.readouterr()
        code = main(["doctor", "--connector", str(file), "--json"])
        said = json.loads(capsys.readouterr().out)
        assert code == (3 if said["errors"] else 0)
        for one in said["findings"]:
            assert one["place"] == "sink", one
            assert one["what"].startswith("sink: ")
            assert one["why"]
            assert one["mend"]
        assert "secret-word" not in str(said)
        return {one["code"]: f"{one['what']} | {one['mend']}" for one in said["findings"]}

    return run


@pytest.fixture
def diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    for name in ("TIDINGS_KAFKA", "TIDINGS_SOURCE", "TIDINGS_REGISTRY", "TIDINGS_LAKEHOUSE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    return diagnosing(tmp_path, capsys)
