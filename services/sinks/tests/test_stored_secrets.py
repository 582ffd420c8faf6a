"""A stored password of a sink, or of a query source, goes nowhere else than where it was meant for."""

import pytest

from tidings_connect.config.secret_targets import misdirected
from tidings_connect.config.secrets import MASK, with_stored_secrets
from tidings_connect.connector import Connector
from tidings_connect.errors import OptionError
from tidings_connect.registered import registered

CONNECTORS = [made() for made in registered("tidings.connectors")]


@pytest.mark.listing
@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda connector: connector.class_name)
def test_every_password_of_a_connector_has_a_target(connector: Connector) -> None:
    """Some other option of the connector says where it goes, so that it has to be given again when that changes."""
    secret = [name for name, option in connector.options.items() if option.secret]
    for name in secret:
        old = dict.fromkeys(connector.options, "here")
        targets = [
            option
            for option in connector.options
            if misdirected([name], secret, old, old | {option: "there"})
        ]
        assert targets, name
        assert name not in targets


@pytest.mark.parametrize(
    ("secret", "target"),
    [
        ("connection.password", "connection.url"),
        ("connection.password", "connection.trust.all.certificates"),
        ("connection.uri", "connection.ssl.truststore"),
        ("query.masked", "connection.url"),
        ("query.masked", "connection.user"),
        ("http.headers.authorization", "http.url"),
        ("http.headers.authorization", "http.ssl.trust.all.certs"),
        ("tidings.http.signature.secrets", "http.url"),
        ("oauth2.client.secret", "oauth2.access.token.url"),
        ("oauth2.client.secret", "http.url"),
        ("oauth2.client.secret", "http.proxy.host"),
        ("neo4j.authentication.basic.password", "neo4j.uri"),
        ("aws.secret.access.key", "store.url"),
    ],
)
def test_it_has_to_be_given_again_when_its_target_changes(secret: str, target: str) -> None:
    stored = {secret: "hush", target: "here", "max.retries": "1"}
    shown = stored | {secret: MASK}
    assert with_stored_secrets(shown | {"max.retries": "2"}, stored) == stored | {"max.retries": "2"}
    with pytest.raises(OptionError, match=f"{secret}: give the value again, because {target} changed"):
        with_stored_secrets(shown | {target: "there"}, stored)
    given = stored | {target: "there"}
    assert with_stored_secrets(given, stored) == given
