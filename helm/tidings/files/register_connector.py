"""Gives a capture worker the configuration of its connectors: PUT /connectors/<name>/config, which is idempotent.

    python register_connector.py http://capture:8083 /etc/tidings/connectors

Every ``<name>.json`` in the directory is one connector. A reference to a secret, ``${env:NAME}``, goes to the worker as it
is: the worker's config provider resolves it, and no password is stored or sent. Waits for the worker, and then for every connector and task
to run; ends with 1 when one fails or the time is over. Standard library only: it runs in any Python image.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

REQUEST_SECONDS = 30
PAUSE_SECONDS = 2


def call(method: str, url: str, body: object | None = None) -> Any:
    """One request with a JSON body and answer."""
    data = None if body is None else json.dumps(body).encode()
    # The address is the chart's own.
    request = urllib.request.Request(  # noqa: S310
        url, data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:  # noqa: S310
        return json.load(response)


def put_config(worker: str, name: str, config: dict[str, str], deadline: float) -> None:
    """PUT the configuration, again while the worker is not there, is starting or is rebalancing."""
    while True:
        try:
            call("PUT", f"{worker}/connectors/{urllib.parse.quote(name)}/config", config)
        except urllib.error.HTTPError as error:
            if error.code not in {404, 409, 500, 503} or time.monotonic() > deadline:
                # The worker's own message names the option; it never repeats a password.
                sys.exit(f"{name}: {error.code} {error.read().decode(errors='replace')[:2000]}")
        except (OSError, urllib.error.URLError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"{worker} cannot be reached: {error}")
        else:
            print(f"{name}: configured", flush=True)
            return
        time.sleep(PAUSE_SECONDS)


def await_running(worker: str, name: str, deadline: float) -> None:
    """Return when the connector and all its tasks run."""
    states = ["no status yet"]
    while time.monotonic() < deadline:
        try:
            status = call("GET", f"{worker}/connectors/{urllib.parse.quote(name)}/status")
        except (OSError, urllib.error.URLError) as error:
            states = [str(error)]
        else:
            parts = [status["connector"], *status["tasks"]]
            states = [part["state"] for part in parts]
            failed = [part.get("trace", "no trace") for part in parts if part["state"] == "FAILED"]
            if failed:
                sys.exit(f"{name}: FAILED: {failed[0][:2000]}")
            if status["tasks"] and set(states) == {"RUNNING"}:
                print(f"{name}: running, {len(status['tasks'])} task(s)", flush=True)
                return
        time.sleep(PAUSE_SECONDS)
    sys.exit(f"{name}: not running in time: {', '.join(states)}")


def main(arguments: list[str]) -> None:
    """Register every connector of the directory."""
    if len(arguments) != 2:
        sys.exit(__doc__)
    worker, directory = arguments[0].rstrip("/"), Path(arguments[1])
    deadline = time.monotonic() + float(os.environ.get("TIDINGS_REGISTER_SECONDS", "300"))
    paths = sorted(directory.glob("*.json"))
    if not paths:
        sys.exit(f"no connector (*.json) in {directory}")
    configs = {path.stem: json.loads(path.read_text()) for path in paths}
    for name, config in configs.items():
        put_config(worker, name, config, deadline)
    for name in configs:
        await_running(worker, name, deadline)


if __name__ == "__main__":
    main(sys.argv[1:])
