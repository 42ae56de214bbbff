"""The quick judgement of small batches must never let in what the careful one refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refusal
from headrace.wire.batches import HEADER, HEADER_SIZE, read_header, seal
from headrace.wire.records import encode_batch
from headrace.wire.validation import check_batch, check_count, is_plainly_sound

records = st.lists(
    st.tuples(
        st.integers(0, 10**12), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=200), st.just(())
    ),
    min_size=1,
    max_size=40,
)
places = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)


def is_sound(batch: bytearray) -> bool:
    view = memoryview(batch)
    header = read_header(view)
    try:
        check_batch(view, header, len(view))
        check_count(view, header)
    except Refusal:
        return False
    return True


@given(records)
def test_small_plain_batches_are_recognised(items):
    batch = encode_batch(items)
    assert is_plainly_sound(memoryview(batch), read_header(batch), len(batch)) == (len(items) <= 32)


@given(records, places, st.booleans(), st.data())
def test_damage_is_never_plainly_sound(items, damage, is_sealed, data):
    batch = encode_batch(items)
    for place, byte in damage:
        batch[place % len(batch)] = byte
    if data.draw(st.booleans()):
        fields = list(HEADER.unpack_from(batch))
        fields[data.draw(st.sampled_from([1, 3, 5, 6, 9, 12]))] = data.draw(st.integers(-3, 100))
        HEADER.pack_into(batch, 0, *fields)
    if is_sealed:
        seal(batch)
    if is_plainly_sound(memoryview(batch), read_header(batch), len(batch)):
        assert is_sound(batch)
    assert len(batch) >= HEADER_SIZE
