"""Which client settings a connector may override: the worker's ``connector.client.config.override.policy``.

Kafka's ``All`` (the default), ``None`` and ``Principal``, by short name or class. Source: Apache Kafka documentation,
"Kafka Connect Configs"; Kafka's ``PrincipalConnectorClientConfigOverridePolicy``.
"""

from collections.abc import Mapping
from typing import Final

from tidings_connect.errors import OptionError, WorkerConfigError

OVERRIDE_POLICY: Final = "connector.client.config.override.policy"
_OVERRIDES: Final = ("producer.override.", "consumer.override.", "admin.override.")
SIGNAL_BROKERS: Final = "signal.kafka.bootstrap.servers"
SIGNAL_CONSUMER: Final = "signal.consumer."
_ALLOWED: Final[dict[str, frozenset[str] | None]] = {
    "All": None,
    "None": frozenset(),
    "Principal": frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"}),
}
_CLASS: Final = ("org.apache.kafka.connect.connector.policy.", "ConnectorClientConfigOverridePolicy")


def read_override_policy(properties: Mapping[str, str]) -> str:
    """The policy's short name.

    Raises:
        WorkerConfigError: a policy that is not supported.
    """
    given = properties.get(OVERRIDE_POLICY, "All").strip()
    name = given.removeprefix(_CLASS[0]).removesuffix(_CLASS[1])
    if name not in _ALLOWED:
        raise WorkerConfigError(
            f"{OVERRIDE_POLICY}={given} is not supported", hint=f"{', '.join(_ALLOWED)} are"
        )
    return name


def same_cluster(given: str, bootstrap_servers: str) -> bool:
    """Whether brokers that a connector names are among the worker's; it is so where it names none."""
    named, own = (
        {part.strip().lower() for part in text.split(",")} - {""} for text in (given, bootstrap_servers)
    )
    return named <= own


def check_overrides(policy: str, config: Mapping[str, str], bootstrap_servers: str) -> None:
    """Refuse a connector that overrides what the policy does not allow.

    ``signal.consumer.`` counts as long as the signals come from the worker's own brokers.

    Args:
        bootstrap_servers: the worker's.

    Raises:
        OptionError: naming the options.
    """
    allowed = _ALLOWED[policy]
    if allowed is None:
        return
    prefixes: tuple[str, ...] = _OVERRIDES
    if same_cluster(config.get(SIGNAL_BROKERS, ""), bootstrap_servers):
        prefixes = (*_OVERRIDES, SIGNAL_CONSUMER)
    wrong = [
        name
        for name in sorted(config)
        for prefix in prefixes
        if name.startswith(prefix) and name.removeprefix(prefix) not in allowed
    ]
    if wrong:
        raise OptionError(f"{', '.join(wrong)}: the worker's {OVERRIDE_POLICY}={policy} does not allow it")
