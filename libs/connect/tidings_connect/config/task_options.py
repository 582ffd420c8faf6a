"""Kafka Connect's own options of a connector, typed: converters, transforms, producer, transaction boundaries. Pure."""

import re
from collections.abc import Mapping

from tidings_connect.config.exactly_once import BOUNDARY, BOUNDARY_INTERVAL, POLL, TransactionBoundary
from tidings_connect.config.framework import PRODUCER_OVERRIDE, TRANSFORM_PREFIXES
from tidings_connect.kafka.settings import translate_client_settings
from tidings_connect.transforms.chain import has_transforms

_CHAIN = ("transforms", "predicates")
_LOGIN = re.compile(
    r"\.(basic\.auth|bearer\.auth|apicurio\.auth|(schema\.registry|apicurio\.registry\.request)\.(ssl|basic|bearer))\."
)
"""A converter's options about logging in to its registry."""


def converters_of(config: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """The options of the connector's converters.

    Args:
        worker: the options of the worker's own converters.
    """
    return {**_overridden(worker, config), **_converters(config)}


def producer_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """The settings of the producer that the connector overrides, as librdkafka's."""
    given = {
        n.removeprefix(PRODUCER_OVERRIDE): v for n, v in config.items() if n.startswith(PRODUCER_OVERRIDE)
    }
    return translate_client_settings(given, PRODUCER_OVERRIDE)


def boundary_of(config: Mapping[str, str]) -> TransactionBoundary:
    """Where a Kafka transaction ends."""
    interval = config.get(BOUNDARY_INTERVAL, "").strip()
    kind = config.get(BOUNDARY, POLL).strip().lower()
    return TransactionBoundary(kind, int(interval) / 1000 if interval else None)


def transforms_of(config: Mapping[str, str]) -> dict[str, str]:
    """``transforms``, ``predicates`` and what is behind these prefixes; empty without transforms."""
    if not has_transforms(config):
        return {}
    return {n: v for n, v in config.items() if n in _CHAIN or n.startswith(TRANSFORM_PREFIXES)}


def _converters(config: Mapping[str, str]) -> dict[str, str]:
    return {n: v for n, v in config.items() if n.startswith(("key.converter", "value.converter"))}


def _overridden(worker: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    # A connector that names its own converter does not inherit the options of the worker's.
    dropped = tuple(name for name in ("key.converter", "value.converter") if name in config)
    inherited = {n: v for n, v in worker.items() if not dropped or not n.startswith(dropped)}
    # One that keeps the worker's, but names another registry or says how to trust it, logs in with what it gives itself.
    elsewhere = tuple(
        f"{side}.converter."
        for side in ("key", "value")
        if _leads_elsewhere(f"{side}.converter.", worker, config)
    )
    return {n: v for n, v in inherited.items() if not (n.startswith(elsewhere) and _LOGIN.search(n))}


def _leads_elsewhere(prefix: str, worker: Mapping[str, str], config: Mapping[str, str]) -> bool:
    return any(
        value.strip() != worker.get(name, "").strip()
        for name, value in config.items()
        if name.startswith(prefix) and (_LOGIN.search(name) or name.endswith(".url"))
    )
