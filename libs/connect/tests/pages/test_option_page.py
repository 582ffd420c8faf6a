"""A page shows a connector's options as the code has them, and a page that does not is refused."""

from pathlib import Path

import pytest

from tidings_connect.config.option import Family, Option, Passed
from tidings_connect.config.option_page import PARTS, Page, filled, main

PLACES = "".join(f"<!-- options: {part} -->\n<!-- end of options -->\nbetween\n" for part in PARTS)
PAGE = Page(
    sections={
        "Server": (
            Option("host", required=True, documentation="Where it is."),
            Option(
                "mode", default="a", values=("a", "b"), check=lambda value: "no" if value == "b" else None
            ),
            Family("mask.<length>", documentation="Hidden.", remark="A | stays a |."),
        )
    },
    own=(Option("tidings.room", form="size", default_text="the server's"),),
    passed=(Passed("consumer.", "the consumer"),),
    fixed=(Option("keep.alive", only="true"), Option("params", only="")),
    refused=("z.last", "a.first", Passed("driver.", "of another language")),
)


def test_every_part_is_shown_in_its_place() -> None:
    text = filled(PLACES, PAGE)
    assert "### Server\n" in text
    assert "| `host` | required | string | Where it is. |\n" in text
    assert "| `mode` | `a` | `a` |  |\n" in text, "a value that is refused is not offered"
    assert r"| `mask.<length>` |  | list | Hidden. A \| stays a \|. |" in text
    assert "| `tidings.room` | the server's | size |  |\n" in text
    assert "| `consumer.` | the consumer |\n" in text
    assert "| `keep.alive` | `true` |\n| `params` | empty |\n" in text
    assert text.index("`a.first`") < text.index("`driver.*` (of another language)") < text.index("`z.last`")
    assert text.count("between\n") == len(PARTS)


def test_it_is_the_same_when_it_is_filled_again() -> None:
    once = filled(PLACES, PAGE)
    assert filled(once, PAGE) == once


@pytest.mark.parametrize(
    "text",
    [PLACES.replace("options: own", "options: others"), PLACES.replace("<!-- options: own -->", "")],
    ids=["unknown", "missing"],
)
def test_a_page_without_a_place_for_every_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="own"):
        filled(text, PAGE)


def test_a_page_that_is_out_of_date_is_found_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_text(PLACES, "utf-8")
    assert main(PAGE, "make the page", [str(path), "--check"]) == 1
    assert "run make the page" in capsys.readouterr().err
    assert path.read_text("utf-8") == PLACES
    assert main(PAGE, "make the page", [str(path)]) == 0
    assert main(PAGE, "make the page", [str(path), "--check"]) == 0
