"""The settings of a session: ours, and the user's before them."""

from __future__ import annotations

from pathlib import Path

from ottla.pipelines.session import SessionSettings, spark_conf

STATE = Path("/state")


def test_a_users_setting_goes_before_ours() -> None:
    conf = spark_conf(SessionSettings("p", STATE, conf={"spark.sql.shuffle.partitions": "7"}), "-XX:+A")
    assert conf["spark.sql.shuffle.partitions"] == "7"


def test_javas_options_are_joined() -> None:
    given = {"spark.driver.extraJavaOptions": "-Dmine=1"}
    conf = spark_conf(SessionSettings("p", STATE, conf=given), "-XX:+A")
    assert conf["spark.driver.extraJavaOptions"] == "-XX:+A -Dmine=1"


def test_jars_are_joined() -> None:
    settings = SessionSettings("p", STATE, conf={"spark.jars": "mine.jar"}, jars=("a.jar", "b.jar"))
    assert spark_conf(settings, "")["spark.jars"] == "mine.jar,a.jar,b.jar"
    assert "spark.jars" not in spark_conf(SessionSettings("p", STATE), "")


def test_a_cluster_is_not_tied_to_this_machine() -> None:
    local = spark_conf(SessionSettings("p", STATE, "local[2]"), "")
    cluster = spark_conf(SessionSettings("p", STATE, "spark://host:7077"), "")
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in cluster
    assert "spark.sql.warehouse.dir" not in cluster
    assert cluster["spark.master"] == "spark://host:7077"


def test_state_is_kept_in_rocksdb_with_a_changelog() -> None:
    conf = spark_conf(SessionSettings("p", STATE), "")
    assert conf["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")
    assert conf["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] == "true"
