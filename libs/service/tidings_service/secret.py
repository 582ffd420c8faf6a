"""A secret from the environment, or from a file that is read anew whenever the secret is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidings_service.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Secret:
    """A password, a token or the like; neither its text form nor an error shows it."""

    setting: str
    """The variable that it comes from, for messages."""
    value: str | None = field(default=None, repr=False)
    """None: it stands in `file`."""
    file: Path | None = None

    def read(self) -> str:
        """The secret as it is now, without the newline at a file's end.

        Raises:
            SettingsError: the file cannot be read, or there is nothing in it.
        """
        if self.file is None:
            return self.value or ""
        text = read_file(self.setting, self.file).rstrip("\r\n")
        if not text:
            raise SettingsError(f"{self.setting}: {self.file} is empty")
        return text


def read_file(setting: str, file: Path) -> str:
    """The text of a file that a setting names.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SettingsError(
            f"{setting}: {file} cannot be read: {why}",
            hint="is the secret mounted there, and may the service's user read it?",
        ) from error


def chosen(setting: str, value: str | None, file: Path | None) -> Secret | None:
    """The secret of a setting and of its twin that ends in _FILE; None when neither is set.

    Raises:
        SettingsError: both are set, or the file cannot be read.
    """
    if value is not None and file is not None:
        raise SettingsError(f"{setting} and {setting}_FILE are both set", hint="leave one of them out")
    if file is not None:
        secret = Secret(f"{setting}_FILE", file=file)
        secret.read()
        return secret
    return None if value is None else Secret(setting, value)
