"""Passwords of the worker's properties that stand elsewhere (`config.providers`) and change while the worker runs.

It looks every two seconds, renews its own clients, and tells the tasks' processes.
"""

import asyncio
from typing import Final, Protocol

from tidings_connect.config.secrets import MASK
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import ConnectError
from tidings_connect.kafka.clients import renew
from tidings_connect.kafka.settings import user_and_password
from tidings_connect.renewals import KAFKA, REGISTRY, Renewal
from tidings_connect.threads import TASKS
from tidings_service import get_logger, hide_also

_LOOK_SECONDS: Final = 2.0
_USER_INFO: Final = "basic.auth.user.info"
_APICURIO: Final = "apicurio.auth.password"
_log = get_logger(__name__)


class Owner(Protocol):
    """Whose logins they are: the supervisor."""

    def tell_renewals(self, renewals: list[Renewal]) -> None:
        """Told on the event loop of each password that has changed, again at each look: a task may just be starting."""
        ...

    def tell_login(self) -> None:
        """Look whether the brokers refuse the login."""
        ...


class Rotation:
    """Follows a worker's logins."""

    def __init__(self, worker: WorkerConfig, owner: Owner) -> None:
        self._worker = worker
        self._owner = owner
        self._known = _logins(worker)
        self._renewals: dict[str, Renewal] = {}
        self._unreadable = False

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._known:
                await self._look()
            if self._renewals:
                self._owner.tell_renewals(list(self._renewals.values()))
            self._owner.tell_login()

    async def _look(self) -> None:
        try:
            found = await TASKS.run(_logins, self._worker)
        except ConnectError as error:  # it may be being replaced this moment: it is looked at again
            if not self._unreadable:
                _log.warning("a secret cannot be read anew; the one that is known stays", error=str(error))
            self._unreadable = True
        else:
            self._unreadable = False
            self._compare(found)

    def _compare(self, found: dict[str, tuple[str, str, str]]) -> None:
        for setting, (kind, user, password) in found.items():
            _, known_user, known = self._known[setting]
            if (user, password) == (known_user, known):
                continue
            self._known[setting] = kind, user, password
            if user != known_user:
                _log.warning(
                    "the user of a login has changed, which counts from the next start", setting=setting
                )
                continue
            renewal = Renewal(kind, user, known, password)
            hide_also({password: MASK})
            renew(renewal)
            self._renewals[setting] = renewal
            _log.info("a secret has changed; it is used from the next connection on", setting=setting)


def _logins(worker: WorkerConfig) -> dict[str, tuple[str, str, str]]:
    """Kind, user and password of the logins that stand elsewhere, by setting.

    Raises:
        ConfigProviderError: one cannot be read.
    """
    found = {}
    for setting, value in worker.providers.resolve(worker.references).items():
        if setting.endswith("sasl.jaas.config"):
            login = user_and_password(value)
            kind = KAFKA
        elif setting.endswith((_USER_INFO, _APICURIO)):
            kind = REGISTRY
            user_name = setting.removesuffix("password") + "username"
            user, _, password = value.partition(":")
            login = (
                (worker.converters.get(user_name, ""), value)
                if setting.endswith(_APICURIO)
                else (user, password)
            )
        else:
            continue
        if login is not None:
            found[setting] = kind, *login
    return found
