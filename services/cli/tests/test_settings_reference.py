"""The page of settings is made of the settings' own fields and texts."""

from pathlib import Path

import pytest

from tidings_cli import settings_reference
from tidings_service.settings import ServiceSettings


class Silent(ServiceSettings):
    """As a service's."""

    told: int = 3
    """What it is, in
    two lines | one bar."""
    silent: str = ""


def test_a_setting_has_its_default_its_bounds_and_its_text() -> None:
    text = settings_reference.page()
    assert "| `TIDINGS_KAFKA` | required |  | Kafka's bootstrap servers" in text
    assert "| `TIDINGS_PARTITIONS` | `4` | from 1 to 10000 | Partitions of change set" in text
    assert "| `TIDINGS_ON_BAD_ROWS` | `skip` | `skip`, `hold`, `stop` | What to do when a row" in text
    # Each stands in its own section, and again only where its default is another.
    assert text.count("`TIDINGS_KAFKA_CA_FILE`") == 1
    assert text.count("`TIDINGS_HTTP_PORT`") == 4
    assert "FAILPOINT" not in text


def test_a_setting_without_a_text_is_refused() -> None:
    found = settings_reference.rows(Silent, (ServiceSettings,))
    assert next(found) == r"| `TIDINGS_TOLD` | `3` |  | What it is, in two lines \| one bar. |"
    with pytest.raises(settings_reference.MissingTextError, match=r"Silent\.silent"):
        next(found)


def test_a_page_that_is_out_of_date_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "settings.md")
    assert settings_reference.main([path, "--check"]) == 1
    assert settings_reference.main([path]) == 0
    assert settings_reference.main([path, "--check"]) == 0
