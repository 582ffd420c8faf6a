"""When a refused login is told: not for one word that may be old, and for as long as the client keeps repeating itself."""

import pytest

from tidings_service import logins


class Clock:
    """In the place of `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(logins, "time", clock)
    logins.forget_refusal()
    return clock


def refuse() -> None:
    logins.note_refusal("User:one", "Authentication failed", "TIDINGS_KAFKA_SASL_PASSWORD")


def test_one_moments_words_are_not_told(clock: Clock) -> None:
    refuse()
    clock.now += 0.5
    refuse()
    assert logins.refusal() is None


@pytest.mark.parametrize("seconds", [1.0, 31.0])
def test_a_refusal_that_is_repeated_is_told(clock: Clock, seconds: float) -> None:
    """librdkafka repeats an error of one broker every 30 seconds only, whatever happens in between."""
    for _ in range(4):
        refuse()
        clock.now += seconds
    assert (
        logins.refusal() == "the brokers refuse User:one: Authentication failed; TIDINGS_KAFKA_SASL_PASSWORD"
    )


def test_a_refusal_is_over_when_nobody_repeats_it(clock: Clock) -> None:
    refuse()
    clock.now += 2
    refuse()
    clock.now += 60
    assert logins.refusal() is None
