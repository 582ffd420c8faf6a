"""`tidings init` on a schema unlike the shop's: what it writes runs, and a second run touches nothing that was edited."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tidings_cli.main import main
from tidings_cli.project import command
from tidings_domain.starting.database import Server, read_server

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "examples/rental/schema.sql"
Init = Callable[..., str]


@pytest.fixture
def init(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Init:
    """Runs the command in an empty directory, or in the project; gives what it says."""
    monkeypatch.delenv("TIDINGS_DATABASE", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0) -> str:
        assert main(["init", *arguments]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return run


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def _without_tidings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}


def tree(project: Path) -> dict[str, str]:
    return {
        path.relative_to(project).as_posix(): path.read_text()
        for path in project.rglob("*")
        if path.is_file()
    }


def test_a_project_of_a_schema_that_nobody_has_seen(
    pg_database: str, tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(pg_database, SCHEMA.read_text())
    told = init(pg_database, "--name", "rental")
    project = tmp_path / "rental"

    # What it saw, and why it chose.
    for line in (
        "Loan (rental/loan.py): rental.loans",
        "  items: rental.loan_items, because its primary key begins with the other's",
        "  member: refers to rental.members\n",
        "  parent: refers to rental.categories, which may be missing",
        "note: rental.loans is partitioned",
        "note: rental.visits has no primary key and no replica identity: it is not captured",
        "note: rental.corrections has no primary key but a replica identity",
        "note: rental.members.deleted_at looks like a soft deletion",
        "note: rental.loans.total_cents looks like money in cents",
        "note: rental.items: column search is generated",
        "note: rental.payments: foreign key member_id stands on some of its partitions only",
        "note: rental.categories refers to itself",
    ):
        assert line in told
    # Foreign keys that stand on every partition are the table's; of one that some lack nobody promises the row.
    assert 'reference(MemberRef, by="member_id", required=True)' in (project / "rental/loan.py").read_text()
    assert 'reference(MemberRef, by="member_id")' in (project / "rental/payment.py").read_text()

    connector = json.loads((project / "connector.json").read_text())["config"]
    assert connector["publish.via.partition.root"] == "true"
    assert set(connector["table.include.list"].split(",")) == {
        f"rental.{name}" for name in ("categories", "corrections", "items", "loan_items", "loans", "members", "payments")
    }  # fmt: skip
    explained = (project / "connector.md").read_text()
    assert [name for name in connector if f"| `{name}` |" not in explained] == []
    assert "rental.visits" in explained
    password = psycopg.conninfo.conninfo_to_dict(pg_database)["password"]
    assert isinstance(password, str)
    assert connector["database.password"] == "${env:TIDINGS_DATABASE_PASSWORD}"
    assert "PASSWORD=${PGPASSWORD:-}\n" in (project / ".env").read_text()

    # The worker's own topics are not among the source's, which the lake reads.
    assert "storage.topic=rental." not in (project / "worker.properties").read_text()

    done = run_tests(project)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
    # It is as a linter would have it: nothing is imported that is not used, and no line of a test leaves the screen.
    for arguments in (("check", "--select", "I,F"), ("format", "--check", "--line-length", "101")):
        linted = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--isolated", "--no-cache", "."],
            cwd=project, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert linted.returncode == 0, linted.stdout
    # What `make doctor` looks at is the database alone, as long as .env names nothing else.
    looked = subprocess.run(
        ["make", "doctor", f"BIN={Path(sys.executable).parent}"],
        cwd=project, env={**_without_tidings(), "PGPASSWORD": password}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert "looked at connector, database: " in looked.stdout
    # It can fail.
    rules = project / "rental/loan.py"
    kept = rules.read_text()
    rules.write_text(kept.replace("if change.created:", "if change.deleted:"))
    assert run_tests(project).returncode == 1
    rules.write_text(kept)


def test_a_second_run_adds_what_is_new_and_touches_nothing_that_was_edited(
    pg_database: str, tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(pg_database, SCHEMA.read_text())
    init(pg_database, "--name", "rental")
    project = tmp_path / "rental"
    monkeypatch.chdir(project)
    shutil.rmtree(project / "rental/__pycache__", ignore_errors=True)
    before = tree(project)
    assert "since the last run: the tables are as they were" in init(pg_database)
    assert tree(project) == before

    # A person goes on: edits a module, writes a contract, removes what is not wanted.
    edited = before["rental/member.py"].replace("    phones: list[str]\n", "")
    (project / "rental/member.py").write_text(edited)
    (project / "values.yaml").write_text("mine: true\n")
    (project / "rental/payment.py").unlink()
    (project / "tests/test_payment.py").unlink()
    contract = json.loads(before["schemas/rental/member-created/v1.avsc"])
    contract["fields"].append(
        {"name": "name", "type": "string", "doc": "What they are called.", "default": ""}
    )
    (project / "schemas/rental/member-created/v1.avsc").write_text(json.dumps(contract))
    execute(
        pg_database,
        "CREATE TABLE rental.shops (id int PRIMARY KEY, city text NOT NULL);"
        " ALTER TABLE rental.members ADD COLUMN nickname text; ALTER TABLE rental.categories ADD COLUMN shelf text",
    )
    told = init(pg_database)
    for line in (
        "since the last run: new table rental.shops",
        "since the last run: new column rental.members.nickname: str | None",
        "new: rental/shop.py",
        "new: schemas/rental/shop-created/v1.avsc",
        "renewed: rental/category.py",
        "renewed: connector.json",
        "left as it is, because it was edited (it would be written differently today): rental/member.py",
    ):
        assert line in told
    after = tree(project)
    assert after["rental/member.py"] == edited
    assert after["values.yaml"] == "mine: true\n"
    assert "rental/payment.py" not in after
    assert "shelf: str | None" in after["rental/category.py"]
    assert "rental.shops" in after["connector.json"]
    assert 'name: str = ""' in after["rental/events.py"], (
        "the classes are those of the contracts as they are now"
    )
    assert "class ShopCreatedV1" in after["rental/events.py"]
    done = run_tests(project)
    assert done.returncode == 0, done.stdout

    # One's own module for a table's aggregate.
    (project / "rental/shop.py").rename(project / "rental/branches.py")
    (project / "tests/test_shop.py").unlink()
    init(pg_database)
    assert not (project / "rental/shop.py").exists()


def test_the_example_is_what_init_makes_and_what_a_person_has_edited(
    pg_database: str, tmp_path: Path, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(pg_database, SCHEMA.read_text())
    project = tmp_path / "rental"
    shutil.copytree(
        SCHEMA.parent, project, ignore=shutil.ignore_patterns("__pycache__", ".*_cache", "*.egg-info")
    )
    before = tree(project)

    # The server's address stands in the files; the example was made on another.
    def server_of_the_example(url: str) -> Server:
        real = read_server(url)
        return Server("127.0.0.1", 5432, "postgres", "rental", version=16, wal_level=real.wal_level)

    monkeypatch.setattr(command, "read_server", server_of_the_example)
    said = init(pg_database, "--into", str(project))
    assert "since the last run: the tables are as they were" in said
    after = tree(project)
    assert after == before, f"init writes it differently now: copy {project} over {SCHEMA.parent}"
    assert "left as it is" not in said
    removed = [path for path in json.loads(after[".tidings-init.json"])["files"] if path not in after]
    assert "schemas/rental/loan-created/v1.avsc" in removed, "what a person has removed stays removed"


def test_what_is_in_the_way(pg_database: str, tmp_path: Path, init: Init) -> None:
    execute(pg_database, "CREATE TABLE a (id int PRIMARY KEY)")
    (tmp_path / "Makefile").write_text("mine:\n")
    told = init(pg_database, "--name", "a", "--into", ".", code=1)
    assert "Makefile is there already, and nothing was written" in told
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]
    assert "where is the database" in init(code=2)
    assert "one of the two" in init(pg_database, "--registry", "http://127.0.0.1:1", code=2)
    assert "lower case with hyphens" in init(pg_database, "--name", "A b", code=2)
    assert "sesame" not in init("postgresql://u:sesame@127.0.0.1:1/d", code=1)
