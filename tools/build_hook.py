"""What hatchling calls when it builds a wheel, also for `pip install .` and `pip install -e .`: compile what is hot.

Without a C compiler the wheel is plain Python, and says so while it is built.
"""

from __future__ import annotations

import atexit
import os
import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_compiling = runpy.run_path(str(Path(__file__).with_name("compiling.py")))

NO, MUST = "no", "must"


class CompilingBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wish = os.environ.get("HEADRACE_COMPILE", "")
        # An editable install imports from `src`, so that is where the compiled files belong.
        is_editable = version == "editable"
        target = _compiling["SOURCES"] if is_editable else self._scratch_directory()
        if wish == NO:
            _compiling["forget_compiled"](target)
            return
        try:
            written = _compiling["compile_hot_modules"](target)
        except _compiling["CannotCompile"] as reason:
            if wish == MUST:
                raise
            self.app.display_warning(f"headrace is built without compiled code: {reason}")
            return
        if not is_editable:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"] = {str(path): str(path.relative_to(target)) for path in written}

    def _scratch_directory(self) -> Path:
        """Until the process ends that builds, which reads from it after this hook."""
        scratch = Path(tempfile.mkdtemp(prefix="headrace-wheel-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        return scratch
