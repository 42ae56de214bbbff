"""Between a connection and a handler that changes something: who asked is noted, and what became of it. What is refused
does not come this far: the gate notes that.
"""

from __future__ import annotations

from inspect import isawaitable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headrace.access.audit import AuditEvent, Outcome
from headrace.model.errors import ErrorCode
from headrace.servers.kafka.audited_changes import AUDITED
from headrace.wire.api import APIS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from headrace.access.audit import AuditSink
    from headrace.servers.kafka.audited_changes import Change
    from headrace.servers.kafka.interfaces import Request
    from headrace.wire.api import ApiKey

APART_MAX: Final = 500  # of one request; it may name 50,000 things
TOGETHER_CHARACTERS: Final = 500


def audited(key: ApiKey, handle: Callable[[Any, Request], Any], audit: AuditSink) -> Callable[[Any, Request], Any]:
    """The handler, if nothing is to be noted of its API."""
    if key not in AUDITED:
        return handle

    def handle_and_note(message: Any, request: Request) -> Any:
        outcome = handle(message, request)
        if isawaitable(outcome):
            return _noted_later(key, outcome, message, request, audit)
        _note(key, message, outcome, request, audit)
        return outcome

    return handle_and_note


async def _noted_later(key: ApiKey, outcome: Awaitable[Any], message: Any, request: Request, audit: AuditSink) -> Any:
    try:
        answer = await outcome
    except BaseException:
        audit.note(_event(key, request, Outcome.FAILED, "", "it was not answered; what was asked may have happened"))
        raise
    _note(key, message, answer, request, audit)
    return answer


def _note(key: ApiKey, message: Any, answer: Any, request: Request, audit: AuditSink) -> None:
    changes = iter(AUDITED[key](message, answer))
    for resource, code, detail in islice(changes, APART_MAX):
        outcome = _outcome(code)
        words = [ErrorCode(code).name] if code else []
        if detail:
            words.append(detail)
        audit.note(_event(key, request, outcome, resource, "; ".join(words)))
    for outcome, names in _together(changes):
        audit.note(_event(key, request, outcome, f"{len(names)} more", ", ".join(names)))


def _together(changes: Iterator[Change]) -> Iterator[tuple[Outcome, list[str]]]:
    """The names of many things, as many in one entry as it has room for: what is far behind in a request that names
    thousands is noted as well."""
    names: dict[Outcome, list[str]] = {}
    sizes: dict[Outcome, int] = {}
    for resource, code, _ in changes:
        outcome = _outcome(code)
        theirs, size = names.setdefault(outcome, []), sizes.get(outcome, 0) + len(resource)
        theirs.append(resource)
        sizes[outcome] = size
        if size > TOGETHER_CHARACTERS:
            yield outcome, theirs
            names[outcome], sizes[outcome] = [], 0
    yield from ((outcome, theirs) for outcome, theirs in names.items() if theirs)


def _outcome(code: int) -> Outcome:
    return Outcome.DONE if code == ErrorCode.NONE else Outcome.FAILED


def _event(key: ApiKey, request: Request, outcome: Outcome, resource: str, detail: str) -> AuditEvent:
    return AuditEvent(APIS[key].name, request.connection.identity, outcome, resource, detail, request.client_id)
