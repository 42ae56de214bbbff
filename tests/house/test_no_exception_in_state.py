"""No part of a node keeps an exception: it holds its frames, and they hold what they looked at, whole requests even.

What has to be remembered of a refusal is its `Reason`. This reads the source: annotations of attributes and fields, and
statements that put a caught exception somewhere.
"""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

import headrace

ROOT = Path(headrace.__file__).parent
ROOMS = ("model", "wire", "replication", "coordinators", "metadata", "raft", "storage", "broker", "servers", "runtime")
TAKING = {"append", "appendleft", "add", "insert", "put", "put_nowait", "setdefault", "set_exception", "set_result"}

ALLOWED = {
    "broker/replicas/opening.py: self.damaged_at_start": "one for each log that is not open, no request is near",
    "broker/replicas/damage_reports.py: self.not_opened": "the same, to be looked at",
    "broker/failure.py: self.failed": "the node ends with it, and its message is the last thing that it says",
    "broker/failure.py: self.failed.set_result": "the same",
    "broker/metadata/quorum.py: self._failure": "nothing is agreed on any more: the node ends with it",
    "broker/metadata/quorum.py: future.set_exception": "whoever waits for an agreement is told at once, and then gone",
    "metadata/decisions/decision.py: Outcome.result": "lives for as long as the one request that it answers",
    "servers/kafka/handlers/topics/metadata.py: self.refusals": "the same",
    "runtime/tls/network.py: self.answer.set_exception": "whoever opens the connection is told at once, and then gone",
    "storage/store/known_logs.py: self.prepared": "from opening many logs until each is handed out, in one go",
    "storage/store/log_store.py: self._known.prepared": "the same",
}


def exception_names(trees: dict[str, ast.Module]) -> set[str]:
    """Of exceptions, the builtin ones and the house's own, and of types that are made with them."""
    names = {name for name, it in vars(builtins).items() if isinstance(it, type) and issubclass(it, BaseException)}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    aliases = [
        (node.targets[0].id, node.value)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_a_type(node.value)
    ]
    while True:
        found = {it.name for it in classes if any(_mentions(base, names) for base in it.bases)}
        found |= {name for name, value in aliases if _mentions(value, names)}
        if found <= names:
            return names
        names |= found


def _is_a_type(value: ast.expr) -> bool:
    return isinstance(value, ast.Subscript) or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr))


def _mentions(annotation: ast.AST | None, names: set[str]) -> bool:
    """A function that takes or gives an exception holds none."""
    match annotation:
        case None:
            return False
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
        case ast.Constant(value=str(text)):
            try:
                return _mentions(ast.parse(text, mode="eval").body, names)
            except SyntaxError:
                return False
        case ast.Subscript(value=ast.Name(id="Callable" | "type" | "ClassVar")):
            return False
    return any(_mentions(child, names) for child in ast.iter_child_nodes(annotation))


class Finder(ast.NodeVisitor):
    """Places of one module in which an exception is kept."""

    def __init__(self, names: set[str]) -> None:
        self.found: list[str] = []
        self._names = names
        self._class: str | None = None
        self._caught: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.name in self._names:
            return  # what an exception holds is its own affair
        outer, self._class = self._class, node.name
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and _mentions(statement.annotation, self._names):
                self.found.append(f"{node.name}.{ast.unparse(statement.target)}")
            self.visit(statement)
        self._class = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._caught
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self._caught = outer | {it.arg for it in arguments if _mentions(it.annotation, self._names)}
        self._caught |= {it.name for it in ast.walk(node) if isinstance(it, ast.ExceptHandler) and it.name}
        self.generic_visit(node)
        self._caught = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as `ast` wants it

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Attribute) and _mentions(node.annotation, self._names):
            self.found.append(ast.unparse(node.target))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            place = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(place, ast.Attribute) and self._is_caught(node.value):
                self.found.append(ast.unparse(place))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in TAKING:
            is_kept = isinstance(node.func.value, ast.Attribute) or node.func.attr.startswith("set_")
            if is_kept and any(self._is_caught(argument) for argument in node.args):
                self.found.append(ast.unparse(node.func))
        self.generic_visit(node)

    def _is_caught(self, value: ast.expr) -> bool:
        """The exception itself, perhaps in a tuple or after `or`: not what is read from it or made of it."""
        match value:
            case ast.Name(id=name):
                return name in self._caught
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
                return any(self._is_caught(part) for part in parts)
        return False


def found_in(source: str) -> list[str]:
    trees = {"": ast.parse(source)}
    finder = Finder(exception_names(trees))
    finder.visit(trees[""])
    return finder.found


def test_nothing_in_a_node_keeps_an_exception() -> None:
    files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    assert len(trees) > 200, "the rooms are elsewhere"
    names = exception_names(trees)
    assert {"Refusal", "DiskFailure", "PreparedLog"} <= names
    kept = set()
    for path, tree in trees.items():
        finder = Finder(names)
        finder.visit(tree)
        kept |= {f"{path}: {place}" for place in finder.found}
    assert kept - ALLOWED.keys() == set(), "keep the Reason of a refusal, or the words of an error, and raise a new one"
    assert ALLOWED.keys() - kept == set(), "these are mended, and need no excuse any more"


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("class A:\n def __init__(self): self.x: Refusal | None = None", "self.x"),
        ("class A(NamedTuple):\n x: dict[int, OSError]", "A.x"),
        ("class A:\n def f(self):\n  try: g()\n  except OSError as e: self.x = e", "self.x"),
        ("class A:\n def f(self):\n  try: g()\n  except OSError as e: self.x[3] = e", "self.x"),
        ("class A:\n def f(self):\n  try: g()\n  except OSError as e: self.x.append((1, e))", "self.x.append"),
        ("class A:\n def f(self, error: ValueError): self.x = self.x or error", "self.x"),
        ("Alias = tuple[int] | OSError\nclass A:\n x: list[Alias]", "A.x"),
        ("class A:\n def f(self):\n  try: g()\n  except OSError as e: later.set_exception(e)", "later.set_exception"),
    ],
)
def test_it_sees_what_is_kept(source: str, place: str) -> None:
    assert found_in("class Refusal(Exception): ...\n" + source) == [place]


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n def __init__(self): self.x: Callable[[Exception], None] = print",
        "class A:\n def f(self):\n  try: g()\n  except OSError as e: self.x = str(e)",
        "class A:\n def f(self):\n  try: g()\n  except OSError as e: troubles.append(e)",
        "class A(Exception):\n def __init__(self, cause: OSError): self.cause = cause",
    ],
)
def test_and_nothing_else(source: str) -> None:
    assert found_in(source) == []
