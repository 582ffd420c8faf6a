"""The page of the REST API has every path that is served, and fails where it has not."""

from pathlib import Path

import pytest

from tidings_connect.rest import page


@pytest.mark.listing
def test_every_path_stands_on_the_page_with_its_methods() -> None:
    text = page.page()
    assert "| PATCH | `/connectors/{name}/offsets` | of a stopped connector" in text
    assert "| GET | `/connectors/{name}/snapshot` | *ours*" in text
    assert len(page.served()) == len(page.MEANINGS)


def test_a_path_without_a_meaning_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    less = {key: text for key, text in page.MEANINGS.items() if key != ("GET", "/health")}
    monkeypatch.setattr(page, "MEANINGS", less)
    with pytest.raises(page.IncompletePageError, match="/health"):
        page.page()


def test_a_page_that_is_out_of_date_is_found(tmp_path: Path) -> None:
    assert page.main([str(tmp_path / "rest.md"), "--check"]) == 1
    assert page.main([str(tmp_path / "rest.md")]) == 0
    assert page.main([str(tmp_path / "rest.md"), "--check"]) == 0
