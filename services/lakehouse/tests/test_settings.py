"""Patterns tell technical topics from business topics, and leave Tidings' own out."""

import re
from pathlib import Path

import pytest

from tidings_lakehouse.settings import LakehouseSettings, WarehouseSettings
from tidings_lakehouse.spark.session import prepare_warehouse
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
