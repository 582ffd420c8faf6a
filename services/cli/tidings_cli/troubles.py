"""What the code can say when something is wrong: the named errors that it makes, and the warnings that it logs.

Read from the source of the installed packages with `ast`, so that a page of them is complete; values in a message stand as
``<name>``. An error whose message is put together elsewhere is shown by its code alone.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

PACKAGES: Final = (
    "tidings_envelope",
    "tidings_service",
    "tidings_connect",
    "tidings_capture",
    "tidings_domain",
    "tidings_translator",
    "tidings_lakehouse",
    "tidings_sinks",
    "tidings_client",
    "tidings_cli",
)
"""Those that users run; servers for tests and demonstrations are not among them."""
_MOVED: Final = ('"""Moved to ', '"""The former name of ', '"""Former name')
"""How the docstring of a module begins that is but a former name of another."""
_LEVELS: Final = frozenset({"warning", "error", "exception", "critical"})
_LOGGERS: Final = frozenset({"_LOG", "_log", "log", "LOG", "logger", "_logger", "_LOGGER"})

_VALUES: Final = re.compile(r"<[^>]*>")
_NO_WORDS: Final = " :;()"
"""What a message without a hint must not consist of beside its values to be worth a line."""


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """One message of an error, and what it tells to do; empty where it tells nothing."""

    code: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True, order=True)
class Warned:
    """One line that is logged as a warning or an error."""

    package: str
    text: str


@dataclass(frozen=True, slots=True)
class Kind:
    """The errors of one code."""

    code: str
    meanings: tuple[str, ...]
    retries: tuple[str, ...]
    packages: tuple[str, ...]


class Troubles:
    """All of them."""

    def __init__(self) -> None:
        self.messages: set[Message] = set()
        self.warned: set[Warned] = set()
        self._classes: dict[str, list[type[Exception]]] = {}
        for module in _modules():
            self._read(module)

    def kinds(self) -> list[Kind]:
        """The codes, in order."""
        return [
            Kind(
                code,
                tuple(dict.fromkeys(_meaning(found) for found in classes)),
                tuple(sorted({_attribute(found, "default_retry") for found in classes} - {""})),
                tuple(sorted({found.__module__.partition(".")[0] for found in classes})),
            )
            for code, classes in sorted(self._classes.items())
        ]

    def _read(self, module: Any) -> None:
        tree = ast.parse(inspect.getsource(module))
        for value in vars(module).values():
            if _is_error(value) and value.__module__ == module.__name__:
                self._classes.setdefault(_attribute(value, "code"), []).append(value)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                # Also those that a function words and gives to whoever raises them.
                self._read_error(node, vars(module))
                self._read_warning(node, vars(module), module.__name__.partition(".")[0])

    def _read_error(self, call: ast.Call, names: dict[str, Any]) -> None:
        found = names.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if not _is_error(found) or not call.args:
            return
        text = _text(call.args[0], names)
        hint = next((_text(keyword.value, names) for keyword in call.keywords if keyword.arg == "hint"), None)
        if text is not None and (hint or _VALUES.sub("", text).strip(_NO_WORDS)):
            self.messages.add(Message(_attribute(found, "code"), text, hint or ""))

    def _read_warning(self, call: ast.Call, names: dict[str, Any], package: str) -> None:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _LEVELS or not call.args:
            return
        owner = function.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        text = _text(call.args[0], names)
        if name in _LOGGERS and text is not None:
            self.warned.add(Warned(package, text))


def _modules() -> Iterator[Any]:
    for package in PACKAGES:
        top = importlib.import_module(package)
        yield top
        for found in pkgutil.walk_packages(top.__path__, f"{package}."):
            if not found.name.endswith("__main__") and not _has_moved(found):
                yield importlib.import_module(found.name)


def _has_moved(found: pkgutil.ModuleInfo) -> bool:
    """Whether a module is but a former name, which warns when it is imported."""
    spec = found.module_finder.find_spec(found.name, None)
    assert spec is not None
    source = spec.loader.get_source(found.name) or ""  # type: ignore[union-attr]
    return source.startswith(_MOVED)


def _is_error(value: Any) -> TypeGuard[type[Exception]]:
    return inspect.isclass(value) and issubclass(value, Exception) and bool(_attribute(value, "code"))


def _attribute(found: type[Exception], name: str) -> str:
    value = getattr(found, name, "")
    return value if isinstance(value, str) else ""


def _meaning(found: type[Exception]) -> str:
    paragraph = (inspect.getdoc(found) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`")


def _text(node: ast.expr, names: dict[str, Any]) -> str | None:
    """A message with ``<name>`` in place of values; None where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name) and node.id.isupper():
        constant = names.get(node.id)
        return constant if isinstance(constant, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else _placeholder(part, names)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, names), _text(node.right, names)
        return None if left is None and right is None else f"{left or '<...>'}{right or '<...>'}"
    if isinstance(node, ast.IfExp):
        return _text(node.body, names) or _text(node.orelse, names)
    return None


def _placeholder(part: ast.expr, names: dict[str, Any]) -> str:
    """The value of a constant, or what stands for a value that only a run knows."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    while True:
        if isinstance(value, ast.Name):
            constant = names.get(value.id)
            if value.id.isupper() and isinstance(constant, str | int | float):
                return str(constant)
            return f"<{value.id.strip('_').replace('_', ' ').lower()}>"
        if isinstance(value, ast.Attribute):
            if value.attr in {"__name__", "value"}:
                value = value.value
                continue
            return f"<{value.attr.strip('_').replace('_', ' ').lower()}>"
        if isinstance(value, ast.Call):
            value = value.args[0] if value.args else value.func
            continue
        if isinstance(value, ast.Subscript | ast.Starred | ast.Await):
            value = value.value
            continue
        return "<...>"
