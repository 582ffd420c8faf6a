"""Makes a capture worker run the connectors of a directory: puts those that are there, removes those that are gone.

    python register_connector.py http://capture:8083 /etc/tidings/connectors

Every ``<name>.json`` in the directory is one connector, given to PUT /connectors/<name>/config, which is idempotent. A
reference to a secret, ``${env:NAME}``, goes to the worker as it is: the worker's config provider resolves it, and no
password is stored or sent. Waits for the worker, and then for every connector and task to run; ends with 1 when one
fails or the time is over.

Each configuration says whose it is (``tidings.managed.by``). A connector of this owner that the directory no longer has
is removed; one of another owner, or of nobody, is never touched. Its replication slot holds back WAL until somebody
drops it: with TIDINGS_REGISTER_ON_REMOVE=drop the worker does that, and with keep (the default) the slot is named.

TIDINGS_REGISTER_OWNER       the owner; without one nothing is removed
TIDINGS_REGISTER_SECONDS     how long to wait (300)
TIDINGS_REGISTER_UNINSTALL   1: remove every connector of the owner, whatever the directory has
TIDINGS_REGISTER_CA          PEM file of the authority that signed the worker's certificate, for https
TIDINGS_REGISTER_CERTIFICATE, TIDINGS_REGISTER_KEY   PEM files that it shows, for a worker that wants a certificate
TIDINGS_REGISTER_USER_FILE, TIDINGS_REGISTER_PASSWORD_FILE   files with the worker's user and password

Standard library only: it runs in any Python image.
"""

import base64
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

REQUEST_SECONDS = 30
PAUSE_SECONDS = 2
OWNER = "tidings.managed.by"
Config = dict[str, str]


class Worker:
    """The REST API of a capture worker."""

    def __init__(self, address: str, environment: dict[str, str]) -> None:
        self.address = address
        self.deadline = time.monotonic() + float(environment.get("TIDINGS_REGISTER_SECONDS", "300"))
        self._headers = {"Content-Type": "application/json", **_authorization(environment)}
        self._tls = None
        if address.startswith("https://"):
            self._tls = ssl.create_default_context(cafile=environment.get("TIDINGS_REGISTER_CA") or None)
            if certificate := environment.get("TIDINGS_REGISTER_CERTIFICATE"):
                self._tls.load_cert_chain(certificate, environment.get("TIDINGS_REGISTER_KEY") or None)

    def call(self, method: str, path: str, body: object | None = None) -> Any:
        """One request with a JSON body and answer."""
        data = None if body is None else json.dumps(body).encode()
        # The address is the chart's own.
        request = urllib.request.Request(  # noqa: S310
            f"{self.address}{path}", data, self._headers, method=method
        )
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=self._tls) as response:  # noqa: S310
            text = response.read()
            for warning in response.headers.get_all("Warning", []):
                # What the connector would do that nobody may want; header values come in Latin-1.
                print(f"{path}: WARNING: {warning.encode('latin-1').decode(errors='replace')}", flush=True)
        return json.loads(text) if text else None

    def insist(self, what: str, method: str, path: str, body: object | None = None) -> Any:
        """Call again while the worker is not there, is starting or is rebalancing; ends the program in the end."""
        while True:
            try:
                return self.call(method, path, body)
            except urllib.error.HTTPError as error:
                if error.code not in {404, 409, 500, 503} or self.late():
                    # The worker's own message names the option; it never repeats a password.
                    sys.exit(f"{what}: {error.code} {error.read().decode(errors='replace')[:2000]}")
            except (OSError, urllib.error.URLError) as error:
                if self.late():
                    sys.exit(f"{self.address} cannot be reached: {error}")
            time.sleep(PAUSE_SECONDS)

    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.deadline


def _authorization(environment: dict[str, str]) -> dict[str, str]:
    files = [environment.get(f"TIDINGS_REGISTER_{part}_FILE") for part in ("USER", "PASSWORD")]
    if not all(files):
        return {}
    user, password = (Path(str(file)).read_text(encoding="utf-8").strip() for file in files)
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def path_of(name: str) -> str:
    """The path of a connector in the REST API."""
    return f"/connectors/{urllib.parse.quote(name, safe='')}"


def await_running(worker: Worker, name: str) -> str | None:
    """Return None when the connector and all its tasks run, else why they do not."""
    states = ["no status yet"]
    while not worker.late():
        try:
            status = worker.call("GET", f"{path_of(name)}/status")
        except (OSError, urllib.error.URLError) as error:
            states = [str(error)]
        else:
            parts = [status["connector"], *status["tasks"]]
            states = [part["state"] for part in parts]
            failed = [part.get("trace", "no trace") for part in parts if part["state"] == "FAILED"]
            if failed:
                return f"FAILED: {failed[0][:2000]}"
            if status["tasks"] and set(states) == {"RUNNING"}:
                print(f"{name}: running, {len(status['tasks'])} task(s)", flush=True)
                return None
        time.sleep(PAUSE_SECONDS)
    return f"not running in time: {', '.join(states)}"


def slot_of(config: Config) -> str | None:
    """Where the connector's replication slot is, in words; None: it has none."""
    if "PostgresConnector" not in config.get("connector.class", ""):
        return None
    server = f"{config.get('database.hostname', '?')}:{config.get('database.port', '5432')}"
    return (
        f"{config.get('slot.name', 'debezium')} of database {config.get('database.dbname', '?')} on {server}"
    )


def remove(worker: Worker, name: str, config: Config, *, drop: bool) -> None:
    """Delete a connector; its slot is dropped by the worker, or named."""
    slot = slot_of(config)
    if slot is None or not drop:
        worker.insist(name, "DELETE", path_of(name))
        print(f"{name}: removed", flush=True)
        if slot is not None:
            print(f"{name}: ITS REPLICATION SLOT IS KEPT and holds back WAL: {slot}", flush=True)
            query = f"SELECT pg_drop_replication_slot('{config.get('slot.name', 'debezium')}')"
            print(f"{name}: if the connector will not come back: {query}", flush=True)
        return
    # Where this fails the connector stays, stopped, so that its slot is not forgotten.
    what = f"{name}: not removed, since this could not be done to drop replication slot {slot}"
    worker.insist(what, "PUT", f"{path_of(name)}/stop")
    worker.insist(what, "DELETE", f"{path_of(name)}/slot")
    # A position in a slot that is gone is of no use: a connector of this name would begin with a snapshot.
    worker.insist(what, "DELETE", f"{path_of(name)}/offsets")
    worker.insist(what, "DELETE", path_of(name))
    print(f"{name}: removed, and replication slot {slot} dropped", flush=True)


def connectors_of(worker: Worker) -> dict[str, Config]:
    """The configurations the worker has, by name."""
    found = worker.insist("connectors", "GET", "/connectors?expand=info")
    return {name: about["info"]["config"] for name, about in found.items()}


def refuse_those_of_others(existing: dict[str, Config], wanted: dict[str, Config]) -> None:
    """End when a name is taken by a connector of another owner; one without an owner becomes ours."""
    for name, config in wanted.items():
        theirs, ours = existing.get(name, {}).get(OWNER), config.get(OWNER)
        if theirs is not None and theirs != ours:
            sys.exit(
                f"{name}: the worker has a connector of this name that belongs to {theirs}; choose another name"
            )


def main(arguments: list[str], environment: dict[str, str]) -> None:
    """Register every connector of the directory, and remove those that are gone."""
    if len(arguments) != 2:
        sys.exit(__doc__)
    worker = Worker(arguments[0].rstrip("/"), environment)
    uninstall = environment.get("TIDINGS_REGISTER_UNINSTALL") == "1"
    drop = environment.get("TIDINGS_REGISTER_ON_REMOVE", "keep") == "drop"
    owner = environment.get("TIDINGS_REGISTER_OWNER", "")
    paths = [] if uninstall else sorted(Path(arguments[1]).glob("*.json"))
    configs = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    existing = connectors_of(worker)
    refuse_those_of_others(existing, configs)
    for name, config in configs.items():
        worker.insist(name, "PUT", f"{path_of(name)}/config", config)
        print(f"{name}: configured", flush=True)
    for name, config in existing.items():
        if owner and config.get(OWNER) == owner and name not in configs:
            remove(worker, name, config, drop=drop)
    for name in configs:
        wrong = await_running(worker, name)
        if wrong is not None:
            sys.exit(f"{name}: {wrong}")


if __name__ == "__main__":
    main(sys.argv[1:], dict(os.environ))
