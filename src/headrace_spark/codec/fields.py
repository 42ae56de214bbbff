"""Where the fields of many records lie. Nothing is copied yet, and nothing that a record says is believed unchecked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from headrace_spark.codec.varint_arrays import VARLONG_LAST_SHIFT, BadRow, read_varints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace_spark.codec.varint_arrays import Bytes, Ints

HEADER_BYTES_MIN: Final = 2  # of one of a record's headers: the lengths of its key and its value


class Fields(NamedTuple):
    """One element for each record. A size of -1 stands for null."""

    timestamp_deltas: Ints
    offset_deltas: Ints
    key_starts: Ints
    key_sizes: Ints
    value_starts: Ints
    value_sizes: Ints
    header_counts: Ints
    header_starts: Ints
    ends: Ints

    def slice(self, first: int, end: int) -> Fields:
        """Those of the records from `first` on and before `end`."""
        return Fields(*(column[first:end] for column in self))


def read_fields(body: Bytes, starts: Ints, ends: Ints) -> Fields:
    """The fields of the records that begin at `starts`, each of which must fill the bytes up to its end."""
    lengths, here = read_varints(body, starts)
    refuse_where(here + lengths != ends, "its length is negative or does not lead to the next record")
    timestamp_deltas, here = read_varints(body, here + 1, VARLONG_LAST_SHIFT)  # + 1: attributes that mean nothing yet
    offset_deltas, here = read_varints(body, here)
    key_sizes, key_starts = read_varints(body, here)
    refuse_where(key_sizes < -1, "its key has a negative length")
    here = key_starts + np.maximum(key_sizes, 0)
    value_sizes, value_starts = read_varints(body, here)
    refuse_where(value_sizes < -1, "its value has a negative length")
    here = value_starts + np.maximum(value_sizes, 0)
    header_counts, header_starts = read_varints(body, here)
    refuse_where(header_counts < 0, "its number of headers is negative")
    # Every step went forward, so whatever pointed outside the record has carried this position past the record's end.
    # That the headers themselves end there is found out by whoever reads them.
    least = header_starts + HEADER_BYTES_MIN * header_counts
    refuse_where(
        (least > ends) | ((header_counts == 0) & (header_starts != ends)), "its fields do not fill just its length"
    )
    return Fields(
        timestamp_deltas,
        offset_deltas,
        key_starts,
        key_sizes,
        value_starts,
        value_sizes,
        header_counts,
        header_starts,
        ends,
    )


def refuse_where(is_bad: NDArray[np.bool_], reason: str) -> None:
    """Raises BadRow for the first row where the condition holds; `reason` says what is wrong with it."""
    if is_bad.any():
        raise BadRow(int(is_bad.argmax()), reason)
