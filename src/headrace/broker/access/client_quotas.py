"""What the clients of this node have used, against the quotas that are in force."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from headrace.access.quotas.buckets import SIZE_MAX, Buckets, QuotaWindow
from headrace.access.quotas.entity import IP
from headrace.access.quotas.keys import KEYS_OF_CLIENTS, QuotaKey
from headrace.access.quotas.resolution import quota_of_client

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.access.identity import Identity
    from headrace.access.quotas.buckets import Bucket
    from headrace.access.quotas.entity import QuotaEntity
    from headrace.access.quotas.resolution import Quota
    from headrace.broker.metadata.view import MetadataView
    from headrace.metadata.image.cluster_image import ClusterImage
    from headrace.metadata.image.records import MetadataRecord
    from headrace.runtime.clock import Clock

CLIENT_ID_MAX: Final = 1024  # characters that tell one client from another: a quota's name has no more
US_PER_PERCENT: Final = 10_000  # microseconds in a hundredth of a second


class ClientUsage:
    """Of one user under one client id. What they take comes from buckets that others may share."""

    __slots__ = ("_clock", "_quotas", "_tables", "_window")

    def __init__(
        self,
        quotas: Mapping[QuotaKey, Quota],
        tables: Mapping[QuotaKey, Buckets[QuotaEntity]],
        window: QuotaWindow,
        clock: Clock,
    ) -> None:
        self._quotas = quotas
        self._tables = tables
        self._window = window
        self._clock = clock

    def produced(self, count: int) -> float:
        """Like all of these: for how many seconds nothing more should come from this client."""
        return self._take(QuotaKey.PRODUCED_BYTES, count)

    def fetched(self, count: int) -> float:
        return self._take(QuotaKey.FETCHED_BYTES, count)

    def spent(self, seconds: float) -> float:
        """Of the loop's time. What somebody else's process took of it was counted too: so there is a longest wait."""
        return min(self._take(QuotaKey.REQUEST_TIME, seconds * 1e6), self._window.total_s)

    @property
    def has_mutations(self) -> bool:
        """Whether partitions that it creates and deletes are counted."""
        return QuotaKey.MUTATIONS in self._quotas

    def mutated(self, partitions: int) -> float:
        """Negative if they were not created after all."""
        return self._take(QuotaKey.MUTATIONS, partitions)

    def mutations_owed_s(self) -> float:
        return self._owed_s(QuotaKey.MUTATIONS)

    def fetch_owed_s(self) -> float:
        """For how long nothing more should be fetched."""
        return self._owed_s(QuotaKey.FETCHED_BYTES)

    def fetch_room(self, most: int) -> int:
        """How much one answer may have: what has been saved, or what flows in one sample. So no debt is larger."""
        bucket = self._bucket(QuotaKey.FETCHED_BYTES)
        if bucket is None:
            return most
        saved = bucket.saved(self._clock.monotonic_s())
        return min(most, max(int(saved), int(bucket.rate * self._window.sample_s), 1))

    def _take(self, key: QuotaKey, count: float) -> float:
        bucket = self._bucket(key)
        return 0.0 if bucket is None else bucket.take(count, self._clock.monotonic_s())

    def _owed_s(self, key: QuotaKey) -> float:
        bucket = self._bucket(key)
        return 0.0 if bucket is None else bucket.owed_s(self._clock.monotonic_s())

    def _bucket(self, key: QuotaKey) -> Bucket | None:
        quota = self._quotas.get(key)
        if quota is None:
            return None
        rate = quota.rate * US_PER_PERCENT if key is QuotaKey.REQUEST_TIME else quota.rate
        return self._tables[key].of(quota.shared_by, rate, self._clock.monotonic_s())


class ClientQuotas:
    """A part of a node: which quotas hold for whom, looked up once for each client until they change."""

    def __init__(self, view: MetadataView, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        settings = view.settings
        self._window = window = QuotaWindow(settings.quota_window_num, settings.quota_window_size_seconds)
        self._tables: dict[QuotaKey, Buckets[QuotaEntity]] = {key: Buckets(window.total_s) for key in KEYS_OF_CLIENTS}
        of_controller = QuotaWindow(settings.controller_quota_window_num, settings.controller_quota_window_size_seconds)
        # As in KIP-599: topics come many at once, and seldom.
        self._tables[QuotaKey.MUTATIONS] = Buckets(of_controller.total_s, are_full=True)
        self._usages: OrderedDict[tuple[str, str], ClientUsage | None] = OrderedDict()
        self.in_force = view.image.access.quotas
        """Another object when any of them has changed."""
        self.are_any = _are_any(self.in_force)
        """Whether any client has a quota. Asked in every turn of every connection."""

    def __len__(self) -> int:
        """The clients that are remembered."""
        return len(self._usages)

    # ---- what the metadata tells: see `quorum.ImageListener`

    def committed(self, before: ClusterImage, records: Sequence[MetadataRecord]) -> None:  # noqa: ARG002
        self._look_at(self._view.image)

    def jumped(self, before: ClusterImage, after: ClusterImage) -> None:  # noqa: ARG002
        self._look_at(after)

    def _look_at(self, image: ClusterImage) -> None:
        quotas = image.access.quotas
        if quotas is not self.in_force:
            self.in_force, self.are_any = quotas, _are_any(quotas)
            self._usages.clear()

    # ---- what connections ask

    def usage_of(self, identity: Identity, client_id: str) -> ClientUsage | None:
        """None if there is nothing that this client must keep to. Good until `in_force` is another."""
        if not self.are_any:
            return None
        client = (identity.principal.name, client_id[:CLIENT_ID_MAX])
        if client in self._usages:
            self._usages.move_to_end(client)
            return self._usages[client]
        if len(self._usages) >= SIZE_MAX:
            self._usages.popitem(last=False)
        usage = self._usages[client] = self._resolved(*client)
        return usage

    def _resolved(self, user: str, client_id: str) -> ClientUsage | None:
        found = {key: quota_of_client(self.in_force, key, user, client_id) for key in self._tables}
        quotas = {key: quota for key, quota in found.items() if quota is not None}
        return ClientUsage(quotas, self._tables, self._window, self._clock) if quotas else None


def _are_any(quotas: Iterable[QuotaEntity]) -> bool:
    return any(entity[0].kind != IP for entity in quotas)
