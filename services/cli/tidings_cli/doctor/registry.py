"""The schema registries: that of the stages, and those of the worker's converters, with the logins that each has."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from tidings_cli.doctor.findings import Finding, error
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.converters.encoding import KEEPS_NULL, make_converter
from tidings_connect.errors import WorkerConfigError
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.registry import RegistryClient
from tidings_service import TidingsError
from tidings_service.registry_settings import RegistryAccess

_PLACE: Final = "registry"
_REFUSED: Final = (401, 403)


def replacing_option(converters: Mapping[str, str]) -> str | None:
    """What would let a null be one, where the converter of values writes a column's default for it; None where it does not.

    Args:
        converters: a connector's, or the worker's.
    """
    try:
        converter = make_converter(converters, is_key=False)
    except TidingsError:  # which is told by itself; or there is no worker
        return None
    with closing(converter):
        if not getattr(converter.codec, "replace_null_with_default", False):
            return None
    if isinstance(converter.codec, JsonCodec):
        return "value.converter.replace.null.with.default=false"
    return f"value.converter.{KEEPS_NULL}=true"


def look_at_registry(access: RegistryAccess) -> Iterator[Finding]:
    """What is wrong with the registry that the stages ask."""
    hint = "TIDINGS_REGISTRY is the registry's Confluent-compatible API"
    try:
        registry = RegistryClient(access.url, **access.client_arguments())
    except EnvelopeError as problem:
        yield _away(problem, "the stages", hint)
        return
    with closing(registry):
        yield from _ask(registry, "the stages", hint)


def look_at_converters(worker: WorkerConfig) -> Iterator[Finding]:
    """What is wrong with the registries that the worker's converters ask, each once."""
    seen: set[str] = set()
    for kind in ("key", "value"):
        setting = f"{kind}.converter"
        try:
            converter = make_converter(worker.converters, is_key=kind == "key")
        except (EnvelopeError, WorkerConfigError) as problem:
            yield error(
                _PLACE, "converter", f"{setting}: {problem}", "no record can be written",
                problem.hint or f"correct {setting}.* in the worker's properties",
            )  # fmt: skip
            continue
        registry = getattr(converter, "registry", None)
        with closing(converter):
            if registry is None or registry.url in seen:
                continue
            seen.add(registry.url)
            yield from _ask(
                registry, f"the worker's {setting}", f"see {setting}.* in the worker's properties"
            )


def _ask(registry: RegistryClient, who: str, hint: str) -> Iterator[Finding]:
    try:
        registry.subjects()
    except EnvelopeError as problem:
        yield _away(problem, who, hint)


def _away(problem: EnvelopeError, who: str, hint: str) -> Finding:
    refused = getattr(problem.__cause__, "http_status_code", None) in _REFUSED
    return error(
        _PLACE,
        "login-refused" if refused else "unreachable",
        f"{problem} ({who})",
        "neither contracts nor Avro topics can be read",
        problem.hint or hint,
    )
