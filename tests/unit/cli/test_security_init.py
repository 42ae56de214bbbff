"""`headrace security`: files that fit together, that only their owner can read, and that are never overwritten."""

from __future__ import annotations

import ssl
import stat
import tomllib
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from headrace.access.authentication.credentials import ScramMechanism, ScramUser, verifier_for
from headrace.access.authentication.verifier_file import users_of
from headrace.cli.app import run
from headrace.cli.security.layout import client_text
from headrace.cli.serve.command import flattened
from headrace.cli.serve.paths import beside
from headrace.client.security.credentials import PasswordCredentials
from headrace.client.security.files import parse_properties, read_client_file
from headrace.testing import Broker

if TYPE_CHECKING:
    from pathlib import Path

FAILED, USAGE, NOT_FOUND = 1, 2, 3


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "there" / "secure"
    assert run(["security", "init", "--dir", str(path), "--host", "kafka.example.com", "--host", "192.0.2.7"]) == 0
    return path


def hosts_of(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_only_the_owner_can_read_anything(directory: Path) -> None:
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    names = ("admin.properties", "ca.key", "ca.pem", "node.pem", "node.toml", "users.json")
    assert files == dict.fromkeys(names, 0o600)


def test_the_certificate_is_for_this_machine_and_the_hosts_that_were_named(directory: Path) -> None:
    hosts = hosts_of(directory / "node.pem")
    assert hosts[:3] == ["localhost", "127.0.0.1", "::1"]
    assert hosts[-2:] == ["kafka.example.com", "192.0.2.7"]
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    context.load_cert_chain(directory / "node.pem")


def test_the_admin_of_the_properties_is_the_user_of_the_verifiers(directory: Path) -> None:
    found = read_client_file(str(directory / "admin.properties"))
    assert found.warnings == ()
    credentials = found.security.credentials
    assert isinstance(credentials, PasswordCredentials)
    assert (credentials.mechanism, credentials.username) == ("SCRAM-SHA-512", "admin")
    assert len(credentials.password) >= 32
    assert found.security.tls is not None
    assert found.security.tls.settings.trusted is not None
    assert found.security.tls.settings.trusted.path == str(directory / "ca.pem")
    users = users_of((directory / "users.json").read_text())
    assert list(users) == [ScramUser("admin", it) for it in (ScramMechanism(1), ScramMechanism(2))]
    for user, kept in users.items():
        assert verifier_for(credentials.password, user.mechanism, kept.salt, kept.iterations) == kept
    for path in directory.iterdir():
        assert (credentials.password in path.read_text()) == (path.name == "admin.properties")


def test_settings_name_files_beside_them_so_that_a_copy_works(directory: Path, tmp_path: Path) -> None:
    settings = dict(flattened(tomllib.loads((directory / "node.toml").read_text())))
    elsewhere = beside(settings, tmp_path)
    assert elsewhere["ssl.keystore.location"] == str(tmp_path / "node.pem")
    assert elsewhere["headrace.initial.users.file"] == str(tmp_path / "users.json")
    assert elsewhere["super.users"] == "User:admin"
    assert str(directory) not in (directory / "node.toml").read_text()


def test_paths_and_references_of_settings_stay_as_they_are(tmp_path: Path) -> None:
    given = {"ssl.key.location": "/etc/key.pem", "a.file": "${env:SECRET}", "b.file": "", "log.dir": "data"}
    assert beside(given, tmp_path) == given


def test_each_node_may_have_a_directory_and_a_key_of_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "secure"
    assert run(["security", "init", "--dir", str(directory), "--nodes", "2"]) == 0
    assert sorted(path.name for path in (directory / "node-2").iterdir()) == [
        *("ca.pem", "node.pem", "node.toml", "users.json")
    ]
    pems = {(place / "node.pem").read_text() for place in (directory, directory / "node-1", directory / "node-2")}
    assert len(pems) == 3
    for name in ("ca.pem", "node.toml", "users.json"):
        assert (directory / "node-1" / name).read_text() == (directory / name).read_text()


@pytest.mark.parametrize("name", ["ca.pem", "notes.txt"])
def test_nothing_is_overwritten(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text("mine")
    assert run(["security", "init", "--dir", str(tmp_path)]) == FAILED
    said = capsys.readouterr().err
    assert f"holds {name} already, and nothing is overwritten" in said
    assert "renew" in said
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_no_secret_is_said(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    again = tmp_path / "again"
    assert run(["security", "init", "--dir", str(again)]) == 0
    said = "".join(capsys.readouterr())
    assert parse_properties((again / "admin.properties").read_text())["sasl.password"] not in said
    assert str(again / "node.toml") in said


def test_certificates_are_renewed_by_the_same_authority(directory: Path) -> None:
    before = (directory / "node.pem").read_text()
    authority = (directory / "ca.pem").read_text()
    assert run(["security", "renew", "--dir", str(directory), "--host", "new.example.com", "--days", "7"]) == 0
    assert (directory / "node.pem").read_text() != before
    assert (directory / "ca.pem").read_text() == authority
    assert stat.S_IMODE((directory / "node.pem").stat().st_mode) == 0o600
    assert hosts_of(directory / "node.pem")[-3:] == ["kafka.example.com", "192.0.2.7", "new.example.com"]
    renewed = x509.load_pem_x509_certificate((directory / "node.pem").read_bytes())
    renewed.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    assert (renewed.not_valid_after_utc - renewed.not_valid_before_utc).days == 7


def test_where_there_is_no_authority_nothing_is_renewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["security", "renew", "--dir", str(tmp_path)]) == NOT_FOUND
    assert "ca.pem is not there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--host", "a b"), ("--host", ""), ("--host", "bücher.example"), ("--admin", ""), ("--admin", "a;User:b")],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, option: str, value: str) -> None:
    directory = tmp_path / "secure"
    assert run(["security", "init", "--dir", str(directory), option, value]) == USAGE
    assert not directory.exists()


def test_properties_hold_any_path(tmp_path: Path) -> None:
    odd = tmp_path / "a\\b c=dé\U0001f600"
    assert parse_properties(client_text("admin", "p", odd))["ssl.ca.location"] == str(odd)


def test_a_client_is_known_by_its_certificate(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["security", "certificate", "--dir", str(directory), "--name", "alice"]) == 0
    said = capsys.readouterr().err
    settings = beside(dict(flattened(tomllib.loads(said[said.index("listeners = ") :]))), directory)
    settings |= {
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "authorizer.class.name": "headrace",
        "super.users": "User:alice",
        "ssl.keystore.location": str(directory / "node.pem"),
        "listener.name.controller.ssl.truststore.location": str(directory / "ca.pem"),
    }
    with Broker(users={"admin": "secret"}, configs=settings) as broker:
        there = broker.bootstrap_servers_of("SSL")
        login = ["--command-config", str(directory / "alice.properties"), "--bootstrap-server", there]
        assert run(["topics", "create", "--name", "orders", *login]) == 0
        assert "created topic orders" in capsys.readouterr().err
        without = ["--command-property", f"ssl.ca.location={directory / 'ca.pem'}", "--bootstrap-server"]
        assert run(["topics", "list", "--command-property", "security.protocol=SSL", *without, there]) == 1
        assert "certificate" in capsys.readouterr().err


def test_certificates_of_clients_are_of_another_authority_than_those_of_nodes(directory: Path) -> None:
    for name in ("alice", "bob"):
        assert run(["security", "certificate", "--dir", str(directory), "--name", name]) == 0
    authority = x509.load_pem_x509_certificate((directory / "clients-ca.pem").read_bytes())
    of_nodes = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
    for name in ("alice", "bob"):
        issued = x509.load_pem_x509_certificate((directory / f"{name}.pem").read_bytes())
        issued.verify_directly_issued_by(authority)
        assert stat.S_IMODE((directory / f"{name}.pem").stat().st_mode) == 0o600
        assert issued.issuer != of_nodes.subject
    assert run(["security", "certificate", "--dir", str(directory), "--name", "bob"]) == FAILED


@pytest.mark.parametrize("name", ["", "../alice", "a b", "CN=x,OU=nodes", "-x"])
def test_a_client_has_a_plain_name(directory: Path, name: str) -> None:
    assert run(["security", "certificate", "--dir", str(directory), f"--name={name}"]) == USAGE
