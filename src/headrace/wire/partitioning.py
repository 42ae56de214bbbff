"""Which partition a key belongs to: Kafka's murmur2, so that every client sends a key to the same place.

And which partition of an internal topic a group or a transactional id belongs to: Java's hash of its name.
"""

from __future__ import annotations

from struct import Struct

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_32_BITS = 0xFFFFFFFF
_31_BITS = 0x7FFFFFFF

# Keys are short. Unpacking them without spelling the format each time halves the cost.
_SHORT_KEY_WORDS = tuple(Struct(f"<{count}I") for count in range(17))


def murmur2(key: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned 32-bit number."""
    size = len(key)
    word_count = size >> 2
    hashed = _SEED ^ size
    short = word_count < len(_SHORT_KEY_WORDS)
    words = _SHORT_KEY_WORDS[word_count] if short else Struct(f"<{word_count}I")
    for word in words.unpack_from(key):
        mixed = word * _MULTIPLIER & _32_BITS
        hashed = (hashed * _MULTIPLIER ^ (mixed ^ mixed >> 24) * _MULTIPLIER) & _32_BITS
    if rest := key[word_count << 2 :]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _32_BITS
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _32_BITS
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    # Java clients clear the sign bit before the division; so do we.
    return (murmur2(key) & _31_BITS) % partition_count


def partition_for_coordinated(name: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` that keeps a group or a transactional id."""
    hashed = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & _32_BITS
    return (hashed & _31_BITS) % partition_count
