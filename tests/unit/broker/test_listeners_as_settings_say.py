"""From settings to listeners: what they mean, and what is refused before anything is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.access.listeners import ClientAuth, SecurityProtocol
from headrace.broker.listeners.exposure import exposed, unencrypted
from headrace.broker.listeners.opening import Doors
from headrace.broker.listeners.plans import ListenerPlans, ToldPlaces, UnusableListeners, planned
from headrace.metadata.configs.node_configs import node_config_key
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.network import Address
from headrace.runtime.tls.settings import UnusableTls
from tests.certificates import Certificates

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "correct-horse-battery-staple"
TWO = {
    "listeners": "INSIDE://10.0.0.1:9092,Outside://:9094,CONTROLLER://10.0.0.1:9093",
    "advertised.listeners": "OUTSIDE://broker.example:443",
    "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SASL_SSL,CONTROLLER:SSL",
    "ssl.keystore.location": "/keys/node.pem",
    "ssl.truststore.location": "/keys/ca.pem",
    "listener.name.outside.ssl.keystore.location": "/keys/outside.pem",
    "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.outside.plain.connections.max.reauth.ms": "60000",
    "listener.name.controller.ssl.principal.mapping.rules": "RULE:^CN=(node-[0-9]+)$/$1/",
}


def plans(configs: dict[str, str], **told: str) -> ListenerPlans:
    for name, text in configs.items():  # as a node does before it asks for its listeners
        node_config_key(name).parse(text)
    return planned(configs, ToldPlaces(**told))


def test_a_node_that_is_told_nothing_listens_on_loopback_alone() -> None:
    said = plans({})
    (listener,) = said.clients
    assert (listener.name, listener.at, listener.told) == ("PLAINTEXT", Address("127.0.0.1", 9092), None)
    assert (said.nodes_at, said.knows_its_clients, exposed(said, None, None)) == (None, False, [])
    assert said.described() == {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
    }


def test_each_listener_has_what_is_said_of_it_and_else_what_is_said_of_all() -> None:
    said = plans(TWO)
    inside, outside = said.clients
    assert (inside.name, inside.at, inside.told) == ("INSIDE", Address("10.0.0.1", 9092), None)
    assert (outside.name, outside.at, outside.told) == (
        "OUTSIDE",
        Address("0.0.0.0", 9094),
        Address("broker.example", 443),
    )
    assert inside.protection.tls is not None
    assert outside.protection.tls is not None
    assert str(inside.protection.tls.own) == "/keys/node.pem"
    assert str(outside.protection.tls.own) == "/keys/outside.pem"
    assert outside.protection.security.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert outside.protection.session_max_s == 60
    assert said.nodes.security.protocol is SecurityProtocol.SSL
    assert said.nodes.security.client_auth is ClientAuth.REQUIRED, "nodes show certificates without being told to"
    assert inside.protection.security.client_auth is ClientAuth.NONE
    assert said.nodes.name_rules.name_of("CN=node-3") == "node-3"
    assert said.nodes.name_rules.name_of("CN=alice") is None
    assert said.knows_its_clients


def test_a_listener_may_have_limits_of_its_own() -> None:
    own = {"listener.name.inside.max.connections": "7", "listener.name.outside.max.connection.creation.rate": "3"}
    inside, outside = plans({**TWO, **own, "max.connections": "9"}).clients
    assert inside.protection.limits == (7, None)
    assert outside.protection.limits == (None, 3), "what is said of the node is no listener's own"


@pytest.mark.parametrize(
    ("configs", "told", "shown"),
    [
        ({}, {"listen": "10.0.0.1:1"}, ["PLAINTEXT://10.0.0.1:1"]),
        ({"listeners": "SSL://a:1,B://b:2,CONTROLLER://c:3"}, {"listen": "d:4"}, ["SSL://d:4", "B://b:2"]),
        ({"listeners": "SSL://a:1"}, {"listen": "B://b:2,SSL://c:3"}, ["B://b:2", "SSL://c:3"]),
        ({"listeners": "SSL://a:1,B://[::1]:2"}, {}, ["SSL://a:1", "B://[::1]:2"]),
    ],
)
def test_flags_say_where_the_listeners_of_the_settings_are(
    configs: dict[str, str], told: dict[str, str], shown: list[str]
) -> None:
    protection = {
        "listener.security.protocol.map": "SSL:SSL,B:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        **({"ssl.keystore.location": "/k"} if "SSL" in "".join([*configs.values(), *told.values()]) else {}),
    }
    said = plans(configs | protection, **told)
    assert [f"{it.name}://{it.at}" for it in said.clients] == shown


def test_flags_say_where_nodes_and_clients_are_told_to_look() -> None:
    said = plans(TWO, cluster_listen="10.0.0.9:1", advertise="far:2")
    assert [it.told for it in said.clients] == [Address("far", 2), Address("broker.example", 443)]
    assert said.nodes_at == Address("10.0.0.9", 1)
    said = plans(TWO, cluster_listen="CONTROLLER://10.0.0.9:1", advertise="OUTSIDE://far:2")
    assert [it.told for it in said.clients] == [None, Address("far", 2)]
    assert said.nodes_at == Address("10.0.0.9", 1)


def test_a_secret_makes_nodes_log_in(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    said = plans({"headrace.cluster.secret.file": str(path)})
    assert said.nodes.security.protocol is SecurityProtocol.SASL_PLAINTEXT
    assert said.nodes.secret == SECRET
    assert SECRET not in repr(said)
    assert said.nodes.security.knows_its_clients
    over_tls = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        "ssl.keystore.location": "/k",
        "ssl.truststore.location": "/ca",
    }
    said = plans({"headrace.cluster.secret.file": str(path), **over_tls})
    assert said.nodes.security.protocol is SecurityProtocol.SASL_SSL
    assert said.nodes.security.client_auth is ClientAuth.NONE


def test_a_value_may_stand_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "password"
    path.write_text("in a file\n")
    monkeypatch.setenv("KEY_PASSWORD", "in the environment")
    ssl = {"listeners": "SSL://127.0.0.1:1", "ssl.keystore.location": "/k"}
    for own, meant in (
        ({"ssl.key.password": "${env:KEY_PASSWORD}"}, "in the environment"),
        ({"ssl.key.password": f"${{file:{path}}}"}, "in a file"),
        ({"ssl.key.password.file": str(path)}, "in a file"),
    ):
        (listener,) = plans(ssl | own).clients
        assert listener.protection.tls is not None
        assert listener.protection.tls.key_password == meant
        assert meant not in repr(listener)


SSL = {"listeners": "SSL://:1", "ssl.keystore.location": "/k"}
SASL = {"listeners": "SASL_PLAINTEXT://:1"}
SASL_SSL = {"listeners": "SASL_SSL://:1", "ssl.keystore.location": "/k"}
JWKS = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"listeners": "9092"}, "listeners: '9092' is no listener; expected NAME://host:port"),
        ({"listeners": "A://:1,a://:2"}, "listeners: A is there twice"),
        ({"listeners": "PLAINTEXT://:99999"}, "with a port from 0 to 65535"),
        ({"listeners": "HTTP://:1"}, "HTTP is not a name for a listener of clients"),
        ({"listeners": "IN://:1"}, "listener.security.protocol.map: it does not say what IN speaks"),
        ({"listeners": "IN://:1", "listener.security.protocol.map": "IN:TLS"}, "IN has the protocol 'TLS'; expected"),
        ({"listeners": "IN://:1", "listener.security.protocol.map": "IN"}, "'IN' is no pair; expected NAME:PROTOCOL"),
        ({"listeners": "A://:1,B://:2", "controller.listener.names": "A,B"}, "A and B are both for nodes"),
        ({"advertised.listeners": "OTHER://a:1"}, "OTHER is none of the listeners, which are PLAINTEXT"),
        ({"listeners": "SSL://:1"}, "ssl.keystore.location: listener SSL speaks TLS, and has no certificate"),
        (SSL | {"ssl.client.auth": "required"}, "ssl.truststore.location: whoever connects to SSL is asked for"),
        (SSL | {"ssl.keystore.password": "x"}, "listener SSL: ssl.keystore.password is for Java's keystores"),
        (SSL | {"ssl.keystore.type": "JKS"}, "listener SSL: ssl.keystore.type is JKS; expected is PEM"),
        (SSL | {"ssl.keystore.certificate.chain": "x"}, "say the same; expected is one of them"),
        (SSL | {"ssl.principal.mapping.rules": "RULE:x"}, "expected RULE:pattern/replacement/[LU]"),
        (SSL | {"ssl.key.password": "${env:NOT_THERE}"}, "ssl.key.password: the environment has no NOT_THERE"),
        (SSL | {"ssl.key.password.file": "/not/there"}, "cannot read /not/there"),
        (SSL | {"sasl.enabled.mechanisms": "PLAIN"}, "sasl.enabled.mechanisms: it is set, but no listener speaks SASL"),
        ({"ssl.keystore.location": "/k"}, "ssl.keystore.location: it is set, but no listener speaks TLS"),
        (
            {"listener.name.plaintext.ssl.keystore.location": "/k"},
            "listener.name.plaintext.ssl.keystore.location: it is set, but PLAINTEXT speaks PLAINTEXT, without TLS",
        ),
        (SSL | {"listener.name.outside.ssl.client.auth": "none"}, "there is no listener OUTSIDE; there are SSL"),
        (SASL | {"sasl.enabled.mechanisms": "PLAIN"}, "PLAIN sends passwords as they are"),
        (SASL | {"sasl.enabled.mechanisms": ""}, "nobody can log in at SASL_PLAINTEXT by no mechanism"),
        (
            SASL_SSL
            | {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": 'x required user_bob="y";',
            },
            "listener.name.sasl_ssl.plain.sasl.jaas.config: it names users, and users are kept by the cluster",
        ),
        (SASL | {"sasl.enabled.mechanisms": "OAUTHBEARER"}, f"{JWKS}: clients log in at SASL_PLAINTEXT by tokens"),
        (SASL | {"sasl.enabled.mechanisms": "OAUTHBEARER", JWKS: "http://elsewhere/keys"}, "expected file:///path or"),
        (SASL | {"sasl.enabled.mechanisms": "OAUTHBEARER", JWKS: "file://host/keys"}, "expected file:///path or"),
        (SASL | {"sasl.enabled.mechanisms": "OAUTHBEARER", JWKS: "https://a:b@c/d"}, "no password in it"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"},
            "nodes log in at CONTROLLER by a secret that all of them have: set headrace.cluster.secret.file",
        ),
        ({"headrace.cluster.secret.file": "/not/there"}, "headrace.cluster.secret.file: cannot read /not/there"),
        (TWO | {"ssl.truststore.location": ""}, "whoever connects to CONTROLLER is asked for a certificate"),
        (
            TWO | {"listener.name.controller.ssl.client.auth": "none"},
            "listener.name.controller.ssl.client.auth: nodes know each other by certificates: set it to required",
        ),
        (
            TWO
            | {
                "listener.name.inside.ssl.client.auth": "required",
                "listener.name.controller.ssl.principal.mapping.rules": "DEFAULT",
            },
            "clients of INSIDE have certificates of the same CA as nodes, so any of them could be a node",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HTTP:SASL_SSL"},
            "HTTP speaks SASL_SSL, and HTTP has no SASL: use SSL",
        ),
    ],
)
def test_what_no_listener_can_be_made_of(configs: dict[str, str], said: str) -> None:
    with pytest.raises(UnusableListeners) as refused:
        plans(configs)
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["short", "", "has a\ttab in it, but is long"])
def test_a_secret_that_can_be_guessed_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(UnusableListeners, match=r"headrace\.cluster\.secret\.file: ") as refused:
        plans({"headrace.cluster.secret.file": str(path)})
    assert not text or text not in str(refused.value)


def test_what_is_open_to_others_is_named_with_what_it_lacks() -> None:
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:1,OPEN://:2,CERTS://:3,LOGIN://:4",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OPEN:SSL,CERTS:SSL,LOGIN:SASL_PLAINTEXT",
        "ssl.keystore.location": "/k",
        "listener.name.certs.ssl.client.auth": "required",
        "listener.name.certs.ssl.truststore.location": "/ca",
    }
    said = plans(configs)
    names = [it.name for it in exposed(said, Address("10.0.0.1", 9093), Address("0.0.0.0", 8080))]
    assert names == ["OPEN", "CONTROLLER", "HTTP"], "TLS alone does not say who somebody is"
    assert [it.name for it in unencrypted(said, Address("10.0.0.1", 9093))] == ["LOGIN"]
    assert exposed(said, Address("::1", 1), Address("localhost", 1))[1:] == []
    assert [it.name for it in exposed(plans({}, listen="broker:1"), None, None)] == ["PLAINTEXT"]


def test_a_key_that_everybody_can_read_is_refused_and_one_of_a_group_is_not(tmp_path: Path) -> None:
    held = Certificates(tmp_path).issue("node")
    configs = {
        "listeners": "SSL://127.0.0.1:1",
        "ssl.keystore.location": str(held.certificate),
        "ssl.key.location": str(held.key),
    }
    held.key.chmod(0o640)
    Doors(plans(configs), SystemEntropy())
    held.key.chmod(0o644)
    with pytest.raises(UnusableTls, match=r"everybody on this machine can read or change .*/node\.key"):
        Doors(plans(configs), SystemEntropy())
    Doors(plans(configs | {"headrace.insecure": "true"}), SystemEntropy())
    held.key.chmod(0o600)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o604)
    with pytest.raises(UnusableTls, match=r"everybody on this machine can read or change .*/secret"):
        Doors(plans(configs | {"headrace.cluster.secret.file": str(secret)}), SystemEntropy())
