"""Java's regular expressions: that none takes for ever, what they mean, and which are refused."""

import random
import re
import time
from typing import Any

import pytest
import re2

from tidings_capture.postgres.settings.options import check_options
from tidings_connect.errors import ConnectError
from tidings_connect.java.patterns import scan
from tidings_connect.java.regex import LONGEST_TEXT, TopicRewriter, compile_java
from tidings_connect.limits import BACKTRACKING, ConnectorLimits, limited

EXPONENTIAL = ("(a+)+$", "(a|a)*$", "(.*a){20}", "(a?){30}a{30}", "a*a*a*a*a*a*a*a*$", "(a|a)" * 40)


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_no_expression_takes_for_ever(pattern: Any) -> None:
    # An hour and more with an engine that backtracks; the length is what makes it so, not the machine.
    began = time.monotonic()
    text = "a" * 60 + "b"
    assert compile_java(pattern).fullmatch(text) is None
    assert TopicRewriter(pattern, "x")(text) is None
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"public\.orders", ["public.orders", "PUBLIC.Orders"], ["public_orders", "public.orders2"]),
        (r"\Qa.b\E(c|d)+(e|f)+", ["a.bcdE", "A.Bcf"], ["axbce"]),
        (r"[a-c_\d-]+x*y*", ["ABC_1-XY", "a"], ["d", "é"]),
        (r"[^a-c]+x*y*", ["dEf"], ["B", "b"]),
        (r"\p{Alpha}+\d*\w*", ["Ab1_"], ["é", ""]),
        ("(?<n>É|k)+x*", ["Ék", "Kk"], ["é"]),  # the case of ASCII only, as in Java
        ("(?-i)Ab*c*", ["Abc"], ["abc"]),
        ("\\x41\\u0042\\t*(c)+", ["abC", "AB\tc"], ["ab"]),
        (r"^(?!.*_tmp$).*", ["a", "tmp"], ["a_tmp"]),
        (r"(.)\1", ["aa", "aA"], ["ab"]),
        (r"a++b", ["aab"], ["a"]),
    ],
)
def test_expressions_mean_what_they_mean_in_java(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_java(pattern, re.IGNORECASE)
    assert [text for text in yes if not compiled.matches(text)] == []
    assert [text for text in no if compiled.matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?=a)(b+)+", "lookahead"),
        ("(?<!a)b*c*d*", "lookbehind"),
        (r"(a*)*\1", "backreferences"),
        ("(a++)+", "possessive"),
        ("(?>a+)+", "atomic"),
        ("[a-z&&[^b]]", "set operations"),
        ("(?x)a", "flag x"),
        (r"\R", r"\\R"),
        ("(", "not closed"),
        ("a)", "unmatched"),
        ("[a", "unterminated"),
        ("*", "nothing to repeat"),
        ("((a{100}){100}){100}", "repetition"),
        ("a" * 10_001, "10000 characters"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compile_java(pattern)
    (text,) = check_options({"table.include.list": pattern.replace(",", "\\,")})["table.include.list"]
    assert re.search(words, text)


def test_a_worker_may_allow_backtracking() -> None:
    pattern = "(?=a)(b|a)+"
    with pytest.raises(ValueError, match=BACKTRACKING):
        compile_java(pattern)
    with limited(ConnectorLimits(backtracking=True)):
        assert compile_java(pattern).matches("ab")
    # What is bounded by its form is bounded by the text as well.
    with pytest.raises(ConnectError, match="characters"):
        compile_java("(?!b).*").matches("a" * (LONGEST_TEXT + 1))


def test_groups_and_replacements() -> None:
    compiled = compile_java("(?<schema>[a-z]+)\\.(?<table>.*)_(\\d+)")
    assert compiled.groupindex == {"schema": 1, "table": 2}
    match = compiled.fullmatch("public.é_x_12")
    assert match is not None
    assert match.groups() == ("public", "é_x", "12")
    assert TopicRewriter(compiled.pattern, "${table}-$3-$1")("public.é_x_12") == "é_x-12-public"
    assert compiled == compile_java(compiled.pattern)
    assert compiled != compile_java(compiled.pattern, re.IGNORECASE)


def random_expression(rng: random.Random, depth: int) -> str:
    def piece() -> str:
        atoms = [
            "a",
            "B",
            "_",
            "é",
            ".",
            r"\.",
            r"\w",
            r"\D",
            r"\p{Alpha}",
            r"\P{Upper}",
            "[^a-cé]",
            r"[B-D\d_]",
        ]
        atom = rng.choice(atoms)
        if depth and rng.random() < 0.4:
            opened = rng.choice(["(", "(?:", "(?i:", f"(?<n{rng.randrange(10**9)}>"])
            atom = f"{opened}{random_expression(rng, depth - 1)})"
        return atom + rng.choice(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "??"])

    return "|".join("".join(piece() for _ in range(rng.randint(1, 3))) for _ in range(rng.choice([1, 1, 2])))


@pytest.mark.parametrize("seed", range(3))
def test_both_engines_match_the_same(seed: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(rng.choice("abBzé_.-1 ") for _ in range(rng.randint(0, 6))) for _ in range(20)]
    for _ in range(60):
        pattern = random_expression(rng, 1)
        for flags in (re.NOFLAG, re.IGNORECASE):
            found = scan(pattern, ignore_case=bool(flags))
            other = re.compile(found.python, re.ASCII | flags)
            engine = re2.compile(found.linear)
            for text in texts:
                same = (engine.fullmatch(text) is None) == (other.fullmatch(text) is None)
                assert same, f"seed {seed}: {pattern!r} on {text!r}"
