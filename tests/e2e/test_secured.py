"""The whole pipeline where everything asks for a login: Kafka (TLS, SCRAM, ACLs) and the registry (TLS, password).

The truth it holds: with the rights of docs/security.md and no others every service does its work, as many events come as
the database has facts, and the lake equals the database; a right or a password that is missing is an error that says which;
no secret stands on a command line or in a log.
"""

import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import acls
from tests.e2e.secured_pipeline import SERVICES, SecuredPipeline

from tidings_shop.demo.figures import Figures
from tidings_shop.demo.pipeline import Options
from tidings_shop.demo.run import Demo
from tidings_shop.demo.services import installed

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]
END_SECONDS = 100


def command_lines() -> str:
    """The command lines of all processes."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return "\n".join(found)


class SecuredDemo(Demo):
    """The demo on the secured servers."""

    pipeline: SecuredPipeline

    def __init__(self, directory: Path) -> None:
        options, figures = Options(directory, seconds=6.0, rate=15.0, seed=7), Figures()
        super().__init__(options, figures, threading.Event())
        self.directory = directory
        self.command_lines = ""
        self.pipeline = SecuredPipeline(options, figures, self._pause)

    def _drain(self, summary):  # type: ignore[no-untyped-def]
        remarks = super()._drain(summary)
        self.command_lines = command_lines()
        return remarks


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDemo]:
    made = SecuredDemo(tmp_path_factory.mktemp("secured"))
    with contextlib.closing(made):
        made.pipeline.start_servers(made.directory)
        yield made
        for log in sorted((made.directory / "logs").glob("*.log")):
            print(
                f"--- end of {log.name}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-40:])
            )


def test_the_whole_pipeline_with_the_rights_that_are_documented(demo: SecuredDemo) -> None:
    verdict = demo.run()
    assert verdict.problems() == []
    assert sum(event.expected for event in verdict.events) > 20
    logs = {log.name: log.read_text("utf-8", "replace") for log in (demo.directory / "logs").glob("*.log")}
    assert "SparkSubmit" in demo.command_lines
    for secret in demo.pipeline.hidden:
        assert secret not in demo.command_lines
        assert [name for name, text in logs.items() if secret in text] == []
    for service in demo.pipeline.services.values():
        service.stop()


def run(demo: SecuredDemo, service: str, *command: str, **changes: str) -> tuple[int, str]:
    """A service's (or another command's) exit code and log, which must end by itself."""
    pipeline = demo.pipeline
    default = {
        "capture": ["tidings-capture", str(demo.directory / "worker.properties")],
        "lakehouse": ["tidings-lakehouse", "run"],
    }.get(service, [f"tidings-{service}"])
    name, *arguments = list(command) or default
    environment = pipeline.environment() | pipeline.login(service) | {"TIDINGS_HTTP_PORT": "0"} | changes
    done = subprocess.run(
        [installed(name), *arguments],
        env=environment,
        cwd=demo.directory,
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        check=False,
    )
    assert not any(secret in done.stderr + done.stdout for secret in pipeline.hidden)
    return done.returncode, done.stderr


COMMANDS = {
    "sequencer": ("sequencer", ()),
    "translator": ("translator", ()),
    "lakehouse": ("lakehouse", ()),
    "generations": ("translator", ("tidings-translator", "generations", "status")),
    "dead-letters": ("translator", ("tidings-translator", "dead-letters", "list")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_password_is_an_error_that_names_the_setting_and_the_user(
    demo: SecuredDemo, tmp_path: Path, command: str
) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    service, arguments = COMMANDS[command]
    code, said = run(demo, service, *arguments, TIDINGS_KAFKA_SASL_PASSWORD_FILE=str(tmp_path / "wrong"))
    assert code == 1, said
    assert f"refuse user '{service}'" in said
    assert "TIDINGS_KAFKA_SASL_PASSWORD_FILE" in said


@pytest.mark.parametrize("service", ["translator", "lakehouse"])
def test_the_registrys_wrong_password_too(demo: SecuredDemo, tmp_path: Path, service: str) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    code, said = run(demo, service, TIDINGS_REGISTRY_PASSWORD_FILE=str(tmp_path / "wrong"))
    assert code == 1, said
    assert re.search(r"to user 'reg': TIDINGS_REGISTRY_USERNAME, TIDINGS_REGISTRY_PASSWORD_FILE", said)


def right(service: str, resource: str, name: str) -> acls.Acl:
    return next(a for a in acls.ACLS if (a.service, a.resource, a.name) == (service, resource, name))


MISSING = {
    "sequencer's id": (
        right("sequencer", "transactional id", "tidings-sequencer-shop"),
        r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "tidings-sequencer-shop",
    ),
    "sequencer's topics": (
        right("sequencer", "topic", "shop."),
        r"TOPIC_AUTHORIZATION_FAILED",
        "shop.transaction",
    ),
    "translator's topics": (
        right("translator", "topic", "shop."),
        r"TOPIC_AUTHORIZATION_FAILED",
        "topic shop.",
    ),
}


@pytest.mark.parametrize("what", MISSING)
def test_a_missing_right_is_an_error_that_names_it(demo: SecuredDemo, what: str) -> None:
    acl, code_word, name = MISSING[what]
    demo.pipeline.rights.take(acl)
    try:
        code, said = run(demo, acl.service)
    finally:
        demo.pipeline.rights.grant([acl])
    assert code != 0, said
    assert re.search(code_word, said, re.IGNORECASE)
    assert name in said
    assert f"user '{acl.service}'" in said


def test_the_documentation_has_the_rights_that_this_test_grants() -> None:
    page = acls.PAGE.read_text()
    assert acls.page_with_table(page) == page, "python -m tests.e2e.acls"
    assert {acl.service for acl in acls.ACLS} == set(SERVICES)
