"""The page of errors and warnings is complete: what the code says stands on it, with what to do."""

from pathlib import Path

import pytest

from tidings_cli import advice, error_reference
from tidings_cli.troubles import Message, Troubles, Warned


@pytest.fixture(scope="module")
def troubles() -> Troubles:
    return Troubles()


def test_errors_are_read_with_their_hints_and_with_names_for_values(troubles: Troubles) -> None:
    found = {message.text: message for message in troubles.messages}
    assert found["no table of the lake has a name like that"].hint == "`tidings lakehouse tables` lists them"
    assert (
        found[
            "publication <updates> exists without <inserts>: tail has not made it, or an earlier version has"
        ].code
        == "catalog"
    )
    returned = "somebody else has written to <name> while this job did; nothing of this job's batch was written to it"
    assert found[returned].hint.startswith("one job writes to a warehouse")
    assert "<error>" not in found
    assert any("set tidings.regex.backtracking=true in" in message.hint for message in troubles.messages)


def test_warnings_are_read_with_the_package_that_logs_them(troubles: Troubles) -> None:
    assert Warned("tidings_translator", "Kafka is away") in troubles.warned


def test_every_kind_says_what_happens_by_itself(troubles: Troubles) -> None:
    kinds = {kind.code: kind for kind in troubles.kinds()}
    assert kinds["settings"].retries == ("never",)
    assert kinds["spool"].retries == ("timed",)
    assert all(kind.meanings[0] and kind.retries for kind in kinds.values())


@pytest.mark.parametrize("table", ["OF_ERRORS", "OF_WARNINGS"])
def test_what_lacks_advice_is_named(troubles: Troubles, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(getattr(advice, table))
    gone = sorted(known)[0]
    monkeypatch.setattr(error_reference, table, {text: said for text, said in known.items() if text != gone})
    with pytest.raises(error_reference.IncompleteAdviceError) as raised:
        error_reference.page(troubles)
    assert f"{table} lacks {gone!r}" in str(raised.value)


def test_advice_that_nothing_says_any_more_is_named(
    troubles: Troubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_reference, "OF_WARNINGS", {**advice.OF_WARNINGS, "it is dark": "Light a lamp."})
    with pytest.raises(error_reference.IncompleteAdviceError, match="it is dark"):
        error_reference.page(troubles)


def test_text_cannot_break_the_page() -> None:
    row = error_reference._row(Message("x", "a|b <name> *c*", ""))
    assert row == "| a\\|b &lt;name> \\*c\\* |  |\n"


def test_a_page_that_is_out_of_date_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "errors.md"
    path.write_text("old", "utf-8")
    assert error_reference.main([str(path), "--check"]) == 1
    assert "is not what the code says" in capsys.readouterr().err
    assert path.read_text("utf-8") == "old"
