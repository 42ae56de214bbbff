"""Every message of every version: our bytes are kio's bytes, and both of us read them the same way."""

from __future__ import annotations

from importlib import import_module

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.wire.primitives import Reader, Writer
from tests.properties.kio_oracle import Pair, all_pairs, defaults_and_nulls, kio_decode, kio_encode, messages, to_ours


@pytest.mark.parametrize("pair", all_pairs(), ids=lambda pair: pair.name)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_each_version_encodes_and_decodes_as_kio_does(pair: Pair, draw: st.DataObject) -> None:
    for version in pair.versions:
        theirs = draw.draw(messages(pair.theirs(version)))
        ours = to_ours(theirs, pair.ours)
        writer = Writer()
        ours.encode(writer, version)
        encoded = bytes(writer.buffer)
        assert encoded == kio_encode(theirs)

        reader = Reader(encoded)
        assert pair.ours.decode(reader, version) == ours
        assert reader.remaining == 0
        assert kio_decode(type(theirs), encoded) == theirs


@pytest.mark.parametrize("pair", all_pairs(), ids=lambda pair: pair.name)
def test_flexible_versions_are_kios(pair: Pair) -> None:
    flexible_from = pair.ours.FLEXIBLE_FROM
    for version in pair.versions:
        assert pair.theirs(version).__flexible__ == (flexible_from is not None and version >= flexible_from)


@pytest.mark.parametrize("pair", all_pairs(), ids=lambda pair: pair.name)
def test_defaults_and_nulls_are_kios(pair: Pair) -> None:
    module = import_module(pair.ours.__module__)
    defaults, nulls = defaults_and_nulls(pair)
    for (struct, name), default in defaults.items():
        assert getattr(getattr(module, struct)(), name) == default, f"{struct}.{name}"
    for (struct, name), is_nullable in nulls.items():
        hint = str(getattr(module, struct).__dataclass_fields__[name].type)
        assert ("None" in hint) == is_nullable, f"{struct}.{name}"
