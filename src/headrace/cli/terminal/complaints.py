"""How a command says that it failed: what was wrong, what was expected, what to do; and with which exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from headrace.model.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from typing import TextIO

FAILED = 1
USAGE = 2
NOT_FOUND = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells count
TERMINATED = 143  # 128 + SIGTERM

DEBUG_VARIABLE = "HEADRACE_DEBUG"  # set, it shows where in the code an error comes from

_NOT_FOUND_CODES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
}

_COORDINATOR_AWAY = "the node that looks after it may be starting: try again, and see `headrace cluster status`"
_LOGIN_FAILED = (
    "check the settings that --command-config names: security.protocol, sasl.… and ssl.ca.location; `headrace users "
    "list` shows who can log in"
)
_NODES_AWAY = "`headrace cluster status` shows which nodes are there; start those that are not"

_FORBIDDEN = (
    "`headrace acls list` shows who may do what, and `headrace acls add` allows more; both take rights of their own"
)
_HINTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.SECURITY_DISABLED: "set authorizer.class.name of every node, and super.users: see docs/security.md",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`headrace topics list` shows the topics, `headrace topics create` makes one",
    ErrorCode.TOPIC_ALREADY_EXISTS: "leave it as it is with --if-not-exists, or change it with `headrace topics alter`",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`headrace cluster status` shows how many nodes there are",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "`headrace cluster nodes` shows the nodes",
    ErrorCode.INVALID_CONFIG: "`headrace configs describe` shows the settings and their values",
    ErrorCode.INVALID_PARTITIONS: "partitions can be added, never removed",
    ErrorCode.MESSAGE_TOO_LARGE: "the limit is the topic's max.message.bytes, see `headrace configs describe --topic`",
    ErrorCode.NOT_ENOUGH_REPLICAS: "`headrace topics describe` shows which replicas are in sync",
    ErrorCode.GROUP_ID_NOT_FOUND: "`headrace groups list` shows the groups; one is made when its first member joins",
    ErrorCode.NON_EMPTY_GROUP: "stop its consumers first; `headrace groups describe --format table` shows who they are",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member still reads this topic: stop it, or let it read something else",
    ErrorCode.INVALID_GROUP_ID: "give a group a name that is not empty",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "all members of a group must agree on the protocol and on an assignor",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the limit is the nodes' group.max.size",
    ErrorCode.FENCED_INSTANCE_ID: "another consumer runs under this --instance-id: each needs one of its own",
    ErrorCode.NOT_CONTROLLER: _NODES_AWAY,
    ErrorCode.LEADER_NOT_AVAILABLE: _NODES_AWAY,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction is storing positions; `headrace transactions list` shows it",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _COORDINATOR_AWAY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _COORDINATOR_AWAY,
    ErrorCode.NOT_COORDINATOR: _COORDINATOR_AWAY,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`headrace transactions list` shows the ids; unused ones are forgotten",
    ErrorCode.CONCURRENT_TRANSACTIONS: "an earlier transaction of this id is still being ended: try again",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the limit is the nodes' transaction.max.timeout.ms",
    ErrorCode.INVALID_PRODUCER_EPOCH: "it took longer than --transaction-timeout-ms, or somebody else aborted it",
    ErrorCode.PRODUCER_FENCED: "another producer has taken over the --transactional-id: let only one run",
}


class Complaint(Exception):
    """A command cannot do what it was asked to."""

    def __init__(self, what: str, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(what)
        self.hint = hint
        self.exit_code = exit_code


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, after the command has tidied up."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


def complain(error: Exception) -> int:
    """Say it on stderr; return the exit code."""
    if isinstance(error, Interrupted):
        return error.exit_code  # whoever sent it knows
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    what, hint, exit_code = explain(error)
    write_line(sys.stderr, "error", what, red=True)
    if hint:
        write_line(sys.stderr, "hint", hint)
    return exit_code


def explain(error: Exception) -> tuple[str, str, int]:
    """What to say, what to advise, and the exit code."""
    from headrace.client.errors import (
        AuthenticationFailed,
        ClientError,
        ConnectionLost,
        DeliveryFailed,
        NeverReached,
        RequestTimedOut,
        TransactionAborted,
    )

    match error:
        case Complaint():
            return str(error), error.hint, error.exit_code
        case DeliveryFailed(cause=Refusal() as refusal):
            return str(error), _HINTS.get(refusal.code, ""), _exit_code(refusal)
        case TransactionAborted(__cause__=Exception() as cause):
            what, hint, exit_code = explain(cause)
            return f"the transaction was aborted: {what}", hint or "nothing of it was kept; run it again", exit_code
        case AuthenticationFailed() | DeliveryFailed(cause=AuthenticationFailed()):
            return str(error), _LOGIN_FAILED, FAILED
        case NeverReached():
            return str(error), "", FAILED  # it says itself what to look at
        case ConnectionLost() | RequestTimedOut() | DeliveryFailed(cause=ConnectionLost() | RequestTimedOut()):
            return str(error), _NODES_AWAY, FAILED
        case ClientError():
            return str(error), "", FAILED
        case Refusal():
            return error.message, _HINTS.get(error.code, ""), _exit_code(error)
        case OSError():
            subject = f"{error.filename}: " if error.filename else ""
            return f"{subject}{(error.strerror or str(error)).lower()}", "", FAILED
        case _:
            hint = f"this is a bug in headrace; with {DEBUG_VARIABLE}=1 set it tells more, which helps to report it"
            return f"unexpected {type(error).__name__}: {error}", hint, FAILED


def _exit_code(refusal: Refusal) -> int:
    return NOT_FOUND if refusal.code in _NOT_FOUND_CODES else FAILED


def write_line(stream: TextIO, label: str, text: str, *, red: bool = False) -> None:
    if red and stream.isatty() and not os.environ.get("NO_COLOR"):
        label = f"\x1b[31m{label}\x1b[0m"
    stream.write(f"{label}: {text}\n")
    stream.flush()
