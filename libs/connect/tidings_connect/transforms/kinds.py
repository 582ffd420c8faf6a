"""Which class a transform's or predicate's ``type`` names."""

import importlib
from collections.abc import Mapping
from typing import Final, TypeVar

from tidings_connect.limits import TRANSFORM_MODULES, current_limits
from tidings_connect.registered import registered
from tidings_connect.transforms.config import SettingError
from tidings_connect.transforms.record import Predicate, Transform

T = TypeVar("T", bound=Transform | Predicate)

_KAFKA: Final = "org.apache.kafka.connect.transforms."
_DEBEZIUM: Final = "io.debezium."
_NOT_IMPLEMENTED: Final = frozenset(
    {
        "io.debezium.transforms.EnforceRecordSize",
        "io.debezium.transforms.ExtractSchemaToNewRecord",
        "io.debezium.transforms.GeometryFormatTransformer",
        "io.debezium.transforms.SwapGeometryCoordinates",
        "io.debezium.transforms.VectorToJsonConverter",
        "io.debezium.transforms.openlineage.OpenLineage",
        "io.debezium.transforms.tracing.ActivateTracingSpan",
        "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb",
    }
)
TRANSFORMS: Final[dict[str, type[Transform]]] = {
    name: kind for table in registered("tidings.transforms") for name, kind in table.items()
}
"""Those that are installed, by class name. An entry point names a dictionary of them."""
PREDICATES: Final[dict[str, type[Predicate]]] = {
    name: kind for table in registered("tidings.predicates") for name, kind in table.items()
}


def find_transform(kind: str) -> type[Transform]:
    """The class of a transform.

    Args:
        kind: a Java class name that is known here, or ``package.module:Class`` of a transform in Python,
            whose module the worker's properties allow.

    Raises:
        SettingError: there is none; about option ``type``.
    """
    if kind in _NOT_IMPLEMENTED:
        raise SettingError("type", f"{kind}\0a transform of Debezium's that is not implemented here")
    if kind not in TRANSFORMS and kind.removesuffix("$Key") + "$Value" in TRANSFORMS:
        raise SettingError("type", f"{kind}\0it is {kind}$Key or {kind}$Value")
    return _find(kind, TRANSFORMS, Transform)  # type: ignore[type-abstract]  # a subclass is looked for


def find_predicate(kind: str) -> type[Predicate]:
    """The class of a predicate; as `find_transform`."""
    return _find(kind, PREDICATES, Predicate)  # type: ignore[type-abstract]  # a subclass is looked for


def _find(kind: str, known: Mapping[str, type[T]], base: type[T]) -> type[T]:
    if kind in known:
        return known[kind]
    if ":" in kind:
        found = _imported(kind)
        if issubclass(found, base):
            return found
        raise SettingError("type", f"{kind}\0it is not a subclass of {base.__module__}.{base.__name__}")
    raise SettingError("type", f"{kind}\0Class {kind} could not be found.")


def _imported(path: str) -> type:
    module_name, _, class_name = path.partition(":")
    if not current_limits().allows_module(module_name):
        # To import a module is to run it, and whoever posts a connector may name any.
        raise SettingError(
            "type", f"{path}\0the worker's {TRANSFORM_MODULES} does not allow module {module_name}"
        )
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may end its process when it is imported
        raise SettingError(
            "type", f"{path}\0module {module_name} cannot be imported: {type(error).__name__}"
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise SettingError("type", f"{path}\0module {module_name} has no class {class_name}")
    return found
