"""`tidings doctor` on a sink of HTTP requests: the receiver is asked without a record."""

from pathlib import Path

from diagnosing import Diagnose
from webhook_parts import HTTP_SINK, Answer, Receiver, Seen, issued, refused


def test_what_is_wrong_with_a_receiver(receiver: Receiver, diagnose: Diagnose, tmp_path: Path) -> None:
    config = {
        "connector.class": HTTP_SINK,
        "topics": "t",
        "http.url": f"{receiver.url}/${{topic}}?key=secret-word",
        "http.authorization.type": "none",
    }
    assert diagnose(config) == {}
    assert [(seen.path, seen.body) for seen in receiver.seen] == [("/hook/t?key=secret-word", b"")]
    receiver.decide = lambda _: refused(405)
    assert diagnose(config) == {}, "it takes POST only"
    receiver.decide = lambda _: refused(308, location="http://127.0.0.1/")
    assert set(diagnose(config)) == {"redirect"}
    static = {"http.authorization.type": "static", "http.headers.authorization": "Bearer secret-word"}

    def takes_another(seen: Seen) -> Answer:
        assert seen.headers["authorization"] == "Bearer secret-word"
        return refused(401)

    receiver.decide = takes_another
    assert set(diagnose(config | static)) == {"login-refused"}
    oauth2 = {
        "http.authorization.type": "oauth2",
        "oauth2.access.token.url": receiver.url,
        "oauth2.client.id": "me",
        "oauth2.client.secret": "secret-word",
    }
    receiver.decide = lambda _: refused(401)
    assert "gives no access token" in diagnose(config | oauth2)["target"]
    assert set(diagnose(config | {"http.url": "http://127.0.0.1:1/secret-word"})) == {"unreachable"}
    key, trusted = issued(tmp_path)
    with Receiver(key) as secured:
        https = config | {"http.url": secured.url}
        assert "Certificate" in diagnose(https)["unreachable"]
        trust = {"http.ssl.truststore.location": str(trusted), "http.ssl.truststore.type": "PEM"}
        assert diagnose(https | trust) == {}
