"""Options are read as the official connector reads them, and refused in one sentence."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.client.reading.offsets import Edge, IsolationLevel
from headrace.client.security.credentials import PasswordCredentials
from headrace.model.names import TopicPartition
from headrace_spark.codec.columns import SCHEMA, SCHEMA_WITH_HEADERS
from headrace_spark.source.options import (
    Assign,
    AtOffsets,
    AtTime,
    AtTimes,
    SourceOptions,
    Subscribe,
    SubscribePattern,
)

if TYPE_CHECKING:
    from pathlib import Path

    from headrace_spark.source.options import ConsumerStrategy, OffsetSpec

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
LEAST = {**SERVERS, "subscribe": "orders"}
ORDERS_0 = TopicPartition("orders", 0)


def parse(**options: str) -> SourceOptions:
    return SourceOptions.parse({**LEAST, **options})


@pytest.mark.parametrize(
    ("option", "text", "strategy"),
    [
        ("subscribe", " orders, clicks,,orders", Subscribe(("orders", "clicks"))),
        ("SUBSCRIBEPATTERN", " ord.* ", SubscribePattern("ord.*")),
        (
            "Assign",
            '{"orders":[1,0],"clicks":[2]}',
            Assign((TopicPartition("clicks", 2), ORDERS_0, TopicPartition("orders", 1))),
        ),
    ],
)
def test_partitions_are_chosen_in_three_ways(option: str, text: str, strategy: ConsumerStrategy) -> None:
    assert SourceOptions.parse({**SERVERS, option: text}).strategy == strategy


@pytest.mark.parametrize(
    ("options", "offset_spec"),
    [
        ({}, None),
        ({"startingOffsets": " Earliest"}, Edge.EARLIEST),
        ({"STARTINGOFFSETS": "LATEST"}, Edge.LATEST),
        ({"startingOffsets": '{"orders":{"0":-2}}'}, AtOffsets({ORDERS_0: -2})),
        ({"startingTimestamp": "17", "startingOffsets": "latest"}, AtTime(17)),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":17}}', "startingOffsets": "latest"},
            AtTimes({ORDERS_0: 17}),
        ),
        ({"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"orders":{"0":17}}'}, AtTime(1)),
    ],
)
def test_the_start_is_taken_in_the_connectors_order(options: dict[str, str], offset_spec: OffsetSpec | None) -> None:
    assert parse(**options).starting == offset_spec


def test_defaults_are_the_connectors() -> None:
    options = parse()
    assert options.fail_on_data_loss
    assert options.kafka.isolation is IsolationLevel.READ_UNCOMMITTED
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.for_batch(options.schema).starting is Edge.EARLIEST
    assert options.for_batch(options.schema).ending is Edge.LATEST
    assert options.for_stream(options.schema).starting is Edge.LATEST


def test_numbers_words_and_times_are_read() -> None:
    options = SourceOptions.parse(
        {
            **LEAST,
            "failOnDataLoss": "FALSE",
            "minPartitions": "12",
            "maxRecordsPerPartition": " 5 ",
            "minOffsetsPerTrigger": "10",
            "maxOffsetsPerTrigger": "10",
            "maxTriggerDelay": "90s",
            "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "10",
            "startingOffsetsByTimestampStrategy": "Latest",
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.fetch.max.bytes": "2000",
            "kafka.client.id": "nightly",
            "kafka.request.timeout.ms": "2500",
            "kafka.default.api.timeout.ms": "7000",
        }
    )
    assert not options.fail_on_data_loss
    assert (options.min_partitions, options.max_records_per_partition) == (12, 5)
    assert (options.min_offsets_per_trigger, options.max_offsets_per_trigger) == (10, 10)
    assert options.max_trigger_delay_ms == 90_000
    assert (options.offset_retry_count, options.offset_retry_interval_ms) == (5, 10)
    assert options.late_start_is_latest
    assert options.kafka.is_read_committed
    assert (options.kafka.partition_fetch_bytes, options.kafka.fetch_bytes) == (1000, 2000)
    settings = options.kafka.settings
    assert (settings.client_id, settings.request_timeout_s, settings.retry_for_s) == ("nightly", 2.5, 7.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.bootstrap.servers": " "}, "'kafka.bootstrap.servers' is missing"),
        ({"kafka.bootstrap.servers": "host:port"}, "'host:port' is not an address"),
        ({"subscribe": " , "}, "'subscribe' is ' , '; expected is a topic"),
        ({"subscribePattern": "x"}, "exactly one of .*; found are 'subscribe' and 'subscribePattern'"),
        ({"startingOffsets": "middle"}, "'startingOffsets' is 'middle'; expected is earliest, latest or"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "'startingOffsets' is .*; expected is"),
        ({"startingOffsets": '{"orders":{"0":true}}'}, "'startingOffsets' is .*; expected is"),
        ({"startingOffsets": '{"orders":[0]}'}, "'startingOffsets' is .*; expected is"),
        ({"endingOffsets": '{"orders":{"zero":1}}'}, "'endingOffsets' is .*; expected is"),
        ({"endingOffsets": "{}"}, "'endingOffsets' is '{}'; expected is"),
        ({"startingOffsetsByTimestamp": "yesterday"}, "'startingOffsetsByTimestamp' is 'yesterday'; expected is {"),
        ({"endingTimestamp": "yesterday"}, "'endingTimestamp' is 'yesterday'; expected are milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "expected is error or latest"),
        ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' is 'maybe'; expected is true or false"),
        ({"includeHeaders": "1"}, "'includeHeaders' is '1'; expected is true or false"),
        ({"minPartitions": "-1"}, "'minPartitions' is '-1'; expected is a positive whole number"),
        ({"maxOffsetsPerTrigger": "many"}, "'maxOffsetsPerTrigger' is 'many'; expected is a positive whole number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, r"\(9\) is higher than .* \(8\)"),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay' is 'soon'; expected is a time such as"),
        ({"maxTriggerDelay": "3 weeks"}, "'maxTriggerDelay' is '3 weeks'; expected is a time such as"),
        ({"columns": "value,size"}, "'columns' is 'value,size'; expected are names out of key, value"),
        ({"columns": ""}, "'columns' is ''; expected are names"),
        ({"kafka.auto.offset.reset": "earliest"}, "'kafka.auto.offset.reset' is not supported: .*'startingOffsets'"),
        ({"kafka.key.deserializer": "x"}, "'kafka.key.deserializer' is not supported"),
        ({"kafka.value.deserializer": "x"}, "'kafka.value.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "'kafka.enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "'kafka.interceptor.classes' is not supported"),
        ({"kafka.isolation.level": "serializable"}, "expected is read_uncommitted or read_committed"),
        ({"kafka.security.protocol": "TLS"}, "begin with 'kafka.': security.protocol is 'TLS'; expected one of"),
        ({"kafka.security.protocol": "SASL_SSL"}, "begin with 'kafka.': sasl.mechanism is not set"),
        ({"kafka.sasl.password": "hunter2"}, "sasl.password is set, but security.protocol is not set"),
        ({"kafka.ssl.truststore.location": "x"}, "ssl.truststore.location is set, but"),
        ({"kafka.fetch.max.bytes": "3000000000"}, "expected is a positive whole number"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says) as told:
        parse(**options)
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("text", ["0,1", '{"orders":0}', '{"orders":["0"]}', "{}", '["orders"]'])
def test_a_wrong_assignment_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"'assign' is .*; expected is"):
        SourceOptions.parse({**SERVERS, "assign": text})


def test_a_wrong_pattern_is_told() -> None:
    with pytest.raises(ValueError, match="no regular expression: missing"):
        SourceOptions.parse({**SERVERS, "subscribePattern": "orders-("})
    with pytest.raises(ValueError, match="'subscribePattern' is empty"):
        SourceOptions.parse({**SERVERS, "subscribePattern": " "})


def test_something_must_be_read() -> None:
    with pytest.raises(ValueError, match="'assign', 'subscribe' and 'subscribePattern' is needed; none is there"):
        SourceOptions.parse(SERVERS)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": "latest"}, "cannot start at the latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "cannot start at the latest"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "cannot end at the earliest"),
        (
            {"startingOffsets": '{"orders":{"0":1}}', "endingOffsets": '{"orders":{"0":1,"1":1}}'},
            "same partitions; only one of them names orders-1",
        ),
        (
            {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":8}}'},
            r"starting offset of orders-0 \(9\) is higher than the ending one \(8\)",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":9}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":8}}',
            },
            r"starting timestamp of orders-0 \(9\) is higher",
        ),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, r"\(9\) is later than 'endingTimestamp' \(8\)"),
    ],
)
def test_a_batch_query_checks_its_ends(options: dict[str, str], says: str) -> None:
    parsed = parse(**options)
    with pytest.raises(ValueError, match=says):
        parsed.for_batch(parsed.schema)


def test_ends_that_are_known_later_are_not_compared() -> None:
    parsed = parse(startingOffsets='{"orders":{"0":9}}', endingOffsets='{"orders":{"0":-1}}')
    assert parsed.for_batch(parsed.schema).ending == AtOffsets({ORDERS_0: -1})


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_streaming_query_has_no_end(option: str) -> None:
    parsed = parse(**{option: {"endingOffsets": "latest", "endingTimestamp": "1"}.get(option, '{"orders":{"0":1}}')})
    with pytest.raises(ValueError, match="a streaming query has no end"):
        parsed.for_stream(parsed.schema)


def test_the_schema_is_the_decoders_and_cannot_be_given() -> None:
    assert to_arrow_schema(parse().schema, timezone="UTC").equals(SCHEMA)
    assert to_arrow_schema(parse(includeHeaders="true").schema, timezone="UTC").equals(SCHEMA_WITH_HEADERS)
    with pytest.raises(ValueError, match="schema of this source is fixed"):
        parse().for_batch(StructType().add("id", "long"))
    with pytest.raises(ValueError, match="schema of this source is fixed"):
        parse().for_stream(StructType().add("id", "long"))


def test_columns_narrow_what_is_decoded() -> None:
    options = parse(columns=" timestamp , value")
    assert options.schema.simpleString() == "struct<timestamp:timestamp,value:binary>"
    assert (options.columns.key, options.columns.value, options.columns.headers) == (False, True, False)
    assert parse(columns="headers").columns.headers, "asked for by name, they need no second option"


def test_what_means_nothing_here_is_accepted() -> None:
    options = parse(
        **{
            "groupIdPrefix": "g",
            "kafka.group.id": "g",
            "kafkaConsumer.pollTimeoutMs": "1000",
            "kafka.session.timeout.ms": "1",
            "kafka.security.protocol": "plaintext",
            "path": "",
        }
    )
    assert options == parse()


def test_options_travel_pickled() -> None:
    options = parse(startingOffsets='{"orders":{"0":5}}', includeHeaders="true")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("written", ["sasl", "jaas"])
def test_a_secret_that_stands_elsewhere_does_not_travel_and_is_in_no_text(written: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    where = f"${{file:{secret}}}"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = {
        "sasl": {"kafka.sasl.username": "alice", "kafka.sasl.password": where},
        "jaas": {"kafka.sasl.jaas.config": f'{module} required username="alice" password="{where}";'},
    }
    options = parse(
        **{"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-256"}, **login[written]
    )
    credentials = PasswordCredentials("SCRAM-SHA-256", "alice", "hunter2")
    assert options.kafka.settings.security.credentials == credentials
    travelling = pickle.dumps(options)
    assert b"hunter2" not in travelling
    assert "hunter2" not in repr(options)
    assert pickle.loads(travelling) == options
    secret.write_text("rotated")
    assert pickle.loads(travelling).kafka.settings.security.credentials == replace(credentials, password="rotated")
