"""Errors for whoever wrote the query: Spark shows them with their Python stack, in which the sentence would drown."""

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
    """Errors whose text says all that is to be said come without the way that they took. Bugs keep theirs."""

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except _SELF_EXPLANATORY as error:
            error.__traceback__ = None
            raise error from None

    return wrapper
