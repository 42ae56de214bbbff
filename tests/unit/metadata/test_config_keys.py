from __future__ import annotations

from dataclasses import fields

import pytest

from headrace.metadata.configs.config_keys import CONFIG_TEXT_MAX, ConfigKey, ConfigType, list_with, list_without
from headrace.metadata.configs.node_configs import BEHAVIOUR_CONFIGS, NODE_CONFIGS
from headrace.metadata.configs.settings import (
    DEFAULT_NODE_SETTINGS,
    DEFAULT_TOPIC_SETTINGS,
    NodeSettings,
    TopicSettings,
    topic_settings_from,
)
from headrace.metadata.configs.topic_configs import TOPIC_CONFIGS
from headrace.model.errors import ErrorCode, Refusal
from headrace.wire.batches.header import Codec

A_BOOLEAN = ConfigKey("a.boolean", ConfigType.BOOLEAN, "true", "")
AN_INT = ConfigKey("an.int", ConfigType.INT, "0", "")
A_LONG = ConfigKey("a.long", ConfigType.LONG, "0", "", low=-1)
A_RATIO = ConfigKey("a.ratio", ConfigType.DOUBLE, "0.5", "", low=0, high=1)
A_CHOICE = ConfigKey("a.choice", ConfigType.STRING, "x", "", allowed=("x", "y"))
A_LIST = ConfigKey("a.list", ConfigType.LIST, "", "", allowed=("x", "y"))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (A_BOOLEAN, "TRUE", True),
        (A_BOOLEAN, " false ", False),
        (AN_INT, "2147483647", 2**31 - 1),
        (AN_INT, "-2147483648", -(2**31)),
        (A_LONG, "9223372036854775807", 2**63 - 1),
        (A_LONG, " -1 ", -1),
        (A_RATIO, "1", 1.0),
        (A_RATIO, ".25", 0.25),
        (A_RATIO, "5e-1", 0.5),
        (A_CHOICE, "y", "y"),
        (A_LIST, "", ()),
        (A_LIST, "y, x", ("y", "x")),
    ],
)
def test_a_text_and_its_value(key, text, value):
    assert key.parse(text) == value


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (A_BOOLEAN, "yes", "'true' or 'false', not 'yes'"),
        (AN_INT, "2147483648", "a whole number"),
        (AN_INT, "1_000", "a whole number"),
        (AN_INT, "٣", "a whole number"),
        (AN_INT, "1.0", "a whole number"),
        (AN_INT, "", "a whole number"),
        (AN_INT, "9" * 5000, "…"),
        (A_LONG, "9223372036854775808", "of at least -1"),
        (A_LONG, "-2", "of at least -1"),
        (ConfigKey("bytes", ConfigType.INT, "1048576", "", low=1 << 20), "1", "of at least 1048576, not '1'"),
        (A_RATIO, "nan", "a number from 0 to 1"),
        (A_RATIO, "1e999", "a number from 0 to 1"),
        (A_RATIO, "1.01", "a number from 0 to 1"),
        (A_CHOICE, "X", "one of x, y"),
        (A_LIST, "x,z", "a comma-separated list of the values x, y"),
        (A_LIST, "x,x", "each at most once"),
        (ConfigKey("free", ConfigType.STRING, "", ""), "a" * (CONFIG_TEXT_MAX + 1), "a text"),
    ],
)
def test_a_bad_text_is_refused_with_what_is_allowed(key, text, words):
    with pytest.raises(Refusal) as refusal:
        key.parse(text)
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
    assert key.name in refusal.value.message
    assert words in refusal.value.message
    assert len(refusal.value.message) < 300


def test_every_default_is_allowed():
    for key in (*TOPIC_CONFIGS.values(), *NODE_CONFIGS.values()):
        if key.default is not None:
            key.parse(key.default)


def test_the_typed_settings_have_one_field_for_each_name():
    assert [field.name for field in fields(TopicSettings) if field.init] == sorted(
        key.field for key in TOPIC_CONFIGS.values()
    )
    assert [field.name for field in fields(NodeSettings)] == [key.field for key in BEHAVIOUR_CONFIGS]


def test_the_tables_are_sorted_because_they_are_shown_so():
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)
    assert list(NODE_CONFIGS) == sorted(NODE_CONFIGS)


def test_the_types_of_values_are_those_that_the_fields_declare():
    names = {"bool": bool, "int": int, "float": float, "str": str, "tuple[str, ...]": tuple}
    for settings in (DEFAULT_TOPIC_SETTINGS, DEFAULT_NODE_SETTINGS):
        for field in fields(settings):
            if field.init:
                assert type(getattr(settings, field.name)) is names[field.type], field.name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("retention_ms", 604_800_000),
        ("segment_bytes", 1_073_741_824),
        ("max_message_bytes", 1_048_588),
        ("index_interval_bytes", 4096),
        ("message_timestamp_after_max_ms", 3_600_000),
        ("min_insync_replicas", 2),
        ("cleanup_policy", ("delete",)),
        ("durability", "flushed"),
        ("codec", None),
        ("commits_when_flushed", True),
        ("deletes_old_segments", True),
        ("is_compacted", False),
    ],
)
def test_defaults_that_people_count_on(field, value):
    assert getattr(DEFAULT_TOPIC_SETTINGS, field) == value


def test_what_follows_from_settings():
    compacted = topic_settings_from({"cleanup.policy": "compact", "compression.type": "zstd"})
    assert compacted.is_compacted
    assert not compacted.deletes_old_segments
    assert compacted.codec is Codec.ZSTD
    opened = topic_settings_from({"compression.type": "uncompressed"})
    assert opened.codec is Codec.NONE
    stamped = topic_settings_from({"message.timestamp.type": "LogAppendTime"})
    assert (stamped.codec, stamped.is_log_append_time) == (None, True)
    endless = topic_settings_from({"cleanup.policy": "", "headrace.durability": "written"})
    assert (endless.is_compacted, endless.deletes_old_segments, endless.commits_when_flushed) == (False, False, False)


@pytest.mark.parametrize(
    ("text", "added", "removed", "with_added", "without_removed"),
    [
        ("", "a", "a", "a", ""),
        ("a,b", "b,c", "a", "a,b,c", "b"),
        ("a", "", "", "a", "a"),
        ("a,b", "c,c", "b,b,z", "a,b,c", "a"),
    ],
)
def test_lists_grow_and_shrink_by_elements(text, added, removed, with_added, without_removed):
    assert list_with(text, added) == with_added
    assert list_without(text, removed) == without_removed
