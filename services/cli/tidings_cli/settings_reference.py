"""Writes the page of settings: ``python -m tidings_cli.settings_reference docs/settings.md``.

A setting is an environment variable ``TIDINGS_*``: a field of a service's settings, with the text that follows it in the source.
With ``--check`` it writes nothing and fails when the page is not what the code says; a field without a text fails always.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from tidings_lakehouse.settings import AuditedSettings, LakehouseSettings, RepairedSettings, WarehouseSettings
from tidings_service.generated import page_command
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.registry_settings import RegistrySettings
from tidings_service.settings import ServiceSettings
from tidings_translator.base.settings import SequencerSettings, StageSettings, TranslatorSettings

_HEAD: Final = """# Settings

<!-- Generated from the code: .venv/bin/python -m tidings_cli.settings_reference docs/settings.md -->

The sequencer, the translator, the lakehouse and the commands beside them are set by environment variables, which are read once at the
start. What is wrong is named at once, without its value. Capture has a [worker's properties](worker-properties.md) and a
[connector's options](debezium-compatibility.md) instead. How a login or a file of a secret is used: [security](security.md).
"""
_SECTIONS: Final[tuple[tuple[str, str, type[ServiceSettings], tuple[type[ServiceSettings], ...]], ...]] = (
    ("Every service", "", ServiceSettings, ()),
    ("Kafka", "All that talk to Kafka.", KafkaSettings, (ServiceSettings,)),
    ("The registry", "All that talk to the registry.", RegistrySettings, (ServiceSettings,)),
    ("Sequencer and translator", "", StageSettings, (KafkaSettings, RegistrySettings)),
    ("Sequencer", "`tidings sequence`.", SequencerSettings, (StageSettings,)),
    ("Translator", "`tidings translate`.", TranslatorSettings, (StageSettings,)),
    ("The lake", "`tidings lakehouse`: the job, and every command that reads.", WarehouseSettings, (ServiceSettings,)),
    ("The lake's audit", "The job, and `tidings lakehouse audit` and `repair`.", AuditedSettings, (WarehouseSettings,)),
    ("The lake's repair", "`tidings lakehouse repair`.", RepairedSettings, (WarehouseSettings,)),
    ("The lake's job", "`tidings lakehouse run`.", LakehouseSettings, (AuditedSettings, KafkaSettings, RegistrySettings)),
)  # fmt: skip
"""Title, for whom, the settings, and those that stand in other sections."""
_OF_TESTS: Final = frozenset({"failpoint"})


class MissingTextError(Exception):
    """A setting has no text in the source."""


def texts(cls: type[ServiceSettings]) -> dict[str, str]:
    """The text that follows each field in the source, of the class and its bases."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if not issubclass(base, ServiceSettings):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, following in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(following, ast.Expr)
            ):
                text = ast.literal_eval(following.value)
                found.setdefault(field.target.id, " ".join(str(text).split()))
    return found


def rows(cls: type[ServiceSettings], elsewhere: Sequence[type[ServiceSettings]]) -> Iterator[str]:
    """A row for each setting that is not another section's, or has another default here.

    Raises:
        MissingTextError: one has no text.
    """
    said = texts(cls)
    for name, field in cls.model_fields.items():
        others = [other.model_fields[name] for other in elsewhere if name in other.model_fields]
        if name in _OF_TESTS or any(_default(other) == _default(field) for other in others):
            continue
        if name not in said:
            raise MissingTextError(f"{cls.__name__}.{name} has no text after it")
        cells = (f"`TIDINGS_{name.upper()}`", _default(field), _values(field), said[name].replace("``", "`"))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return ""
    return "" if field.default is None or field.default == "" else f"`{field.default}`"


def _values(field: FieldInfo) -> str:
    choices = list(_choices(field.annotation))
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    bounds = {
        word: getattr(one, word)
        for one in field.metadata
        for word in ("ge", "gt", "le", "lt")
        if hasattr(one, word)
    }
    signs = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}
    return " ".join(
        signs[word].format(f"{bounds[word]:g}" if isinstance(bounds[word], float) else bounds[word])
        for word in bounds
    )


def _choices(annotation: Any) -> Iterator[object]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif get_origin(annotation) is UnionType or str(get_origin(annotation)) == "typing.Union":
        for one in get_args(annotation):
            yield from _choices(one)


def page() -> str:
    """The page."""
    parts = [_HEAD]
    for title, whom, cls, elsewhere in _SECTIONS:
        parts.append(f"\n## {title}\n")
        parts.append(f"\n{whom}\n" if whom else "")
        parts.append("\n| Variable | Default | Values | Meaning |\n|---|---|---|---|\n")
        parts.append("\n".join(rows(cls, elsewhere)) + "\n")
    return re.sub(r"[ ]+\n", "\n", "".join(parts))


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    return page_command("python -m tidings_cli.settings_reference", lambda _path: page(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
