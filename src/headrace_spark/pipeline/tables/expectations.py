"""What becomes of a record: whether it is valid, and if it is not, what follows.

A record has one verdict. What does not decode has no columns to expect anything of; of several broken expectations the
first in the file counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from headrace_spark.pipeline.decode.records import OWN_PREFIX, PROBLEM, VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from headrace_spark.pipeline.file.spec import Expectation, SourceSpec

VERDICT = f"{OWN_PREFIX}verdict"
"""dead-letter, drop or fail; null: the record is valid."""
REASON = f"{OWN_PREFIX}reason"

# Behind the mark of a raised error: Spark shows the plan of any query that failed, and there the words are, too.
_FAILURE = re.compile(r"(?<=\[USER_RAISED_EXCEPTION\] )pipeline stopped: .*?(?= SQLSTATE: |\n|$)")


def with_verdicts(decoded: DataFrame, source: SourceSpec, expectations: Sequence[Expectation]) -> DataFrame:
    """Adds VERDICT and REASON. The columns that the expectations are about must stand in the table by their names."""
    verdict, reason = _undecodable(source)
    for expectation in expectations:
        # Null is broken too: who expects an amount above zero expects an amount.
        is_broken = ~F.coalesce(F.expr(expectation.sql), F.lit(False))
        verdict = verdict.when(is_broken, expectation.otherwise)
        sql = " ".join(expectation.sql.split())  # a reason is one line
        reason = reason.when(is_broken, f"expectation '{expectation.name}' is broken: {sql}")
    return decoded.withColumns({VERDICT: verdict, REASON: reason})


def _undecodable(source: SourceSpec) -> tuple[Column, Column]:
    is_null = F.col(VALUE).isNull()
    keeps_null = source.tombstones == "keep"
    # Kept records without a value have nothing that an expectation could be about.
    verdict = F.when(is_null, F.lit(None if keeps_null else source.tombstones).cast("string"))
    reason = F.when(is_null, F.lit(None if keeps_null else "the value is null").cast("string"))
    has_problem = F.col(PROBLEM).isNotNull()
    return (
        verdict.when(has_problem, source.undecodable),
        reason.when(has_problem, F.concat(F.lit("undecodable: "), F.col(PROBLEM))),
    )


def is_valid() -> Column:
    """A filter that lets valid records through, and stops the pipeline at one whose verdict is to fail."""
    where = F.format_string("%s-%d at offset %d", F.col("_topic"), F.col("_partition"), F.col("_offset"))
    complaint = F.concat(F.lit("pipeline stopped: the record of "), where, F.lit(": "), F.col(REASON))
    return F.when(F.col(VERDICT) == "fail", F.raise_error(complaint).cast("boolean")).otherwise(F.col(VERDICT).isNull())


def failure_in(error: BaseException) -> str | None:
    """The sentence about the record that has stopped a pipeline, if that is what the error is about."""
    found = _FAILURE.search(str(error))
    return found[0] if found else None
