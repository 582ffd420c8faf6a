"""Patterns tell technical topics from business topics, and leave Tidings' own out."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tidings_lakehouse.choices import Choices, type_rules
from tidings_lakehouse.settings import LakehouseSettings, WarehouseSettings
from tidings_lakehouse.spark.gateway import executor_conf
from tidings_lakehouse.spark.session import prepare_warehouse, session_conf
from tidings_service import SettingsError, load_settings

SETTINGS = LakehouseSettings(
    kafka="k:1", registry="http://r", source="shop", lakehouse_domains="shop, fulfil-ment"
)


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("shop.public.orders", "technical"),
        ("shop.public.v1_orders", "technical"),
        ("shop.order-placed.v1", "business"),
        ("fulfil-ment.order-placed.v10", "business"),
        ("other.order-placed.v10", None),
        ("myshop.order-placed.v1", None),
        ("shop.transaction", "technical"),
        ("other.public.orders", None),
        ("tidings.shop.change-sets", None),
        ("tidings.shop.v1", None),
        ("shop.a.public.orders", None),
        ("shopX.public.orders", None),
    ],
)
def test_topics_by_pattern(topic: str, kind: str | None) -> None:
    patterns = {"technical": SETTINGS.technical_pattern, "business": SETTINGS.business_pattern}
    assert [name for name, pattern in patterns.items() if re.fullmatch(pattern, topic)] == (
        [kind] if kind else []
    )


def test_without_domains_it_is_that_of_the_source() -> None:
    settings = LakehouseSettings(kafka="k:1", registry="http://r", source="a.b")
    assert re.fullmatch(settings.business_pattern, "a.b.order-placed.v1")
    assert not re.fullmatch(settings.business_pattern, "axb.order-placed.v1")


def test_a_domain_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_KAFKA", "k:1")
    monkeypatch.setenv("TIDINGS_REGISTRY", "http://r")
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_DOMAINS", "shop;other")
    with pytest.raises(SettingsError, match=r"TIDINGS_LAKEHOUSE_DOMAINS: .*separate domains by commas"):
        load_settings(LakehouseSettings)


def test_a_pattern_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_KAFKA", "k:1")
    monkeypatch.setenv("TIDINGS_REGISTRY", "http://r")
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_TECHNICAL", "shop.(")
    with pytest.raises(SettingsError, match=r"TIDINGS_LAKEHOUSE_TECHNICAL: .*not a regular expression"):
        load_settings(LakehouseSettings)


def test_places_on_disk_and_elsewhere(tmp_path: Path) -> None:
    local = LakehouseSettings(kafka="k:1", registry="http://r", lakehouse_warehouse=str(tmp_path))
    assert local.catalog_uri == f"jdbc:sqlite:{tmp_path}/catalog.db"
    assert local.warehouse_uri == tmp_path.as_uri()
    assert local.checkpoint_uri == f"{tmp_path.as_uri()}/checkpoints"
    remote = LakehouseSettings(kafka="k:1", registry="http://r", lakehouse_warehouse="s3://lake/x")
    assert remote.warehouse_uri == "s3://lake/x"
    with pytest.raises(SettingsError, match="TIDINGS_LAKEHOUSE_CATALOG"):
        _ = remote.catalog_uri
    with pytest.raises(SettingsError, match="TIDINGS_LAKEHOUSE_CHECKPOINT"):
        _ = remote.checkpoint_uri


def test_a_catalog_that_cannot_tell_two_writers_apart_is_refused() -> None:
    settings = WarehouseSettings(
        lakehouse_warehouse="s3://lake/x", lakehouse_spark_conf="spark.sql.catalog.lake.type=hadoop"
    )
    with pytest.raises(SettingsError, match="TIDINGS_LAKEHOUSE_SPARK_CONF: a Hadoop catalog"):
        prepare_warehouse(settings)


def test_spark_conf_is_taken_apart() -> None:
    assert WarehouseSettings(lakehouse_spark_conf="spark.a=1; spark.b=x=y").spark_conf == {
        "spark.a": "1",
        "spark.b": "x=y",
    }
    with pytest.raises(SettingsError, match="TIDINGS_LAKEHOUSE_SPARK_CONF"):
        _ = WarehouseSettings(lakehouse_spark_conf="a=1").spark_conf


@pytest.mark.parametrize(
    ("master", "conf", "tasks"),
    [
        ("local[3]", {}, 3),
        ("local", {}, 1),
        ("spark://m:7077", {}, 2),
        ("spark://m:7077", {"spark.cores.max": "8"}, 8),
        ("spark://m:7077", {"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
    ],
)
def test_shuffles_have_as_many_parts_as_tasks_run_at_once(
    master: str, conf: dict[str, str], tasks: int
) -> None:
    settings = WarehouseSettings(
        lakehouse_master=master,
        lakehouse_spark_conf=";".join(f"{key}={value}" for key, value in conf.items()),
    )
    assert session_conf(settings)["spark.sql.shuffle.partitions"] == str(tasks)


def test_a_number_of_cores_that_is_none_is_named() -> None:
    settings = WarehouseSettings(
        lakehouse_master="spark://m:7077", lakehouse_spark_conf="spark.cores.max=many"
    )
    with pytest.raises(SettingsError, match=r"TIDINGS_LAKEHOUSE_SPARK_CONF: spark\.cores\.max: many is not"):
        session_conf(settings)


def test_executors_elsewhere_get_the_jars_and_the_drivers_limits_and_the_persons_options_come_last() -> None:
    jars = [Path("/a.jar"), Path("/b.jar")]
    assert executor_conf({"spark.master": "local[2]"}, jars) == {}
    given = {
        "spark.master": "spark://m:7077",
        "spark.executor.extraJavaOptions": "-Dx=y",
        "spark.executor.extraClassPath": "/c.jar",
    }
    conf = executor_conf(given, jars)
    assert conf["spark.executor.extraClassPath"] == "/a.jar:/b.jar:/c.jar"
    options = conf["spark.executor.extraJavaOptions"].split()
    assert any(option.startswith("-Dorg.apache.avro.limits.bytes.maxLength=") for option in options)
    assert options[-1] == "-Dx=y"
    assert "spark.driver.host" not in session_conf(WarehouseSettings(lakehouse_master="spark://m:7077"))
    assert session_conf(WarehouseSettings())["spark.driver.host"] == "127.0.0.1"


def test_types_are_chosen_by_the_first_pattern_but_not_those_of_a_key() -> None:
    rules = type_rules(r"technical\.a=numeric(10); technical\..*=numeric( 2 )")
    choices = Choices(rules=rules)
    assert [choices.of("s.public.a", f"technical.{one}").types.numeric_scale for one in "ab"] == [10, 2]
    assert choices.of("s.public.a", "business.a_v1").types.numeric_scale is None
    of_table = replace(choices.of("s.public.a", "technical.a"), keys=frozenset({"id"}))
    assert (of_table.of("id").numeric_scale, of_table.of("amount").numeric_scale) == (None, 10)


@pytest.mark.parametrize("text", ["technical.a", "=numeric(1)", "a=numeric(39)", "a=text", "[=numeric(1)"])
def test_what_is_not_a_choice_of_types_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"numeric|regular expression") as refused:
        type_rules(text)
    assert "is not" in str(refused.value)
