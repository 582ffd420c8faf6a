"""The whole pipeline where everything asks for a login: Kafka (TLS, SCRAM, ACLs) and the registry (TLS, password).

The truth it holds: with the rights of docs/security.md and no others every service does its work, as many events come as
the database has facts, and the lake equals the database; a right or a password that is missing is an error that says which;
no secret stands on a command line or in a log.
"""

import contextlib
import functools
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.e2e import acls
from tests.e2e.secured_pipeline import ROTATES, SERVICES, SecuredPipeline

from tidings_shop.database import ShopDatabase
from tidings_shop.demo.pipeline import CONNECTOR, STAGES, Options
from tidings_shop.demo.run import Demo
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic
from tidings_stack.pipeline import pages
from tidings_stack.pipeline.figures import Figures
from tidings_stack.pipeline.services import Service, installed
from tidings_stack.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1200)]
END_SECONDS = 300
"""At most; a JVM starts and ends in a quarter of a minute where nothing else runs."""


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

    def events(self) -> int:
        """Business events that have come so far."""
        with self._figures.lock:
            return self._figures.business_by_version.total()

    def _drain(self, summary: Any) -> Any:
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


@pytest.mark.turns
def test_the_whole_pipeline_with_the_rights_that_are_documented(demo: SecuredDemo) -> None:
    verdict = demo.run()
    assert verdict.problems() == []
    assert sum(event.expected for event in verdict.events) > 20
    logs = {log.name: log.read_text("utf-8", "replace") for log in (demo.directory / "logs").glob("*.log")}
    assert "SparkSubmit" in demo.command_lines
    for secret in demo.pipeline.hidden:
        assert secret not in demo.command_lines
        assert [name for name, text in logs.items() if secret in text] == []
    demo.pipeline.services["lakehouse"].stop()


@pytest.fixture
def services(demo: SecuredDemo) -> Iterator[list[Service]]:
    """Capture, sequencer and translator, which run; nothing does afterwards."""
    if not demo.pipeline.services:
        demo.run()
        demo.pipeline.services["lakehouse"].stop()
    found = [demo.pipeline.services[name] for name in STAGES]
    try:
        yield found
    finally:
        for service in found:
            service.stop()


def test_a_right_that_captures_task_lacks_is_named_by_the_task(
    demo: SecuredDemo, services: list[Service]
) -> None:
    pipeline, acl = demo.pipeline, right("capture", "topic", "shop.")
    url = f"{services[0].url}/connectors/{CONNECTOR}"

    def task() -> dict[str, str]:
        answer = pages.read_json(f"{url}/status")
        assert isinstance(answer, dict)
        return answer["tasks"][0]

    pipeline.rights.take(acl)
    try:
        with psycopg.connect(pipeline.database_url, autocommit=True) as database:
            database.execute(
                "UPDATE products SET name = name || '!' WHERE id = (SELECT min(id) FROM products)"
            )
        wait_for("the task to fail", lambda: task()["state"] == "FAILED", 60)
        trace = task()["trace"]
    finally:
        pipeline.rights.grant([acl])
    # Whichever is refused first, the row's or the transaction's.
    assert re.search(r"user 'capture' lacks Write on topic shop\.(public\.products|transaction):", trace)
    connector = pipeline.connector()
    signals = {"signal.enabled.channels": "source,kafka", "signal.kafka.topic": "signals-of-others"}
    pages.put_json(f"{url}/config", connector | signals)
    wait_for("the refusal", lambda: "lacks Read on group kafka-signal" in task().get("trace", ""), 60)
    pages.put_json(f"{url}/config", connector)
    wait_for("the task to run", lambda: task()["state"] == "RUNNING", 60)


def test_passwords_change_under_a_running_pipeline(demo: SecuredDemo, services: list[Service]) -> None:
    """First to a wrong one, which is told in log, metric and readiness; then everywhere to another, and nothing is lost.

    Brokers want the password again after ten seconds, so that no connection lives longer.
    """
    if not ROTATES:
        pytest.skip("by hand: TIDINGS_ROTATION=1 pytest tests/e2e/test_secured.py")
    pipeline = demo.pipeline
    pids = [service.pid for service in services]
    registry = pipeline.registry_password
    pipeline.write_passwords(dict.fromkeys(STAGES, "not-the-password"), registry)
    for service in services:
        wait_for(f"{service.name} to be refused", functools.partial(is_refused, service), 60)
        assert metric(service.url) == 1
        assert "the brokers refuse the login" in service.log.read_text("utf-8", "replace")
    so_far = demo.events()
    expected = customers(pipeline.database_url, 8)
    pipeline.rotate()
    with psycopg.connect(pipeline.database_url, autocommit=True) as database:
        # Its rows need a new schema, for which the registry is asked with the new password.
        database.execute("ALTER TABLE products ADD COLUMN rotated text")
        database.execute("UPDATE products SET rotated = 'yes'")
    expected += customers(pipeline.database_url, 9)
    wait_for("all events", lambda: demo.events() == so_far + expected, 120)
    for service in services:
        wait_for(f"{service.name} to be ready", service.is_ready, 60)
        assert metric(service.url) == 0
    assert [service.pid for service in services] == pids
    logs = {service.log.name: service.log.read_text("utf-8", "replace") for service in services}
    assert [name for secret in pipeline.hidden for name, text in logs.items() if secret in text] == []


def is_refused(service: Service) -> bool:
    """Whether it says so in its readiness, with the user and the setting."""
    settings = "sasl.jaas.config" if service.name == "capture" else "TIDINGS_KAFKA_SASL_PASSWORD_FILE"
    said = rf"login: the brokers refuse user '{service.name}': .*invalid credentials.*{settings}"
    return re.search(said, pages.unready(service.url) or "") is not None


def customers(database_url: str, seed: int) -> int:
    """Some transactions; how many events they must give."""
    summary = TrafficSummary(seed)
    with ShopDatabase(database_url) as database:
        run_traffic(database, prepare_plan(database, seed, rate=20.0), summary, rate=20.0, seconds=1.5)
    facts = sum(summary.facts.values()) + summary.facts["OrderPlaced"]  # which has two versions
    assert facts
    return facts


def metric(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("tidings_kafka_login_refused ")).split()[1])


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


def each(names: Iterable[str], always: set[str]) -> list[Any]:
    """The names, of which those not always taken are for `--long`: a process each, and mostly a JVM."""
    return [pytest.param(name, marks=() if name in always else pytest.mark.long) for name in names]


@pytest.mark.parametrize("command", each(COMMANDS, {"sequencer", "lakehouse"}))
def test_a_wrong_password_is_an_error_that_names_the_setting_and_the_user(
    demo: SecuredDemo, tmp_path: Path, command: str
) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    service, arguments = COMMANDS[command]
    code, said = run(demo, service, *arguments, TIDINGS_KAFKA_SASL_PASSWORD_FILE=str(tmp_path / "wrong"))
    assert code == 1, said
    assert f"refuse user '{service}'" in said
    assert "TIDINGS_KAFKA_SASL_PASSWORD_FILE" in said


@pytest.mark.parametrize("service", each(["translator", "lakehouse"], {"translator"}))
def test_the_registrys_wrong_password_too(demo: SecuredDemo, tmp_path: Path, service: str) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    code, said = run(demo, service, TIDINGS_REGISTRY_PASSWORD_FILE=str(tmp_path / "wrong"))
    assert code == 1, said
    assert re.search(r"to user 'reg': TIDINGS_REGISTRY_USERNAME, TIDINGS_REGISTRY_PASSWORD_FILE", said)


def right(service: str, resource: str, name: str) -> acls.Acl:
    return next(a for a in acls.ACLS if (a.service, a.resource, a.name) == (service, resource, name))


MISSING = {
    "capture's group": (
        right("capture", "group", "shop-connect"),
        r"GROUP_AUTHORIZATION_FAILED",
        "lacks Read on group shop-connect:",
    ),
    "capture's storage topics": (
        right("capture", "topic", "shop-connect-"),
        r"TOPIC_AUTHORIZATION_FAILED",
        "shop-connect-configs",
    ),
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
    "lakehouse's topics": (
        right("lakehouse", "topic", "shop."),
        r"TopicAuthorizationException",
        "shop.transaction",
    ),
}


@pytest.mark.parametrize(
    "what", each(MISSING, {"capture's group", "sequencer's topics", "lakehouse's topics"})
)
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
