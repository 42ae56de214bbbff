"""The groups that have members, or had them: what the log says of each, how much they take, and which is due next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.coordinators.deadlines import Deadlines
from headrace.coordinators.groups.classic.classic_group import ClassicGroup
from headrace.coordinators.groups.group import Group, group_tombstones
from headrace.coordinators.groups.modern.modern_group import ModernGroup
from headrace.coordinators.groups.sizes import GroupSizes
from headrace.wire.messages.group_records import ConsumerGroupMetadataKey, GroupMetadataKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.coordinators.groups.settings import GroupSettings, OwnTimes
    from headrace.coordinators.groups.topics import Topics
    from headrace.coordinators.records import LogRecord
    from headrace.wire.messages.group_records import GroupMetadataValue


class GroupTable:
    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        held_by_others: Callable[[], int],
        own_times: Callable[[str], OwnTimes | None],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._own_times = own_times
        self._groups: dict[str, Group] = {}
        self.sizes = GroupSizes(self._groups, held_by_others)
        self._deadlines: Deadlines[tuple[str]] = Deadlines()
        self._touched: dict[str, None] = {}
        """Groups whose next deadline may have changed."""

    @property
    def settings(self) -> GroupSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: GroupSettings) -> None:
        self._settings = settings
        for group in self._groups.values():
            group.settings = settings

    # Groups

    @property
    def by_id(self) -> Mapping[str, Group]:
        return self._groups

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def classic_or_new(self, group_id: str) -> ClassicGroup:
        """A group that is not there answers like one without members. It is kept only if somebody joins it."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else self.empty_classic(group_id)

    def empty_classic(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self._settings)

    def empty_modern(self, group_id: str) -> ModernGroup:
        return ModernGroup(group_id, self._settings, self._topics, self._own_times)

    def keep(self, group: Group) -> list[LogRecord]:
        """Put a group in, if it is new. Returns tombstones of the one of the other protocol whose place it takes."""
        before = self._groups.get(group.group_id)
        self._groups[group.group_id] = group
        return [] if before is None or before is group else group_tombstones(before)

    # What the log says

    def apply(self, record: LogRecord) -> None:
        if type(record.key) is GroupMetadataKey:
            self._apply_to_classic(record.key.group, record.value)
        else:
            self._apply_to_modern(record.key.group_id, record)

    def _apply_to_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self._groups.get(group_id)
        if value is not None:
            if not isinstance(group, ClassicGroup):
                group = self._groups[group_id] = self.empty_classic(group_id)
            group.apply(value)
        elif isinstance(group, ClassicGroup):  # else it has just become a group of the other protocol
            del self._groups[group_id]
        self.touch(group_id, has_changed=True)

    def _apply_to_modern(self, group_id: str, record: LogRecord) -> None:
        group = self._groups.get(group_id)
        if not isinstance(group, ModernGroup):
            if record.value is None:
                return  # it has just become a group of the other protocol
            group = self._groups[group_id] = self.empty_modern(group_id)
        if record.value is None and type(record.key) is ConsumerGroupMetadataKey:
            del self._groups[group_id]
        else:
            group.apply(record)
        self.touch(group_id, has_changed=True)

    # Time

    def touch(self, group_id: str, *, has_changed: bool = False) -> None:
        """Its next deadline may be another one; if it has changed, so may what it takes."""
        self._touched[group_id] = None
        if has_changed:
            self.sizes.changed(group_id)

    def take_due(self, now_ms: int, at_most: int) -> list[Group]:
        """Those with the earliest deadlines; what is too much stays due."""
        self._set_deadlines()
        due = self._deadlines.take_due(now_ms)
        for key in due[at_most:]:
            self._deadlines.set(key, now_ms)
        return [self._groups[group_id] for (group_id,) in due[:at_most]]

    def next_deadline_ms(self) -> int | None:
        self._set_deadlines()
        return self._deadlines.next_ms()

    def _set_deadlines(self) -> None:
        for group_id in self._touched:
            group = self._groups.get(group_id)
            deadline_ms = None if group is None else group.next_deadline_ms()
            if deadline_ms is None:
                self._deadlines.cancel((group_id,))
            else:
                self._deadlines.set((group_id,), deadline_ms)
        self._touched.clear()
