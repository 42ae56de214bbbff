"""What can go wrong between a client and a cluster. What a node itself refuses is a `Refusal`."""

from __future__ import annotations

from typing import Final

from headrace.model.errors import ErrorCode, Refusal


class ClientError(Exception):
    """Trouble on the way to the cluster. The text says what was tried and what to check."""


class ConnectionLost(ClientError):
    """The connection could not be made, or broke. A request on it may or may not have been served."""


class NobodyListens(ConnectionLost):
    """The machine answers and says that nothing listens there: the node has ended, or has not started yet."""


class NeverReached(ConnectionLost):
    """A node is not where the cluster says, and has never been since we came: it may be down, or the address wrong."""


class AuthenticationFailed(ClientError):
    """A node does not let us in, or is not whom we trust. It would not the next time either, so nothing is retried."""


class RequestTimedOut(ClientError):
    """No answer in time. The request may or may not have been served."""


class ClusterUnreachable(ClientError):
    """No address that we know leads to a node."""


class DeliveryFailed(ClientError):
    """Messages that were handed to a producer are not in the log, as far as we know."""

    def __init__(self, message: str, message_count: int, cause: Exception) -> None:
        super().__init__(message)
        self.message_count = message_count
        self.cause = cause


class ProducerFenced(ClientError):
    """Another producer has taken over this one's transactional id. This one can do nothing more."""


class TransactionAborted(ClientError):
    """The transaction cannot be committed any more: abort it, then begin another."""


UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def refuse_unless_ok(code: int, what: str, message: str | None = None, *, right: str = "") -> None:
    """Raise the error that a node answered with. `what` names the thing that it answered about, `right` what asking it
    takes where there are access rules."""
    if code != ErrorCode.NONE:
        error = ErrorCode(code)
        raise Refusal(error, message or in_words(error, what, right))


def in_words(code: ErrorCode, what: str, right: str = "") -> str:
    """For answers that have none of their own."""
    words = f"{what}: {code.name.lower().replace('_', ' ')}"
    return f"{words}: no access rule allows {right}, or one denies it" if right and code in UNAUTHORIZED else words
