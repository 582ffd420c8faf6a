"""The `tidings-schemas` command, on a repository of its own."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tidings_domain.contracts.cli import main

MakeContract = Callable[..., tuple[str, str]]
PYPROJECT = '[tool.tidings-schemas]\nschemas = "contracts"\nclasses = { depot = "classes.py" }\n'


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, box_contracts: dict[str, str]) -> Path:
    """A git repository with the box domain's contracts, committed."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    for path, text in box_contracts.items():
        file = tmp_path / "contracts" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_generate_and_check(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--check"]) == 1
    assert "classes.py does not fit the contracts: run `tidings-schemas generate`" in capsys.readouterr().err
    assert main(["generate"]) == 0
    assert main(["generate", "--check"]) == 0
    assert "class BoxPackedV2(BusinessEvent" in (repository / "classes.py").read_text()


def test_check_against_a_git_reference(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    assert main(["check", "--against", "HEAD"]) == 0
    file = repository / "contracts/depot/box-gone/v1.avsc"
    schema = json.loads(file.read_text())
    schema["fields"][0]["type"] = "string"
    file.write_text(json.dumps(schema))
    capsys.readouterr()
    assert main(["check", "--against", "HEAD"]) == 1
    assert (
        "depot.box-gone.v1: field 'box_id' was long and is string: make it a new major"
        in capsys.readouterr().err
    )


def test_check_against_a_directory(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    (repository / "contracts").rename(other)
    (repository / "contracts" / "depot").mkdir(parents=True)
    assert main(["check", "--against", str(other)]) == 1
    assert capsys.readouterr().err.count("the contract was removed") == 4
    assert main(["check", "--against", str(other), "--retired", "depot.box-gone.v1"]) == 1
    assert capsys.readouterr().err.count("the contract was removed") == 3


def test_an_unknown_reference_is_told(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--against", "no-such-branch"]) == 1
    assert (
        "'no-such-branch' cannot be read: it is neither a directory nor a git reference"
        in capsys.readouterr().err
    )


def test_a_domain_without_a_place_is_told(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "pyproject.toml").write_text("[tool.tidings-schemas]\nschemas = 'contracts'\n")
    assert main(["generate"]) == 1
    assert "does not say where the classes of domain 'depot' go" in capsys.readouterr().err


def test_register_needs_a_registry(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TIDINGS_REGISTRY", raising=False)
    assert main(["register"]) == 2
    assert "TIDINGS_REGISTRY" in capsys.readouterr().err
    assert main(["register", "--registry", "http://127.0.0.1:1/apis/ccompat/v7"]) == 1
    assert "http://127.0.0.1:1/apis/ccompat/v7 is not reachable" in capsys.readouterr().err


@pytest.mark.stack
def test_register_in_a_real_registry(
    repository: Path,
    registry_url: str,
    unique_name: str,
    make_contract: MakeContract,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Registering twice is one schema; an incompatible change is refused by the registry as well."""
    domain = unique_name.replace("_", "-")
    contracts = repository / "own"
    field = {"name": "id", "type": "long"}
    path, text = make_contract("thing-made", 1, field, domain=domain)
    file = contracts / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    register = ["--schemas", str(contracts), "register", "--registry", registry_url]
    assert main(register) == 0
    first = capsys.readouterr().out
    assert first.startswith(f"{domain}.thing-made.v1-value: schema ")
    assert main(register) == 0
    assert capsys.readouterr().out == first
    file.write_text(
        make_contract("thing-made", 1, field, {"name": "size", "type": "int", "default": 1}, domain=domain)[1]
    )
    assert main(register) == 0
    file.write_text(
        make_contract("thing-made", 1, field, {"name": "colour", "type": "string"}, domain=domain)[1]
    )
    capsys.readouterr()
    assert main(register) == 1
    assert f"{domain}.thing-made.v1-value" in capsys.readouterr().err
