from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinators.groups.offsets.committed_offsets import CommittedOffsets
from headrace.model.names import NO_PRODUCER, ProducerId, TopicPartition
from headrace.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tests.properties.offsets_model import OffsetsModel, Place

PLACES: list[Place] = [("one", "orders", 0), ("two", "bills", 3)]
PRODUCER_IDS = (ProducerId(7), ProducerId(8))

WHAT_HAPPENS = ("commit", "commit", "commit", "commit in transaction", "commit in transaction", "end", "end", "forget")
events = st.tuples(st.sampled_from(WHAT_HAPPENS), st.sampled_from(PLACES), st.sampled_from(PRODUCER_IDS), st.booleans())


@settings(max_examples=300)
@given(st.lists(events, min_size=10, max_size=40))
def test_any_history_of_commits_transactions_and_deletions(history):
    offsets, model = CommittedOffsets(), OffsetsModel()
    for number, (what, place, producer_id, is_commit) in enumerate(history):
        key, value = OffsetCommitKey(*place), OffsetCommitValue(number)
        if what == "commit":
            offsets.commit(key, value)
            model.read(key, value, NO_PRODUCER)
        elif what == "commit in transaction":
            offsets.commit_in_transaction(key, value, producer_id)
            model.read(key, value, producer_id)
        elif what == "end":
            offsets.end_transaction(producer_id, is_commit=is_commit)
            model.end(producer_id, is_commit=is_commit)
        else:
            offsets.forget(key)
            model.read(key, None, NO_PRODUCER)
        assert_same(offsets, model)

    for producer_id in PRODUCER_IDS:
        offsets.end_transaction(producer_id, is_commit=False)
    for place in PLACES:
        offsets.forget(OffsetCommitKey(*place))
    assert vars(offsets) == vars(CommittedOffsets()), "what is forgotten leaves nothing behind"


def assert_same(offsets: CommittedOffsets, model: OffsetsModel) -> None:
    for place in PLACES:
        group_id, topic, partition = place
        found, expected = offsets.get(*place), model.committed.get(place)
        assert (found and found.offset) == (expected and expected.offset)
        assert offsets.is_unstable(group_id, TopicPartition(topic, partition)) == model.is_unstable(place)
        is_known = expected is not None or model.is_unstable(place)
        assert offsets.has(group_id, TopicPartition(topic, partition)) == is_known
        assert (TopicPartition(topic, partition) in offsets.places(group_id)) == is_known
    assert sorted(offsets.groups()) == sorted(model.groups())
    for producer_id in PRODUCER_IDS:
        assert offsets.has_pending(producer_id) == bool(model.pending.get(producer_id))
