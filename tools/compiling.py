"""Compile the hottest modules of a node to C, in place: `python tools/compiling.py [FOLDER]`.

They are typed Python, and the same source runs where there is no compiler. The build of a wheel and `pip install` call
this by themselves (`build_hook.py`). `HEADRACE_COMPILE=no` leaves all as Python, `=must` fails without a compiler.
Beside each compiled file lies a note of the source that it was made from; a test compares them.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from contextlib import chdir
from hashlib import sha256
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
HOT_MODULES = ("headrace/wire/walk.py",)
"""What is measured to be worth it. Each imports nothing of the house that is not compiled too."""


class CannotCompile(Exception):
    """Why not, and what to do about it."""


def compile_hot_modules(target: Path) -> list[Path]:
    """Write each as an extension below `target`, where its package is; the paths of all files written.

    What was compiled there before goes first: it would hide a source that has changed since.
    """
    forget_compiled(target)
    _check_compiler()
    with tempfile.TemporaryDirectory(prefix="headrace-build-") as scratch:
        try:
            _build(target, Path(scratch))
        except (Exception, SystemExit) as error:  # compilers and setuptools fail in many ways
            raise CannotCompile(f"the compiler failed: {error}") from error
    written = []
    for module in HOT_MODULES:
        extension = extension_of(module, target)
        note_of(extension).write_text(fingerprint(SOURCES / module) + "\n")
        written += _files_of(extension)
    return written


def _files_of(extension: Path) -> list[Path]:
    """The extension itself is a few lines around code in a file of its own."""
    code = extension.with_name(extension.name.replace(".", "__mypyc.", 1))
    return [extension, code, note_of(extension)]


def forget_compiled(target: Path) -> None:
    for module in HOT_MODULES:
        for path in _files_of(extension_of(module, target)):
            path.unlink(missing_ok=True)


def extension_of(module: str, target: Path = SOURCES) -> Path:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return (target / module).with_suffix("").with_suffix(suffix)


def note_of(extension: Path) -> Path:
    return extension.with_name(f"{extension.name}.source")


def fingerprint(source: Path) -> str:
    return sha256(source.read_bytes()).hexdigest()


def _check_compiler() -> None:
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(command.split()[0]) is None:
        raise CannotCompile(f"there is no C compiler: {command.split()[0]!r} is not found")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        raise CannotCompile("there are no headers of Python: the package is called python3-dev or python3-devel")


def _build(target: Path, scratch: Path) -> None:
    from mypyc.build import mypycify  # noqa: PLC0415 - only here: `make test` asks for names and notes alone
    from setuptools import Distribution  # noqa: PLC0415

    # Names of modules begin here, also in a checkout that lies inside of somebody's package.
    options = ["--explicit-package-bases", "--cache-dir", str(scratch / "mypy")]
    with chdir(SOURCES):
        extensions = mypycify([*options, *HOT_MODULES], target_dir=str(scratch / "c"))
        for extension in extensions:
            # Nobody replaces a function of ours while it is loaded; without that promise none is inlined.
            extension.extra_compile_args.append("-fno-semantic-interposition")
        command = Distribution({"name": "headrace", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(target), str(scratch / "o")
        command.ensure_finalized()
        command.run()


def main() -> None:
    target = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCES
    try:
        written = compile_hot_modules(target)
    except CannotCompile as error:
        sys.exit(f"not compiled: {error}")
    print("compiled:", *(path.name for path in written if path.suffix == ".so"))


if __name__ == "__main__":
    main()
