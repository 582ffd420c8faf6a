"""What clients of the REST API get: the bodies' form, secrets, warnings, a connector that is paused from the start."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tidings_connect.config.secrets import MASK, with_stored_secrets
from tidings_connect.errors import OptionError
from tidings_connect.rest.warnings import header_value, warn
from tidings_stack.capture import CaptureWorker as Worker

PLUGIN = "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config/validate"
KEYLESS = 'public.kéy"less'


def ask(
    worker: Worker,
    method: Any,
    path: Any,
    body: Any = None,
    content_type: str = "application/json",
    **more: Any,
) -> tuple[Any, ...]:
    """Status, headers and text of an answer; `more` are further headers of the request."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = more if data is None else {"Content-Type": content_type, **more}
    request = urllib.request.Request(worker.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def warnings_of(answer: Any) -> list[Any]:
    return [text.encode("latin-1").decode() for text in answer[1].get_all("Warning", [])]


def test_answers_are_compact_as_scripts_expect_them(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config)
    for path in (f"/connectors/{name}/status", "/connectors?expand=status", f"/connectors/{name}/none", "/"):
        text = ask(worker, "GET", path)[2]
        assert text == json.dumps(json.loads(text), separators=(",", ":"))
    assert '"state":"RUNNING"' in ask(worker, "GET", f"/connectors/{name}/status")[2]


def test_a_mask_for_which_nothing_is_stored_is_refused(
    worker: Worker, connector_config: dict[str, str], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    name = connector_config["topic.prefix"]
    url = "value.converter.schema.registry.url"
    masked = connector_config | {
        "database.password": MASK,
        url: MASK,
        "column.mask.hash.v2.MD5.with.salt.********": "a.b",
    }
    for method, path, body in (
        ("PUT", f"/connectors/{name}/config", masked),
        ("POST", "/connectors", {"name": name, "config": masked}),
    ):
        status, _, text = ask(worker, method, path, body)
        assert status == 400
        for option in ("database.password", url, "column.mask.hash.v2.MD5.with.salt.********"):
            assert option in text
    assert ask(worker, "GET", f"/connectors/{name}")[0] == 404
    stored = connector_config | {"topic.prefix": name}
    assert with_stored_secrets(stored | {"database.password": MASK}, stored) == stored
    with pytest.raises(OptionError, match=r"signal\.consumer\.sasl\.jaas\.config"):
        with_stored_secrets(stored | {"signal.consumer.sasl.jaas.config": MASK}, stored)


def test_secrets_are_shown_where_the_worker_s_properties_say_so(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    """As in Kafka Connect: Terraform's provider waits for the configuration that it has sent."""
    worker = start_worker(worker_properties("shown", tidings_rest_secrets="shown"))
    try:
        name = connector_config["topic.prefix"]
        sent = connector_config | {"name": name}
        status, _, text = ask(
            worker, "POST", "/connectors", {"name": name, "config": sent, "initial_state": "STOPPED"}
        )
        assert (status, json.loads(text)["config"]) == (201, sent)
        assert json.loads(ask(worker, "GET", f"/connectors/{name}/config")[2]) == sent
        assert json.loads(ask(worker, "GET", "/connectors?expand=info")[2])[name]["info"]["config"] == sent
        changed = {"database.password": MASK, "heartbeat.interval.ms": "7"}
        assert json.loads(ask(worker, "PUT", f"/connectors/{name}/config", sent | changed)[2])["config"] == (
            sent | {"heartbeat.interval.ms": "7"}
        )
        wrong = ask(
            worker, "PUT", f"/connectors/{name}/config", sent | {"database.hostname": "nowhere.invalid"}
        )
        assert wrong[0] == 400
        assert sent["database.password"] not in wrong[2]
    finally:
        worker.end()


def test_a_connector_that_is_paused_from_the_start_has_no_task_until_it_runs(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = connector_config["topic.prefix"]
    body = {"name": name, "config": connector_config, "initial_state": "PAUSED"}
    status, _, text = ask(worker, "POST", "/connectors", body)
    try:
        assert (status, json.loads(text)["tasks"]) == (201, [])

        def states() -> tuple[Any, ...]:
            found = worker.request("GET", f"/connectors/{name}/status")[1]
            return found["connector"]["state"], [task["state"] for task in found["tasks"]]

        assert states() == ("PAUSED", [])
        assert worker.request("GET", f"/connectors/{name}/tasks") == (200, [])
        assert worker.request("POST", f"/connectors/{name}/tasks/0/restart")[0] == 404
        change = connector_config | {"heartbeat.interval.ms": "7"}
        assert worker.request("PUT", f"/connectors/{name}/config", change)[1]["tasks"] == []
        assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202
        worker.wait_task(name, "RUNNING")
        assert worker.request("PUT", f"/connectors/{name}/pause")[0] == 202
        worker.wait_task(name, "PAUSED")
        assert states() == ("PAUSED", ["PAUSED"])
    finally:
        worker.request("DELETE", f"/connectors/{name}")


def test_bodies_up_to_what_a_record_can_hold(worker: Worker, connector_config: dict[str, str]) -> None:
    name = connector_config["topic.prefix"]
    config = connector_config | {"producer.override.client.id": "x" * 1_040_000}
    body = {"name": name, "config": config, "initial_state": "STOPPED"}
    try:
        for padded in (b"", b" " * 3_000_000):
            status, _, text = ask(worker, "POST", "/connectors", json.dumps(body).encode() + padded)
            assert status == 201, text[:500]
            assert worker.request("DELETE", f"/connectors/{name}")[0] == 204
    finally:
        worker.request("DELETE", f"/connectors/{name}")
    status, headers, text = ask(worker, "POST", "/connectors", b'{"name":"x"' + b" " * 9_000_000 + b"}")
    assert (status, headers.get_content_type()) == (413, "application/json")
    assert json.loads(text)["error_code"] == 413


def test_a_patch_of_nothing_and_bodies_that_nobody_reads(worker: Worker) -> None:
    for body in (None, b"", b"null"):
        assert ask(worker, "PATCH", "/connectors/none/config", body)[0] == 404
    for method, path in (("POST", "/restart"), ("PUT", "/pause"), ("DELETE", "")):
        status, _, text = ask(worker, method, f"/connectors/none{path}", b"x", "application/json")
        assert (status, json.loads(text)["error_code"]) == (404, 404)
        assert ask(worker, method, f"/connectors/none{path}", b"x", "text/plain")[0] == 415


def test_a_page_of_another_origin_starts_nothing(worker: Worker, connector_config: dict[str, str]) -> None:
    """As a browser sends a form or a fetch of a page somewhere else; rest/test_origins.py has the cases."""
    name = connector_config["topic.prefix"]
    body = {"name": name, "config": connector_config, "initial_state": "STOPPED"}
    assert ask(worker, "POST", "/connectors", body, Origin="https://evil.example")[0] == 403
    assert ask(worker, "GET", f"/connectors/{name}")[0] == 404


@pytest.mark.parametrize("mode", ["all_tables", "filtered"])
def test_tables_that_an_application_could_not_update_any_more_are_named_before_the_start(
    worker: Worker, connector_config: dict[str, str], sql: Callable[..., list[tuple[Any, ...]]], mode: str
) -> None:
    """PostgreSQL refuses every UPDATE and DELETE of a table that is published with them and has no replica identity."""
    sql(
        "CREATE TABLE keyed (id int PRIMARY KEY)",
        'CREATE TABLE "kéy""less" (id int)',
        "CREATE TABLE identified (id int)",
    )
    name = connector_config["topic.prefix"]
    config = connector_config | {
        "name": name,
        "publication.autocreate.mode": mode,
        "replica.identity.autoset.values": "public.identified:FULL",
    }
    answer = ask(worker, "PUT", PLUGIN, config)
    assert json.loads(answer[2])["error_count"] == 0, "a warning refuses nothing"
    (warning,) = warnings_of(answer)
    assert warning.startswith(f'299 - "publication.autocreate.mode={mode}: ')
    assert 'every UPDATE and DELETE of public.kéy\\"less, the application' in warning
    assert "REPLICA IDENTITY FULL" in warning
    assert "keyed" not in warning
    assert "identified" not in warning
    try:
        created = ask(
            worker, "POST", "/connectors", {"name": name, "config": config, "initial_state": "STOPPED"}
        )
        assert (created[0], warnings_of(created)) == (201, [warning])
        changed = ask(worker, "PUT", f"/connectors/{name}/config", config | {"heartbeat.interval.ms": "7"})
        assert (changed[0], warnings_of(changed)) == (200, [warning])
        patched = ask(worker, "PATCH", f"/connectors/{name}/config", {"heartbeat.interval.ms": "8"})
        assert (patched[0], warnings_of(patched)) == (200, [warning])
        lines = [json.loads(line) for line in worker.log.read_text().splitlines() if f'"{name}"' in line]
        told = [line["warning"] for line in lines if "warning" in line]
        assert told
        assert all(KEYLESS in text for text in told)
        harmless = (
            {"publication.autocreate.mode": "disabled"},
            {"skipped.operations": "u,d,t"},
            {"publication.autocreate.mode": "filtered", "table.exclude.list": "public.k.*less"},
        )
        for options in harmless:
            assert warnings_of(ask(worker, "PUT", PLUGIN, config | options)) == []
    finally:
        worker.request("DELETE", f"/connectors/{name}")


def test_a_warning_is_one_header_whatever_it_names() -> None:
    assert header_value('a"b\\c\r\nX: y\0é') == '299 - "a\\"b\\\\c??X: y?é"'
    assert len(header_value("x" * 100_000)) < 4_100
    answer = warn(web.Response(), ["one", "two"], "c")
    assert answer.headers.getall("Warning") == ['299 - "one"', '299 - "two"']
