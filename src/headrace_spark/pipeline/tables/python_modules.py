"""The Python of a pipeline: found beside its file, and taken along to where Spark runs it."""

from __future__ import annotations

import functools
import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from pyspark import cloudpickle

from headrace_spark.pipeline.file.errors import choices_hint
from headrace_spark.pipeline.tables.python_archive import SourceTooLarge, archive_of, python_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from pyspark.sql import SparkSession

    from headrace_spark.pipeline.file.spec import Pipeline, PythonQuery

WORKERS_VARIABLE = "HEADRACE_PIPELINE_PYTHON"
"""Spark keeps workers apart whose environments differ: those of one pipeline never meet the modules of another."""

_imported_from_beside: set[str] = set()
"""Names of modules that belong to one pipeline, and must not be taken for another's."""


def load_function(spark: SparkSession, pipeline: Pipeline, query: PythonQuery) -> Callable[..., Any]:
    """Raises PipelineError."""
    directory = pipeline.path.resolve().parent
    key_path = (*query.key_path, "python")
    try:
        module = _import_module(directory, query.module)
    except ImportError as error:
        looked_for = f"{query.module.replace('.', '/')}.py"
        hint = f"{looked_for} is looked for beside {pipeline.path.name}, then among what is installed"
        raise pipeline.error(key_path, f"the module {query.module} cannot be imported: {error}", hint) from error
    except Exception as error:
        problem = f"the module {query.module} fails when it is imported: {type(error).__name__}: {error}"
        raise pipeline.error(key_path, problem) from error
    function = getattr(module, query.function, None)
    if not callable(function):
        names = [name for name in vars(module) if callable(getattr(module, name)) and not name.startswith("_")]
        raise pipeline.error(
            key_path, f"{query.module} has no function '{query.function}'", choices_hint(query.function, names)
        )
    if _top(query.module) not in python_beside(directory):
        return cast("Callable[..., Any]", function)
    try:
        _ship(spark, directory, module)
    except SourceTooLarge as error:
        raise pipeline.error(
            key_path, str(error), "keep the pipeline and its Python in a directory of their own"
        ) from error
    return _finding(directory, function)


def _top(module_name: str) -> str:
    return module_name.partition(".")[0]


def _import_module(directory: Path, name: str) -> ModuleType:
    """Two pipelines of one process may have modules of the same name: each gets that of its own directory."""
    beside = python_beside(directory)
    is_local = _top(name) in beside
    _forget({_top(name)} if is_local else set())
    _forget(_imported_from_beside & (beside.keys() | {_top(name)}))
    if not is_local:
        return importlib.import_module(name)
    with _search_path_of(directory):
        return importlib.import_module(name)


def _forget(tops: set[str]) -> None:
    for loaded in [loaded for loaded in sys.modules if _top(loaded) in tops]:
        del sys.modules[loaded]


@contextmanager
def _search_path_of(directory: Path) -> Iterator[None]:
    """What is imported meanwhile is looked for in this directory first."""
    before = set(sys.modules)
    sys.path.insert(0, str(directory))
    try:
        importlib.invalidate_caches()
        yield
    finally:
        sys.path.remove(str(directory))
        _imported_from_beside.update(
            {_top(name) for name in sys.modules.keys() - before} & python_beside(directory).keys()
        )


def _finding(directory: Path, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function may import what is beside it when it is called, and not before."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        with _search_path_of(directory):
            return function(*arguments)

    return call


def _ship(spark: SparkSession, directory: Path, module: ModuleType) -> None:
    """Executors get all Python that is beside the pipeline. What is installed must be installed there as well."""
    # What the module itself holds goes with the functions, as it is here: a module may do things when it is imported
    # that are none of a worker's. The archive is for what it imports.
    cloudpickle.register_pickle_by_value(sys.modules[_top(module.__name__)])  # type: ignore[no-untyped-call]  # has no types
    archive = archive_of(directory)
    import_path = sys.path[:]
    spark.sparkContext.addPyFile(str(archive))
    # Spark puts it on this process's path, too, where the next pipeline would find a module that is not its own.
    sys.path[:] = import_path
    spark.sparkContext.environment[WORKERS_VARIABLE] = archive.name
