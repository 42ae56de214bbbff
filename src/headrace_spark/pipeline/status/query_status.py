"""How one streaming query is doing, over all attempts of a run: values only, and nothing here needs Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


ERROR_CHARACTERS_MAX = 2000  # of an error that is kept: the record is read by everybody who asks, as a whole


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The way to one sink. What is not known is None."""

    sink: str
    batch_id: int | None = None
    """The last batch that was completed, by this run or one before."""
    rows: int = 0
    """Read by this run."""
    rows_per_s: float | None = None
    batch_ms: int | None = None
    lag: int | None = None
    """Records that are in the source topics and were not read yet."""
    state_rows: int = 0
    state_bytes: int = 0
    is_failing: bool = False
    """It failed, and has got through nothing since."""
    restarts: int = 0
    """How often this run began again because it had failed."""
    error: str | None = None
    """The last one, also if it has got over it."""
    error_at: datetime | None = None
    error_batch: int | None = None
    """The batch in which it failed; None if that was before one began."""
    late_rows: int = 0
    """Dropped because they came after the watermark, by this run and those before."""
    topics_made_anew: tuple[str, ...] = ()
    """That this run, having read the topic before, began at the beginning of the new one."""

    def failed(self, error: str, at: datetime, batch_id: int | None) -> QueryStatus:
        """As it is after a failure; `batch_id` is None if that was before a batch began."""
        # Where the others went on meanwhile, it did not: what was known of its lag holds no longer.
        known = replace(self, is_failing=True, lag=None, rows_per_s=None)
        return replace(known, error=shortened(error), error_at=at, error_batch=batch_id)

    def started_again(self) -> QueryStatus:
        """In another attempt: nothing is known of how it does in this one."""
        return replace(self, lag=None, rows_per_s=None)

    def inherited(self) -> QueryStatus:
        """As the next run has it from this one: what is counted by run begins anew."""
        return replace(self.started_again(), rows=0, restarts=0, topics_made_anew=())

    def to_json(self) -> dict[str, Any]:
        """As it stands in the run's record."""
        facts = asdict(self)
        facts["error_at"] = None if self.error_at is None else time_text(self.error_at)
        return facts

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> QueryStatus:
        """Unknown keys are passed over: a newer version may say more."""
        known = {item.name: facts[item.name] for item in fields(cls) if item.name in facts}
        known["topics_made_anew"] = tuple(facts.get("topics_made_anew", ()))
        if known.get("error_at") is not None:
            known["error_at"] = datetime.fromisoformat(known["error_at"])
        return cls(**known)


def is_any_failing(queries: Iterable[QueryStatus]) -> bool:
    """Whether at least one failed, and has got through nothing since."""
    return any(query.is_failing for query in queries)


def status_of(queries: Iterable[QueryStatus], sink: str) -> QueryStatus:
    """What is known of this one; of a query that is new, nothing."""
    return next((query for query in queries if query.sink == sink), QueryStatus(sink))


def shortened(error: str) -> str:
    """An error's text as far as a record keeps it."""
    return error if len(error) <= ERROR_CHARACTERS_MAX else error[: ERROR_CHARACTERS_MAX - 1] + "…"


def time_text(moment: datetime) -> str:
    """ISO 8601, UTC, with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
