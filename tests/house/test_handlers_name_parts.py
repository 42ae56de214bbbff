"""Handlers of Kafka's APIs name the parts of a node that they use: by the node's own names, and with its types."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from headrace.broker import node
from headrace.servers.kafka.apis import SERVED, SERVED_TO_NODES, Apis, parts_of
from headrace.servers.kafka.rights import Rights
from headrace.wire.api import APIS

if TYPE_CHECKING:
    from types import ModuleType

MODULES = sorted({*SERVED.values(), *SERVED_TO_NODES.values()} - {"records.produce", "records.fetch"})
PARTS = inspect.get_annotations(node.Node)
"""Each part's name and type, as written."""
AUDIT = SimpleNamespace(is_on=True)
AUTHORIZER = SimpleNamespace(is_on=True)
WORLD = SimpleNamespace(clock=None)


def handlers_module(place: str) -> ModuleType:
    return import_module(f"headrace.servers.kafka.handlers.{place}")


@pytest.mark.parametrize("place", MODULES)
def test_a_handler_names_parts_of_a_node_with_their_types(place: str) -> None:
    module = handlers_module(place)
    annotations = inspect.get_annotations(module.handle)
    for name in parts_of(module.handle):
        assert name in PARTS, f"{place}: a node has no part {name!r}"
        wanted, given = annotations[name], PARTS[name]
        assert (wanted, origin(module, wanted)) == (given, origin(node, given)), f"{place}: {name}"


@pytest.mark.parametrize("is_for_nodes", [False, True])
def test_every_api_is_loaded_with_the_parts_that_it_names(is_for_nodes: bool) -> None:
    apis = Apis(
        {name: name for name in PARTS}
        | {"quorum": None, "commands": None, "audit": AUDIT, "authorizer": AUTHORIZER, "world": WORLD},
        is_for_nodes=is_for_nodes,
    )
    served = {**SERVED, **SERVED_TO_NODES} if is_for_nodes else SERVED
    found = {key for key in (*SERVED, *SERVED_TO_NODES) for version in range(30) if apis.find(key, version)}
    assert found == set(served)


def test_a_handler_that_names_what_no_node_has_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    key, place = next((key, place) for key, place in SERVED.items() if place in MODULES)
    monkeypatch.setattr(
        handlers_module(place), "handle", lambda message, request, cupboard: (message, request, cupboard)
    )
    with pytest.raises(LookupError, match="cupboard"):
        [open_apis().find(key, version) for version in range(30)]


@pytest.mark.parametrize("place", sorted(SERVED.values()))
def test_an_api_that_does_not_say_which_rights_it_takes_is_not_loaded(place, monkeypatch) -> None:
    key = next(key for key in SERVED if SERVED[key] == place)
    monkeypatch.delattr(handlers_module(place), "RIGHTS")
    with pytest.raises(LookupError, match="RIGHTS are missing"):
        open_apis().find(key, APIS[key].version_max)


def test_rights_that_say_nothing_are_none() -> None:
    with pytest.raises(AssertionError, match="says why"):
        Rights()


def open_apis() -> Apis:
    return Apis({"authorizer": SimpleNamespace(is_on=False)}, is_for_nodes=False)


def origin(module: ModuleType, name: str) -> str:
    """Where a name comes from, what is imported for types alone included."""
    assert module.__file__ is not None
    for statement in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(statement, ast.ImportFrom) and any(alias.name == name for alias in statement.names):
            return str(statement.module)
    raise AssertionError(f"{module.__name__} does not import {name}")
