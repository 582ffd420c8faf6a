"""`tidings doctor` on sinks of documents; a right that is missing is a proxy's answer, as the server of the tests knows no users."""

from diagnosing import Diagnose
from search_parts import asking
from search_proxy import Proxy

from tidings_stack.opensearch import OpenSearchServer


def test_what_is_wrong_with_a_cluster(
    opensearch: OpenSearchServer, unique_name: str, diagnose: Diagnose
) -> None:
    ask = asking(opensearch.url)
    config = {
        "connector.class": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
        "connection.url": opensearch.url,
        "topics": unique_name,
    }
    assert diagnose(config) == {}
    assert not ask("GET", f"/{unique_name}", missing=False)  # nothing was made
    existing = {
        "existing.resource.type": "index",
        "topic.to.existing.resource.mapping": f"{unique_name}:{unique_name}",
    }
    assert set(diagnose(config | existing)) == {"no-index"}
    ask("PUT", f"/{unique_name}", {})
    assert diagnose(config | existing) == {}
    ask("PUT", f"/{unique_name}/_settings", {"index.blocks.write": True})
    found = diagnose(config)
    assert set(found) == {"index-blocked"}
    assert "index.blocks.write" in found["index-blocked"]
    ask("PUT", f"/{unique_name}/_settings", {"index.blocks.write": None})
    with Proxy(opensearch.port, login=("u", "secret-word")) as proxy:
        secured = config | {
            "connection.url": proxy.url,
            "connection.username": "u",
            "connection.password": "secret-word",
        }
        assert diagnose(secured) == {}
        assert set(diagnose(secured | {"connection.password": "wrong"})) == {"login-refused"}
        for denied in ("/_update/", "/_mapping"):
            proxy.denied = denied
            found = diagnose(secured)
            assert set(found) == {"no-right"}
            assert (
                f"role indices:{'data/write' if 'update' in denied else 'admin/mappings'}"
                in found["no-right"]
            )
    assert set(diagnose(config | {"connection.url": "http://127.0.0.1:1"})) == {"unreachable"}
    assert ask("GET", f"/{unique_name}/_count")["count"] == 0
