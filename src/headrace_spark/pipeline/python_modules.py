"""The Python module of a pipeline: found beside its file, and taken along to where Spark runs it."""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark import cloudpickle

from headrace_spark.pipeline.errors import choices_hint

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pyspark.sql import SparkSession

    from headrace_spark.pipeline.parts import Pipeline, PythonQuery

_imported_from_beside: set[str] = set()
"""Names of modules that belong to one pipeline, and must not be taken for another's."""


def load_function(spark: SparkSession, pipeline: Pipeline, query: PythonQuery) -> Callable[..., Any]:
    """Raises PipelineError."""
    directory = pipeline.path.resolve().parent
    place = (*query.place, "python")
    try:
        module = _import_module(directory, query.module)
    except ImportError as error:
        looked_for = f"{query.module.replace('.', '/')}.py"
        hint = f"{looked_for} is looked for beside {pipeline.path.name}, then among what is installed"
        raise pipeline.error(place, f"the module {query.module} cannot be imported: {error}", hint) from error
    except Exception as error:
        problem = f"the module {query.module} fails when it is imported: {type(error).__name__}: {error}"
        raise pipeline.error(place, problem) from error
    function = getattr(module, query.function, None)
    if not callable(function):
        names = [name for name in vars(module) if callable(getattr(module, name)) and not name.startswith("_")]
        raise pipeline.error(
            place, f"{query.module} has no function '{query.function}'", choices_hint(query.function, names)
        )
    _ship(spark, directory, module)
    return cast("Callable[..., Any]", function)


def _import_module(directory: Path, name: str) -> ModuleType:
    """Two pipelines of one process may have modules of the same name: each gets that of its own directory."""
    top = name.partition(".")[0]
    is_local = _local(directory, top) is not None
    if is_local or top in _imported_from_beside:
        for loaded in [loaded for loaded in sys.modules if loaded == top or loaded.startswith(f"{top}.")]:
            del sys.modules[loaded]
    if not is_local:
        return importlib.import_module(name)
    _imported_from_beside.add(top)
    sys.path.insert(0, str(directory))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(directory))


def _local(directory: Path, top: str) -> Path | None:
    """The file or the package of that name beside the pipeline's file."""
    for candidate in (directory / f"{top}.py", directory / top):
        if candidate.is_file() or (candidate / "__init__.py").is_file():
            return candidate
    return None


def _ship(spark: SparkSession, directory: Path, module: ModuleType) -> None:
    """Executors on other machines get the module, too. What is installed must be installed there as well."""
    top = module.__name__.partition(".")[0]
    local = _local(directory, top)
    if local is None:
        return
    # Functions go with their code inside, so that a worker which has met another module of that name is not misled;
    # the archive is for what they import.
    cloudpickle.register_pickle_by_value(sys.modules[top])  # type: ignore[no-untyped-call]  # has no types
    import_path = sys.path[:]
    spark.sparkContext.addPyFile(_archive(local))
    # Spark puts it on this process's path, too, where the next pipeline would find a module that is not its own.
    sys.path[:] = import_path


@cache
def _archive(local: Path) -> str:
    """A name of its own: Spark refuses a second file of the same name."""
    temporary = Path(tempfile.mkdtemp(prefix="headrace-module-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)  # executors may ask for it as long as we live
    return shutil.make_archive(str(temporary / temporary.name), "zip", local.parent, local.name)
