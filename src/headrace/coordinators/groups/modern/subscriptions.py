"""Which topics the subscriptions of a KIP-848 group stand for, with the topics as they are now."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from headrace.coordinators.patterns.name_patterns import NamePattern
from headrace.model.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.coordinators.groups.modern.members import MemberMetadata
    from headrace.coordinators.groups.topics import KnownTopic, Topics


class Subscriptions:
    """Remembers which names a regex matches, so that each name is tried only once."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._matches: dict[str, _Matches] = {}

    def check(self, regex: str) -> None:
        """Raises Refusal for one that cannot be read, or is too much work with the topics that there are."""
        if regex not in self._matches:
            self._matches[regex] = _Matches(NamePattern(regex), self._topics.names())

    def names_of(self, metadata: MemberMetadata) -> set[str]:
        """Subscribed to by name, whether they exist or not, or by regex."""
        names = set(metadata.topic_names)
        if metadata.topic_regex:
            names |= self._matching(metadata.topic_regex)
        return names

    def topics_of(self, members: Iterable[MemberMetadata]) -> dict[tuple[tuple[str, ...], str], list[KnownTopic]]:
        """The topics that exist, for each subscription among them. Members of a group mostly share a few."""
        known: dict[tuple[tuple[str, ...], str], list[KnownTopic]] = {}
        for metadata in members:
            if metadata.subscription not in known:
                named = (self._topics.named(name) for name in sorted(self.names_of(metadata)))
                known[metadata.subscription] = [topic for topic in named if topic is not None]
        return known

    def topics_changed(self, members: Iterable[MemberMetadata]) -> None:
        """Try the names that are new, and forget the regexes that nobody uses any more."""
        used = {metadata.topic_regex for metadata in members}
        self._matches = {regex: matches for regex, matches in self._matches.items() if regex in used}
        names = set(self._topics.names()) if self._matches else set()
        for matches in self._matches.values():
            matches.see(names)

    def _matching(self, regex: str) -> set[str]:
        matches = self._matches.get(regex)
        if matches is None:
            matches = self._matches[regex] = _Matches(_as_logged(regex), ())
            matches.see(set(self._topics.names()))
        return matches.names


def _as_logged(regex: str) -> NamePattern | None:
    try:
        return NamePattern(regex)
    except Refusal:
        return None  # no member sent it to us: another version of the program let it into the log


class _Matches:
    """A regex, the names that it has seen, and those that it matches."""

    def __init__(self, pattern: NamePattern | None, names: Iterable[str]) -> None:
        """Raises Refusal if it is too much work for these names."""
        self._pattern = pattern
        self._seen = set(names)
        self.names = set() if pattern is None else {name for name in sorted(self._seen) if pattern.matches(name)}

    def see(self, names: set[str]) -> None:
        """These exist now. What is too much work is left for the next time: whoever sent such a regex waits for it."""
        self.names &= names
        self._seen &= names
        if self._pattern is None:
            return
        self._pattern.refresh()
        try:
            for name in sorted(names - self._seen):
                if self._pattern.matches(name):
                    self.names.add(name)
                self._seen.add(name)
        except Refusal:
            return


def hash_of(topics: Iterable[KnownTopic]) -> int:
    """Tells whether any of these topics came, went or grew. It is written to the log: the same on every node."""
    digest = blake2b(digest_size=8)
    is_empty = True
    for topic_id, _, partition_count in sorted(set(topics)):
        digest.update(topic_id + partition_count.to_bytes(4, "big"))
        is_empty = False
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
