"""Who is let in at the REST API: TLS with and without client certificates, basic authentication, JAAS files."""

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tidings_connect.config.rest.guesses import Guesses
from tidings_connect.config.rest.security import authentication, read_rest_security
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import WorkerConfigError
from tidings_connect.herder.herder import Herder
from tidings_connect.worker import serve_rest
from tidings_service import Health, serve_application
from tidings_stack.secured.authority import Authority

BASIC = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


@asynccontextmanager
async def served(properties: Mapping[str, str], guesses: Guesses | None = None) -> AsyncIterator[str]:
    """A page behind what the properties say; its URL."""
    security = read_rest_security(properties, {})
    app = web.Application()
    if security.users is not None:
        app.middlewares.append(authentication(security.users, guesses or Guesses(0.0)))

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="in")

    app.router.add_get("/{path:.*}", page)
    server = await serve_application(app, "127.0.0.1", 0, security.tls)
    try:
        yield server.url
    finally:
        await server.close()


async def get(url: str, context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=context or True, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


def client(authority: Authority, tmp_path: Path, *, certified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.certificate)
    if certified:
        own = authority.issue("operator")
        file = tmp_path / "operator.pem"
        file.write_text(own.key + own.chain)
        context.load_cert_chain(file)
    return context


@pytest.fixture
def authority() -> Authority:
    return Authority("Issuer", under=Authority("Root"))


def tls_properties(authority: Authority, tmp_path: Path, prefix: str = "") -> dict[str, str]:
    own = authority.issue("worker")
    (tmp_path / "worker.p12").write_bytes(own.pkcs12("hush"))
    return {
        "listeners": "https://127.0.0.1:0",
        f"{prefix}ssl.keystore.location": str(tmp_path / "worker.p12"),
        f"{prefix}ssl.keystore.type": "PKCS12",
        f"{prefix}ssl.keystore.password": "hush",
        f"{prefix}ssl.truststore.certificates": authority.certificate,
    }


@pytest.mark.parametrize("prefix", ["", "listeners.https."])
async def test_https_with_a_client_certificate(authority: Authority, tmp_path: Path, prefix: str) -> None:
    properties = tls_properties(authority, tmp_path, prefix)
    async with served(properties) as url:
        assert url.startswith("https://127.0.0.1:")
        assert await get(url, client(authority, tmp_path, certified=False)) == (200, "in")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await get(url, client(Authority("Somebody else"), tmp_path, certified=False))
    async with served(properties | {f"{prefix}ssl.client.auth": "required"}) as url:
        assert await get(url, client(authority, tmp_path, certified=True)) == (200, "in")
        for stranger in (
            client(authority, tmp_path, certified=False),
            _with_authority(client(Authority("Somebody else"), tmp_path, certified=True), authority),
        ):
            with pytest.raises(aiohttp.ClientError):
                await get(url, stranger)


def _with_authority(context: ssl.SSLContext, authority: Authority) -> ssl.SSLContext:
    context.load_verify_locations(cadata=authority.certificate)
    return context


async def test_protocols_that_are_not_enabled_are_not_spoken(authority: Authority, tmp_path: Path) -> None:
    properties = tls_properties(authority, tmp_path) | {"ssl.enabled.protocols": "TLSv1.3"}
    context = client(authority, tmp_path, certified=False)
    async with served(properties) as url:
        assert (await get(url, context))[0] == 200
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientError):
            await get(url, context)


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


async def test_basic_authentication(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("ann = hush:hush\nbob=s\\u00fc\n")
    properties = {"rest.extension.classes": BASIC, "tidings.rest.credentials.file": str(users)}
    async with served({**properties, "listeners": "http://127.0.0.1:0"}) as url:
        for right in ("ann:hush:hush", "bob:sü"):
            assert await get(f"{url}/connectors", **basic(right)) == (200, "in")
        for wrong in ("ann:hush", "ann:", "ann", ":", "", "eve:hush", "bob:hush:hush", "ann:hush:hush "):
            assert await get(f"{url}/connectors", **basic(wrong)) == (401, "User cannot access the resource.")
        for header in (
            "",
            "Basic",
            "Basic ???",
            "Bearer " + basic("ann:hush:hush")["Authorization"].split()[1],
        ):
            assert (await get(f"{url}/metrics", Authorization=header))[0] == 401
        assert (await get(f"{url}/connectors"))[0] == 401
        assert (await get(f"{url}/healthz"))[0] == 200


async def test_guessing_a_password_is_slow_and_the_right_one_is_not(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("ann=hush")
    properties = {"rest.extension.classes": BASIC, "tidings.rest.credentials.file": str(users)}
    late = Guesses(0.2, 3600)
    async with served({**properties, "listeners": "http://127.0.0.1:0"}, late) as url:
        for seconds in (0.2, 0.4, 0.8):
            began = time.monotonic()
            assert (await get(url, **basic("ann:hash")))[0] == 401
            assert time.monotonic() - began >= seconds
        assert await get(f"{url}/connectors", **basic("ann:hush")) == (200, "in")
        waiting = [asyncio.create_task(late.wrong("127.0.0.1")) for _ in range(50)]
        await asyncio.sleep(0)
        # While so many wait, nobody of that address is heard: further guesses gain nothing by coming at the same time.
        assert (await get(f"{url}/connectors", **basic("ann:hush")))[0] == 429
        assert (await get(f"{url}/connectors"))[0] == 401  # without a password nothing is guessed
        assert (await get(f"{url}/healthz"))[0] == 200
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert await get(f"{url}/connectors", **basic("ann:hush")) == (200, "in")


async def test_a_worker_answers_wrong_passwords_late() -> None:
    """As the worker makes it, without times of its own."""
    app = web.Application(middlewares=[authentication({"ann": "hush"})])
    server = await serve_application(app, "127.0.0.1", 0)
    try:
        for seconds in (0.1, 0.2):
            began = time.monotonic()
            assert (await get(server.url, **basic("ann:hash")))[0] == 401
            assert time.monotonic() - began >= seconds
    finally:
        await server.close()


async def test_few_addresses_are_remembered() -> None:
    guesses = Guesses(0.0)
    for number in range(10_050):
        await guesses.wrong(f"10.0.{number // 256}.{number % 256}")
    assert guesses.remembered == 10_000
    for host in range(50):  # one host may have all addresses of a network
        await guesses.wrong(f"2001:db8::{host:x}")
    assert guesses.remembered == 10_000
    assert not guesses.too_many("10.0.0.1")


def test_users_by_a_jaas_file_as_for_kafka_connect(tmp_path: Path) -> None:
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text("ann=hush")
    options = {"KAFKA_OPTS": f"-Dx=y -Djava.security.auth.login.config={jaas}"}
    jaas.write_text(
        f'/* both */\nKafkaClient {{ a.B required; }};\n// here\nKafkaConnect {{\n  {MODULE} required\n  file="{users}";\n}};\n'
    )
    assert read_rest_security({"rest.extension.classes": BASIC}, options).users == {"ann": "hush"}
    for wrong in (f"KafkaConnect {{ com.example.Ldap required file=\"{users}\"; }};", "Other { a.B required; };",
                  f"KafkaConnect {{ {MODULE} required; }};", f"KafkaConnect {{ {MODULE} optional file=\"{users}\"; }};"):  # fmt: skip
        jaas.write_text(wrong)
        with pytest.raises(WorkerConfigError, match="JAAS"):
            read_rest_security({"rest.extension.classes": BASIC}, options)


def test_a_door_that_would_stand_open_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "users.properties"
    empty.write_text("# nobody\n")
    base = {"rest.extension.classes": BASIC}
    for properties, named in (
        (base, "rest.extension.classes"),
        (base | {"tidings.rest.credentials.file": str(empty)}, "holds no user"),
        (base | {"tidings.rest.credentials.file": str(tmp_path / "none")}, "cannot read"),
        ({"tidings.rest.credentials.file": str(empty)}, "tidings.rest.credentials.file"),
        ({"listeners": "https://:1", "listeners.https.ssl.provider": "x"}, "listeners.https.ssl.provider"),
    ):
        with pytest.raises(WorkerConfigError, match=named):
            read_rest_security(properties, {})


def test_client_certificates_need_an_authority(authority: Authority, tmp_path: Path) -> None:
    properties = tls_properties(authority, tmp_path) | {"ssl.client.auth": "required"}
    del properties["ssl.truststore.certificates"]
    with pytest.raises(WorkerConfigError, match=r"ssl\.truststore\.location"):
        read_rest_security(properties, {})


@asynccontextmanager
async def rest(properties: Mapping[str, str]) -> AsyncIterator[list[str]]:
    """The servers of a worker that has not reached Kafka; their URLs."""
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    base = {"bootstrap.servers": "none:1", "group.id": "g", "listeners": "http://127.0.0.1:0", **topics}
    worker = read_worker_config(base | properties)
    health = Health()
    servers = await serve_rest(Herder(worker, "w", health, log_level="INFO", log_format="json"), health)
    try:
        yield [server.url for server in servers]
    finally:
        for server in servers:
            await server.close()


async def test_log_levels_have_listeners_of_their_own(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("ann=hush")
    login = {"rest.extension.classes": BASIC, "tidings.rest.credentials.file": str(users)}
    async with rest({}) as (url,):
        assert (await get(f"{url}/admin/loggers"))[0] == 200
    async with rest({"admin.listeners": ""}) as (url,):
        assert (await get(f"{url}/admin/loggers"))[0] == 404
        assert (await get(f"{url}/connector-plugins"))[0] == 200
    headers = {"response.http.headers.config": "set X-One: 1"}
    async with rest({"admin.listeners": "http://127.0.0.1:0", **headers, **login}) as (url, admin):
        right = basic("ann:hush")
        assert (await get(f"{admin}/admin/loggers"))[0] == 401
        assert (await get(f"{admin}/admin/loggers", **right))[0] == 200
        assert (await get(f"{admin}/connector-plugins", **right))[0] == 404
        assert (await get(f"{url}/admin/loggers", **right))[0] == 404
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert (answer.status, answer.headers["X-One"]) == (401, "1")


async def test_log_levels_by_https_of_their_own(authority: Authority, tmp_path: Path) -> None:
    properties = tls_properties(authority, tmp_path, "admin.listeners.https.")
    properties["admin.listeners"] = properties.pop("listeners")
    async with rest(properties) as (url, admin):
        assert url.startswith("http:")
        context = client(authority, tmp_path, certified=False)
        assert (await get(f"{admin}/admin/loggers", context))[0] == 200


async def test_pages_of_other_origins_reach_neither_server() -> None:
    async with (
        rest(
            {"admin.listeners": "http://127.0.0.1:0", "access.control.allow.origin": "https://a.example"}
        ) as (url, admin),
        aiohttp.ClientSession() as session,
    ):
        for asked in (f"{url}/connector-plugins/x/config/validate", f"{admin}/admin/loggers/x"):
            found = []
            for headers in ({"Origin": "https://evil.example"}, {"Origin": "https://a.example"}, {}):
                async with session.put(asked, json={}, headers=headers) as answer:
                    found.append(answer.status)
            assert found[0] == 403
            assert found[1] == found[2] != 403
