"""For tests of applications: a broker in the process of the test, a pytest plugin, a pipeline run once; may touch every
room of a node, and `headrace_spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.broker import Broker
    from headrace.testing.pipelines import PipelineResult, pipeline_result

__all__ = ["Broker", "PipelineResult", "pipeline_result"]


def __getattr__(name: str) -> Any:
    """Things are imported when asked for: pytest loads this package in every project that has it installed."""
    if name == "Broker":
        from headrace.testing.broker import Broker  # noqa: PLC0415

        return Broker
    if name in {"PipelineResult", "pipeline_result"}:
        try:
            from headrace.testing import pipelines  # noqa: PLC0415
        except ModuleNotFoundError as missing:
            raise ImportError(f"{name} needs Spark: pip install 'headrace[spark]'") from missing
        return getattr(pipelines, name)
    raise AttributeError(name)
