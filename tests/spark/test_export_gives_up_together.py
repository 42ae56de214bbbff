"""TaskFailure in one task ends the others: nobody waits for work whose outcome does not count any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from headrace_spark.offline.errors import OfflineFailed
from headrace_spark.offline.scatter import Scatter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

FOREVER_S = 3600.0


def test_results_come_back_in_order_and_are_told_as_they_come(spark: SparkSession) -> None:
    told: list[int] = []

    results = Scatter(spark, lambda number: number * 2).run(range(5), "doubling", told.append, lambda: None)

    assert results == [0, 2, 4, 6, 8]
    assert sorted(told) == results


def test_the_first_trouble_ends_all_tasks(spark: SparkSession) -> None:
    def work(number: int) -> int:
        if number == 0:
            raise OfflineFailed("the disk is full", "make room", is_not_found=True)
        time.sleep(FOREVER_S)
        return number

    with pytest.raises(OfflineFailed, match="the disk is full") as caught:
        Scatter(spark, work).run(range(2), "failing", lambda _: None, lambda: None)

    assert (caught.value.hint, caught.value.is_not_found) == ("make room", True)


def test_what_nobody_expected_is_told_in_its_own_words(spark: SparkSession) -> None:
    def work(number: int) -> int:
        raise ZeroDivisionError(f"number {number}")

    with pytest.raises(OfflineFailed, match=r"Spark gave up: ZeroDivisionError: number 0$"):
        Scatter(spark, work).run([0], "failing", lambda _: None, lambda: None)


def test_nothing_to_do_is_done_at_once(spark: SparkSession) -> None:
    def work(number: int) -> int:
        raise AssertionError

    assert Scatter(spark, work).run([], "idling", lambda _: None, lambda: None) == []
