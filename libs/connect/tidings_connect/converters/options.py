"""The options behind a converter's prefix."""

from collections.abc import Mapping

from tidings_service.errors import Retry, TidingsError


class ConverterError(TidingsError):
    """A converter class or option that is not supported; names the property."""

    code = "converter"
    default_retry = Retry.NEVER


class Options:
    """The options of one converter; every one is either read, or only fine at its default."""

    def __init__(self, prefix: str, properties: Mapping[str, str]) -> None:
        self.prefix = prefix
        start = f"{prefix}."
        self._values = {
            key[len(start) :]: value for key, value in properties.items() if key.startswith(start)
        }

    def take(self, option: str) -> str | None:
        return self._values.pop(option, None)

    def text(self, option: str, default: str) -> str:
        return self._values.pop(option, default).strip()

    def boolean(self, option: str, *, default: bool) -> bool:
        value = self.text(option, str(default)).lower()
        if value not in ("true", "false"):
            raise self.refusal(option, value, "it is true or false")
        return value == "true"

    def only(self, option: str, *accepted: str) -> None:
        """Refuses every other value of an option than these."""
        value = self._values.pop(option, None)
        if value is not None and value.strip().lower() not in (choice.lower() for choice in accepted):
            raise self.refusal(option, value, f"supported: {', '.join(accepted)}")

    def ignore(self, *options: str) -> None:
        for option in options:
            self._values.pop(option, None)

    def finish(self) -> None:
        """Refuses what is left: an option nobody reads would be an option silently not obeyed."""
        for option in self._values:
            raise ConverterError(f"{self.prefix}.{option} is not supported", hint="leave it out")

    def refusal(self, option: str, value: str, why: str) -> ConverterError:
        return ConverterError(f"{self.prefix}.{option}={value} is not supported; {why}")
