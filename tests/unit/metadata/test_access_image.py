"""Passwords' verifiers, access rules and quotas in the image: set, removed, on disk and in a snapshot."""

from __future__ import annotations

import pytest

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, ScramVerifier
from headrace.access.identity import Principal
from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.quotas.entity import CLIENT_ID, DEFAULT, USER, EntityPart
from headrace.access.rules.acl import Acl
from headrace.metadata.image.cluster_image import EMPTY_IMAGE, changes
from headrace.metadata.image.record_encoding import decode_record, encode_record
from headrace.metadata.image.records import AclChanged, QuotaChanged, ScramChanged
from headrace.metadata.image.snapshots import snapshot_records

ALICE = ScramUser("alice", ScramMechanism.SCRAM_SHA_256)
VERIFIER = ScramVerifier(b"salt", 4096, b"stored", b"server")
RULE = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.PREFIXED,
    Principal("User", "alice"),
    "*",
    Operation.READ,
    Permission.ALLOW,
)
BOTH = (EntityPart(CLIENT_ID, DEFAULT), EntityPart(USER, "alice"))
EVERYBODY = (EntityPart(USER, DEFAULT),)

SET_AND_UNSET = [
    (ScramChanged(ALICE, VERIFIER), ScramChanged(ALICE, None)),
    (AclChanged(RULE, exists=True), AclChanged(RULE, exists=False)),
    (QuotaChanged(BOTH, "producer_byte_rate", 1024.5), QuotaChanged(BOTH, "producer_byte_rate", None)),
]
ALL = [records[0] for records in SET_AND_UNSET]


@pytest.mark.parametrize("record", [record for records in SET_AND_UNSET for record in records])
def test_each_record_comes_back_from_its_bytes(record):
    assert decode_record(encode_record(record)) == record


def test_the_bytes_on_disk_stay_as_they_are():
    hexes = [encode_record(record).hex(" ") for record in ALL]
    assert hexes == [
        "0b 00 06 61 6c 69 63 65 01 00 00 10 00 05 73 61 6c 74 07 73 74 6f 72 65 64 07 73 65 72 76 65 72 00",
        "0c 00 02 07 6f 72 64 65 72 73 04 05 55 73 65 72 06 61 6c 69 63 65 02 2a 03 03 01 00",
        (
            "0d 00 03 0a 63 6c 69 65 6e 74 2d 69 64 00 00 05 75 73 65 72 06 61 6c 69 63 65 00 13 70 72"
            " 6f 64 75 63 65 72 5f 62 79 74 65 5f 72 61 74 65 40 90 02 00 00 00 00 00 01 00"
        ),
    ]


@pytest.mark.parametrize(("said", "unsaid"), SET_AND_UNSET)
def test_what_is_removed_leaves_nothing_behind(said, unsaid):
    image = EMPTY_IMAGE.apply(said)
    assert image.access != EMPTY_IMAGE.access
    assert image.apply(unsaid) == EMPTY_IMAGE
    assert EMPTY_IMAGE.apply(unsaid) == EMPTY_IMAGE  # removing twice is as good as once


def test_a_snapshot_leads_to_the_same_image():
    image = EMPTY_IMAGE.apply_all([*ALL, QuotaChanged(EVERYBODY, "request_percentage", 50.0)])
    assert EMPTY_IMAGE.apply_all(snapshot_records(image)) == image


def test_a_part_that_has_not_changed_is_the_same_object():
    before = EMPTY_IMAGE.apply_all(ALL)
    after = before.apply(QuotaChanged(EVERYBODY, "request_percentage", 50.0))
    assert after.access.acls is before.access.acls
    assert after.access.verifiers is before.access.verifiers


def test_nobody_who_follows_partitions_has_to_look_again():
    assert changes(ALL) == changes([])


def test_a_verifier_shows_no_secret_when_it_is_printed():
    assert "stored" not in repr(VERIFIER)
    assert "server" not in repr(ScramChanged(ALICE, VERIFIER))
