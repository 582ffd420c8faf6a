"""What ``/connector-plugins`` says of a sink's options: what Kafka Connect 4.3.1 says of its own (SinkConnectorConfig.configDef)."""

import pytest

from tidings_connect.config.definitions import connector_definitions, groups, recommended
from tidings_connect.config.validation import validation_report

OF_KAFKA_CONNECT = """
name|STRING|true||HIGH|Common|1|MEDIUM|Connector name
connector.class|STRING|true||HIGH|Common|2|LONG|Connector class
connector.plugin.version|STRING|false|1.0|MEDIUM|Common|3|MEDIUM|Connector version
tasks.max|INT|false|1|HIGH|Common|4|SHORT|Tasks max
tasks.max.enforce|BOOLEAN|false|true|LOW|Common|5|SHORT|Enforce tasks max
key.converter|CLASS|false|*|LOW|Common|6|SHORT|Key converter class
key.converter.plugin.version|STRING|false|*|LOW|Common|7|SHORT|Key converter version
value.converter|CLASS|false|*|LOW|Common|8|SHORT|Value converter class
value.converter.plugin.version|STRING|false|*|LOW|Common|9|SHORT|Value converter version
header.converter|CLASS|false|*|LOW|Common|10|SHORT|Header converter class
header.converter.plugin.version|STRING|false|*|LOW|Common|11|SHORT|Header converter version
transforms|LIST|false||LOW|Transforms|12|LONG|Transforms
predicates|LIST|false||LOW|Predicates|13|LONG|Predicates
config.action.reload|STRING|false|restart|LOW|Common|14|MEDIUM|Reload Action
errors.retry.timeout|LONG|false|0|MEDIUM|Error Handling|1|MEDIUM|Retry Timeout for Errors
errors.retry.delay.max.ms|LONG|false|60000|MEDIUM|Error Handling|2|MEDIUM|Maximum Delay Between Retries for Errors
errors.tolerance|STRING|false|none|MEDIUM|Error Handling|3|SHORT|Error Tolerance
errors.log.enable|BOOLEAN|false|false|MEDIUM|Error Handling|4|SHORT|Log Errors
errors.log.include.messages|BOOLEAN|false|false|MEDIUM|Error Handling|5|SHORT|Log Error Details
topics|LIST|false||HIGH|Common|4|LONG|Topics
topics.regex|STRING|false||HIGH|Common|4|LONG|Topics regex
errors.deadletterqueue.topic.name|STRING|false||MEDIUM|Error Handling|6|MEDIUM|Dead Letter Queue Topic Name
errors.deadletterqueue.topic.replication.factor|SHORT|false|3|MEDIUM|Error Handling|7|MEDIUM|Dead Letter Queue Topic Replication Factor
errors.deadletterqueue.context.headers.enable|BOOLEAN|false|false|MEDIUM|Error Handling|8|MEDIUM|Enable Error Context Headers
"""
GROUPS = ["Common", "Transforms", "Predicates", "Error Handling"]


def test_the_framework_s_options_of_a_sink_are_kafka_connect_s(counting: None) -> None:
    import listing

    connector = listing.List()
    found = connector_definitions(connector)
    own = {option.name for option in connector.own_options}
    shown = {
        name: "|".join(
            [
                d.name,
                d.type,
                str(d.required).lower(),
                "*" if "converter" in name else d.default_value or "",
                d.importance,
                d.group or "",
                str(d.order_in_group),
                d.width,
                d.display_name,
            ]
        )
        for name, d in found.items()
        if name not in own
    }
    expected = {line.partition("|")[0]: line for line in OF_KAFKA_CONNECT.strip().splitlines()}
    assert shown == expected
    assert list(shown) == list(expected)
    assert not any(definition.dependents for definition in found.values())
    assert all(connector.documentation(name) for name in shown)
    assert groups({}, connector)[:4] == GROUPS
    assert not {"Topic Creation", "Exactly Once Support", "offsets.topic"} & set(groups({}, connector))
    assert recommended(found["connector.plugin.version"], connector) == ["1.0"]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("errors.tolerance", "some", "String must be one of: none, all"),
        ("errors.log.enable", "1", "Expected value to be either true or false"),
        ("errors.retry.timeout", "1s", "Not a number of type LONG"),
        ("errors.deadletterqueue.topic.replication.factor", "40000", "Not a number of type SHORT"),
    ],
)
def test_a_wrong_value_of_the_framework_s_is_refused_in_kafka_connect_s_words(
    counting: None, name: str, value: str, problem: str
) -> None:
    import listing

    found = listing.List().problems({"topics": "a", "list.file": "b", name: value})
    assert found[name] == [f"Invalid value {value} for configuration {name}: {problem}"]


def test_a_validation_report_of_a_sink_lists_every_option_once(counting: None) -> None:
    config = {
        "connector.class": "List",
        "name": "x",
        "topics": "a",
        "list.file": "b",
        "tasks.max.enforce": "true",
    }
    report = validation_report(config, {}, {})
    names = [entry["value"]["name"] for entry in report["configs"]]
    assert len(names) == len(set(names))
    values = {entry["value"]["name"]: entry["value"]["value"] for entry in report["configs"]}
    assert (values["topics"], values["topics.regex"]) == ("a", "")
    assert values["errors.deadletterqueue.topic.replication.factor"] == "3"
