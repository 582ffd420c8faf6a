"""Which client settings a connector may override: the worker's ``connector.client.config.override.policy``.

Kafka's ``All`` (the default), ``None`` and ``Principal``, by short name or class. Source: Apache Kafka documentation,
"Kafka Connect Configs"; Kafka's ``PrincipalConnectorClientConfigOverridePolicy``.
"""

from collections.abc import Mapping
from typing import Final

from tidings_capture.errors import OptionError, WorkerConfigError

OVERRIDE_POLICY: Final = "connector.client.config.override.policy"
_OVERRIDES: Final = ("producer.override.", "consumer.override.", "admin.override.")
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


def check_overrides(policy: str, config: Mapping[str, str]) -> None:
    """Refuse a connector that overrides what the policy does not allow.

    Raises:
        OptionError: naming the options.
    """
    allowed = _ALLOWED[policy]
    if allowed is None:
        return
    wrong = [
        name
        for name in sorted(config)
        for prefix in _OVERRIDES
        if name.startswith(prefix) and name.removeprefix(prefix) not in allowed
    ]
    if wrong:
        raise OptionError(f"{', '.join(wrong)}: the worker's {OVERRIDE_POLICY}={policy} does not allow it")
