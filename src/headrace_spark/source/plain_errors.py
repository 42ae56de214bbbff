"""Errors for the author of a query. Spark shows them with their traceback, in which the message would be lost."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from headrace.client.errors import ClientError
from headrace.model.errors import Refusal
from headrace_spark.source.data_loss import DataLoss

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

_SELF_EXPLANATORY = (ValueError, DataLoss, ClientError, Refusal)


def without_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """A decorator: expected errors come without their traceback, as their message says everything. Bugs keep it."""

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except _SELF_EXPLANATORY as error:
            error.__traceback__ = None
            raise error from None

    return wrapper
