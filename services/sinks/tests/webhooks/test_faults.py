"""What receivers do to their senders: busy, away, slow, answers that are lost; each record is delivered, in the order of its key."""

import json
import random
import threading
from collections import defaultdict

import pytest
from structlog.testing import capture_logs
from webhook_parts import LOST, TAKEN, TOLERANT, Answer, Receiver, Seen, Webhooks, refused

from tidings_connect.errors import RecordError
from tidings_sinks.errors import TargetError
from tidings_stack.waiting import wait_for

TOPIC = "orders"


def failure(webhooks: Webhooks) -> BaseException:
    wait_for("a failure", lambda: webhooks.worker.error is not None)
    assert webhooks.worker.error is not None
    return webhooks.worker.error


def send(webhooks: Webhooks, *numbers: int, key: str = "k") -> None:
    for number in numbers:
        webhooks.send(TOPIC, key, {"number": number})


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_a_receiver_that_is_busy_is_asked_again(webhooks: Webhooks, receiver: Receiver, status: int) -> None:
    """In place first; then the partitions rest, and nothing is committed."""
    receiver.plan += [refused(status)] * 3
    send(webhooks, 1, 2)
    webhooks.start(TOPIC)
    webhooks.wait()
    assert [seen.answer.status for seen in receiver.seen] == [status, status, status, 204, 204]
    assert receiver.numbers() == [1, 2]
    assert len({seen.headers["idempotency-key"] for seen in receiver.seen[:4]}) == 1


@pytest.mark.parametrize("retries", ["0", "3"])
def test_retry_after_is_kept_within_a_put_and_beyond(
    webhooks: Webhooks, receiver: Receiver, retries: str
) -> None:
    """No request of any key is begun meanwhile; what was on its way is not held up."""
    held = threading.Event()
    receiver.plan += [refused(503, retry_after="1"), Answer(until=held)]
    for number in range(6):
        send(webhooks, number, key=f"k{number}")
    webhooks.start(TOPIC, tidings_http_max_in_flight="2", max_retries=retries, kafka_retry_backoff_ms="10")
    wait_for("a second request", lambda: len(receiver.seen) > 1)
    held.wait(0.3)  # the 503 is there before the other is answered, which would make room for a third
    held.set()
    webhooks.wait()
    began = receiver.seen[0].came
    assert len([seen for seen in receiver.seen if seen.came < began + 0.9]) <= 2
    assert sorted(receiver.numbers()) == list(range(6))


def test_the_pause_of_kafka_s_option_is_kept(webhooks: Webhooks, receiver: Receiver) -> None:
    receiver.plan.append(refused(500))
    send(webhooks, 1)
    with capture_logs() as logs:
        webhooks.start(TOPIC, max_retries="0", kafka_retry_backoff_ms="70")
        webhooks.wait()
    assert [line["seconds"] for line in logs if line["event"].startswith("a sink is busy")] == [0.07]


def test_an_answer_that_is_lost_makes_the_same_request_again(webhooks: Webhooks, receiver: Receiver) -> None:
    """The receiver has it twice, with one id: at least once."""
    receiver.plan += [TAKEN, LOST]
    send(webhooks, 1, 2, 3)
    webhooks.start(TOPIC)
    webhooks.wait()
    assert receiver.numbers() == [1, 2, 2, 3]
    ids = [seen.headers["idempotency-key"] for seen in receiver.seen]
    assert ids == ["orders-0-0", "orders-0-1", "orders-0-1", "orders-0-2"]


def test_a_receiver_that_starts_again_gets_everything(webhooks: Webhooks, receiver: Receiver) -> None:
    webhooks.start(TOPIC)
    send(webhooks, 1)
    webhooks.wait()
    receiver.stop()
    with capture_logs() as logs:
        send(webhooks, 2, 3)
        wait_for("failed attempts", lambda: any("a sink is busy" in line["event"] for line in logs))
    receiver.start()
    webhooks.wait()
    assert receiver.numbers() == [1, 2, 3]


def test_one_that_does_not_answer_in_time_is_asked_again(webhooks: Webhooks, receiver: Receiver) -> None:
    never = threading.Event()
    receiver.plan.append(Answer(until=never))
    send(webhooks, 1, 2)
    webhooks.start(TOPIC, http_timeout="1")
    webhooks.wait()
    never.set()
    assert receiver.numbers() == [1, 1, 2]


def test_what_was_answered_for_is_not_sent_again_with_its_batch(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    receiver.plan += [TAKEN, refused(500), refused(500)]
    send(webhooks, 1, 2, 3)
    webhooks.start(TOPIC, max_retries="0")
    webhooks.wait()
    assert receiver.numbers() == [1, 2, 3]
    assert len(receiver.seen) == 5


@pytest.mark.parametrize("batching", ["false", "true"])
def test_bad_records_become_dead_letters_and_the_others_are_delivered(
    webhooks: Webhooks, receiver: Receiver, batching: str
) -> None:
    def decide(seen: Seen) -> Answer:
        bad = any(json.loads(line)["number"] % 4 == 2 for line in seen.body.split())
        return refused(422) if bad else TAKEN

    receiver.decide = decide
    send(webhooks, *range(9))
    webhooks.send(TOPIC, "k", None)
    webhooks.start(
        TOPIC, batching_enabled=batching, **{name.replace(".", "_"): text for name, text in TOLERANT.items()}
    )
    webhooks.wait()
    assert receiver.numbers() == [0, 1, 3, 4, 5, 7, 8]
    letters = webhooks.worker.kafka.topics["letters"]
    assert [json.loads(value or b"null") for _, value, _ in letters] == [None, {"number": 2}, {"number": 6}]
    said = dict(letters[1][2] or [])
    assert said["__connect.errors.offset"] == b"2"
    assert b"it answers 422" in (said["__connect.errors.exception.message"] or b"")
    assert not any(b"secret-value" in (text or b"") for text in said.values())


def test_a_bad_record_ends_the_task_with_its_place(webhooks: Webhooks, receiver: Receiver) -> None:
    """Nothing that the receiver said is told, nor the path of its URL, which may be a secret."""
    receiver.plan += [TAKEN, refused(400)]
    send(webhooks, 1, 2)
    with capture_logs() as logs:
        webhooks.start(TOPIC)
        error = failure(webhooks)
    assert isinstance(error, RecordError)
    assert "topic orders, partition 0, offset 1" in str(error)
    assert "it answers 400" in str(error)
    for secret in ("secret-value", "/hook"):
        assert secret not in f"{error} {error.hint} {logs}"


def test_a_record_without_a_value_may_be_left_out(webhooks: Webhooks, receiver: Receiver) -> None:
    send(webhooks, 1)
    webhooks.send(TOPIC, "k", None)
    webhooks.start(TOPIC, tidings_http_null_values="ignore")
    webhooks.wait()
    assert receiver.numbers() == [1]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (302, "redirect"),
        (307, "redirect"),
        (401, "refuses the login"),
        (404, "takes no records"),
        (410, "takes no records"),
    ],
)
def test_an_answer_that_is_about_all_records_ends_the_task(
    webhooks: Webhooks, receiver: Receiver, status: int, words: str
) -> None:
    """Also where errors are tolerated: otherwise all would become dead letters. A redirect is not followed."""
    receiver.plan.append(refused(status, location=f"{receiver.url}/other"))
    send(webhooks, 1)
    webhooks.start(TOPIC, **{name.replace(".", "_"): text for name, text in TOLERANT.items()})
    error = failure(webhooks)
    assert isinstance(error, TargetError)
    assert words in str(error)
    assert len(receiver.seen) == 1
    assert webhooks.letters() == []


def test_what_answers_mean_can_be_said(webhooks: Webhooks, receiver: Receiver) -> None:
    receiver.plan += [refused(409), refused(500), refused(404), TAKEN]
    send(webhooks, 1, 2, 3)
    webhooks.start(
        TOPIC,
        tidings_http_statuses_done="409",
        tidings_http_statuses_record="500",
        tidings_http_statuses_retry="404",
        **{name.replace(".", "_"): text for name, text in TOLERANT.items()},
    )
    webhooks.wait()
    assert [letter["number"] for letter in webhooks.letters()] == [2]
    assert receiver.numbers() == [3]


def test_requests_of_one_key_follow_one_another_and_others_do_not_wait(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    held = threading.Event()
    receiver.decide = lambda seen: Answer(until=held) if seen.json()["number"] == 0 else TAKEN
    send(webhooks, 0, 1, 2, key="held")
    for number in range(10, 30):
        send(webhooks, number, key=f"k{number % 5}")
    webhooks.start(TOPIC, tidings_http_max_in_flight="4")
    wait_for("the other keys", lambda: len(receiver.seen) == 21)
    assert receiver.busy == 1
    held.set()
    webhooks.wait()
    numbers = receiver.numbers()
    assert numbers[-2:] == [1, 2]
    assert sorted(numbers[:-2]) == [0, *range(10, 30)]


@pytest.mark.parametrize("batching", ["false", "true"])
def test_the_order_of_keys_holds_whatever_goes_wrong(
    webhooks: Webhooks, receiver: Receiver, batching: str
) -> None:
    """Random answers, lost ones among them: repetitions are of what was sent last, and nothing is missing."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    receiver.decide = lambda _: chance.choice(
        [TAKEN, TAKEN, TAKEN, LOST, refused(429, retry_after="0"), refused(500)]
    )
    wanted = defaultdict(list)
    for number in range(120):
        key = f"k{chance.randrange(8)}"
        wanted[key].append(number)
        send(webhooks, number, key=key)
    webhooks.start(
        TOPIC,
        tidings_http_max_in_flight="5",
        batching_enabled=batching,
        batch_max_size="7",
        retry_backoff_ms="2",
        kafka_retry_backoff_ms="2",
    )
    webhooks.wait()
    arrived = defaultdict(list)
    keys = {number: key for key, numbers in wanted.items() for number in numbers}
    for number in receiver.numbers():
        arrived[keys[number]].append(number)
    for key, numbers in wanted.items():
        first_seen = list(dict.fromkeys(arrived[key]))
        assert first_seen == numbers
        if batching == "false":
            assert arrived[key] == sorted(arrived[key]), "a record came again after a later one of its key"


def test_a_batch_has_as_many_records_and_bytes_as_the_options_say(
    webhooks: Webhooks, receiver: Receiver
) -> None:
    send(webhooks, 1, 2, 3, 4, 5)
    webhooks.start(
        TOPIC,
        batching_enabled="true",
        batch_max_size="2",
        batch_prefix="[",
        batch_separator=",",
        batch_suffix="]",
    )
    webhooks.wait()
    assert [[row["number"] for row in seen.json()] for seen in receiver.seen] == [[1, 2], [3, 4], [5]]
    webhooks.worker.stop()
    receiver.seen.clear()
    webhooks.config |= TOLERANT
    webhooks.send(TOPIC, "k", {"number": "x" * 50})
    send(webhooks, 6, 7, 8)
    webhooks.start(TOPIC, batching_enabled="true", tidings_http_max_body_bytes="30")
    webhooks.wait()
    assert [len(seen.body.split()) for seen in receiver.seen] == [2, 1]
    assert [letter["number"] for letter in webhooks.letters()] == ["x" * 50]


def test_a_slow_receiver_gets_a_put_in_parts(
    webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no put lasts longer than the group waits; what was taken counts, and the sink is not said to be busy."""
    monkeypatch.setattr("tidings_sinks.http.settings._MOST_PUT_SECONDS", 0.6)

    def slowly(_: Seen) -> Answer:
        threading.Event().wait(0.2)
        return TAKEN

    receiver.decide = slowly
    send(webhooks, *range(8))
    with capture_logs() as logs:
        webhooks.start(TOPIC)
        webhooks.wait()
    assert receiver.numbers() == list(range(8))
    events = [line["event"] for line in logs]
    assert "a sink is slow and goes on" in events
    assert not any("busy" in event for event in events)
