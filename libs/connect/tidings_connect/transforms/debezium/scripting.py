"""Filter and ContentBasedRouter, with expressions in a part of Python (see `expression`)."""

from typing import Any, ClassVar, Final

from tidings_connect.data.schemas import PerSchema
from tidings_connect.java.regex import compile_java, regex_problem
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.expression import ExpressionError, compile_expression
from tidings_connect.transforms.record import DataError, SourceRecord, Transform
from tidings_envelope.schema import ConnectSchema

_LANGUAGES: Final = ("python", "jsr223.python")


def _language(text: str) -> str | None:
    if text.lower() in _LANGUAGES:
        return None
    return (
        f"it runs in a Java machine, which is not here; set language to {_LANGUAGES[1]} and write the expression in "
        "Python, for example value.op == 'u' and value.before.quantity != value.after.quantity"
    )


def _expression(text: str) -> str | None:
    try:
        compile_expression(text)
    except ExpressionError as error:
        return str(error)
    return None


def _config(option: str) -> ConfigSpec:
    return ConfigSpec(
        Setting("topic.regex", check=regex_problem),
        Setting("language", required=True, check=_language),
        Setting(option, required=True, check=_expression),
        Setting("null.handling.mode", default="keep", values=("keep", "drop", "evaluate")),
    )


class _Scripted(Transform):
    """What both have in common."""

    OPTION: ClassVar[str]

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        pattern = settings.optional("topic.regex")
        self._matches = compile_java(pattern).matches if pattern else None
        self._nulls = settings.text("null.handling.mode").lower()
        try:
            self._evaluate = compile_expression(settings.text(self.OPTION))
        except ExpressionError as error:
            raise SettingError(self.OPTION, str(error)) from error
        self._shown = PerSchema(_shown)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if self._matches is not None and not self._matches(record.topic):
            return record
        if record.value is None and self._nulls != "evaluate":
            return record if self._nulls == "keep" else None
        headers: dict[str, Any] = {}
        for header in record.headers:
            headers.setdefault(header.key, {"value": header.value})
        scope = {
            "value": record.value,
            "key": record.key,
            "topic": record.topic,
            "headers": headers,
            "header": headers,
            "keySchema": None if record.key_schema is None else self._shown(record.key_schema),
            "valueSchema": None if record.value_schema is None else self._shown(record.value_schema),
        }
        try:
            return self.decide(record, self._evaluate(scope))
        except ExpressionError as error:
            raise DataError(str(error)) from None

    def decide(self, record: SourceRecord, result: Any) -> SourceRecord | None:
        """What becomes of the record."""
        raise NotImplementedError


class Filter(_Scripted):
    """Keeps the records for which ``condition`` is true."""

    OPTION = "condition"
    CONFIG = _config(OPTION)

    def decide(self, record: SourceRecord, result: Any) -> SourceRecord | None:
        """See `_Scripted.decide`."""
        if not isinstance(result, bool):
            raise DataError(f"the condition gives a {type(result).__name__}, and not True or False")
        return record if result else None


class ContentBasedRouter(_Scripted):
    """Sends records to the topic that ``topic.expression`` gives; None leaves the topic."""

    OPTION = "topic.expression"
    CONFIG = _config(OPTION)

    def decide(self, record: SourceRecord, result: Any) -> SourceRecord | None:
        """See `_Scripted.decide`."""
        if result is None:
            return record
        if not isinstance(result, str):
            raise DataError(f"the topic's expression gives a {type(result).__name__}, and not a text or None")
        return record.with_topic(result)


def _shown(schema: ConnectSchema) -> dict[str, Any]:
    """What an expression sees of a schema."""
    return {
        "name": schema.name,
        "version": schema.version,
        "type": schema.type.value,
        "optional": schema.optional,
        "parameters": dict(schema.parameters),
        "fields": {
            field.name: {"type": field.schema.type.value, "name": field.schema.name}
            for field in schema.fields
        },
    }
