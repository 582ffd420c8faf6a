"""The slot and the publication of a project in its database: whose they are, what they retain, and their end."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tidings_capture.postgres.client import Endpoint, Session, quote
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.settings.config import read_connector_config
from tidings_connect.config.providers import read_config_providers
from tidings_connect.herder.files import read_connector_file

_RELEASE_SECONDS: Final = 20.0
_PROVIDER: Final = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


class Replication:
    """Looks at a connector's slot on a connection of its own, which is opened again when it is lost."""

    def __init__(self, endpoint: Endpoint, slot: str, publication: str) -> None:
        self._endpoint, self.slot, self.publication = endpoint, slot, publication
        self._session: Session | None = None

    def exists(self) -> tuple[bool, bool]:
        """Whether there are slot and publication.

        Raises:
            PostgresError: the database cannot be asked.
        """
        asked = self._ask(
            "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s),"
            " EXISTS (SELECT FROM pg_publication WHERE pubname = %s)",
            self.slot,
            self.publication,
        )
        return bool(asked[0][0]), bool(asked[0][1])

    def consistent(self) -> bool:
        """Whether every further commit will be captured."""
        return bool(
            self._ask(
                "SELECT FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn IS NOT NULL",
                self.slot,
            )
        )

    def look(self) -> tuple[int, int] | None:
        """Bytes of WAL retained and unconfirmed; None while nobody knows."""
        try:
            found = self._ask(
                "SELECT coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,"
                " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint"
                " FROM pg_replication_slots WHERE slot_name = %s",
                self.slot,
            )
        except PostgresError:  # shown as an old figure; capture reports what is wrong with the database
            self.close()
            return None
        return (int(found[0][0]), int(found[0][1])) if found else None

    def drop(self, *, publication: bool) -> None:
        """Drop the slot, and the publication when it is ours.

        Raises:
            PostgresError: somebody still reads by the slot, or the user may not.
        """
        deadline = time.monotonic() + _RELEASE_SECONDS
        while self._ask("SELECT FROM pg_replication_slots WHERE slot_name = %s AND active", self.slot):
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        self._ask(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
            self.slot,
        )
        if publication:
            self._ask(f"DROP PUBLICATION IF EXISTS {quote(self.publication)}")

    def statements(self) -> str:
        """The SQL that drops both."""
        return (
            f"SELECT pg_drop_replication_slot('{self.slot}');"
            f" DROP PUBLICATION IF EXISTS {quote(self.publication)};"
        )

    def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _ask(self, query: str, *parameters: str) -> list[tuple[Any, ...]]:
        self._session = self._session or Session(self._endpoint)
        return self._session.rows(query, parameters)


def read_replication(connector: Path, environment: Mapping[str, str]) -> tuple[Replication, dict[str, str]]:
    """What a connector's file says of it, and the configuration as it is given to capture.

    Raises:
        TidingsError: the file cannot be read, or refers to what is not set.
    """
    file = read_connector_file(connector)
    resolved = read_config_providers(_PROVIDER, environment).resolve(file.config)
    config = read_connector_config(file.name, {**resolved, "name": file.name}, {}, "up")
    return Replication(config.endpoint, config.slot, config.publication), dict(file.config)


class Marker:
    """A file that says that this project's runs have made slot and publication, so that they may drop them."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "replication.json"

    def read(self) -> tuple[str, bool] | None:
        """The slot's name, and whether the publication is ours, too."""
        if not self._path.exists():
            return None
        body = json.loads(self._path.read_text(encoding="utf-8"))
        return str(body["slot"]), bool(body["publication"])

    def write(self, slot: str, *, publication: bool) -> None:
        """Leave it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"slot": slot, "publication": publication}) + "\n", encoding="utf-8")

    def remove(self) -> None:
        """They are gone."""
        self._path.unlink(missing_ok=True)
