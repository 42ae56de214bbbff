"""A client's security settings, under librdkafka's names and Java's: what they mean, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.security.credentials import PasswordCredentials, TokenCredentials
from headrace.client.security.files import parse_properties, read_client_file
from headrace.client.security.jaas import parse_jaas
from headrace.client.security.secret_values import UnusableSettings
from headrace.client.security.settings import OPEN, parse_security
from headrace.runtime.tls.settings import Pem

if TYPE_CHECKING:
    from pathlib import Path

SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
ALICE = {**SCRAM, "sasl.username": "alice", "sasl.password": "hunter2"}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def test_without_settings_nothing_is_protected() -> None:
    assert parse_security({}) == OPEN
    assert parse_security({"security.protocol": "PLAINTEXT", "client.id": "x"}) == OPEN


def test_a_password_under_librdkafkas_names() -> None:
    security = parse_security({**ALICE, "sasl.mechanisms": "SCRAM-SHA-512", "ssl.ca.location": "/ca.pem"})
    assert security.credentials == PasswordCredentials("SCRAM-SHA-512", "alice", "hunter2")
    assert security.tls is not None
    assert security.tls.settings.trusted == Pem(path="/ca.pem")
    assert security.tls.expects_host
    assert security.tls.verifies


def test_a_password_under_javas_names() -> None:
    security = parse_security(
        {
            **SCRAM,
            "sasl.jaas.config": f"{MODULE} required username=\"alice\" \n password='hunter2' ;",
            "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
            "ssl.truststore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert security.credentials == PasswordCredentials("SCRAM-SHA-512", "alice", "hunter2")
    assert security.tls is not None
    assert security.tls.settings.trusted == Pem(text="-----BEGIN CERTIFICATE-----")
    assert not security.tls.expects_host


def test_a_certificate_of_ones_own() -> None:
    security = parse_security(
        {
            "security.protocol": "ssl",
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.key",
            "ssl.key.password": "hunter2",
            "ssl.enabled.protocols": "TLSv1.3",
            "enable.ssl.certificate.verification": "false",
        }
    )
    assert security.credentials is None
    assert security.tls is not None
    settings = security.tls.settings
    assert (settings.own, settings.key, settings.key_password) == (Pem("/me.pem"), Pem("/me.key"), "hunter2")
    assert settings.versions == ("TLSv1.3",)
    assert not security.tls.verifies


def test_secrets_may_stand_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "password"
    secret.write_text('hun"ter;2\n')
    monkeypatch.setenv("OUR_USER", "al=ice")
    without = {name: value for name, value in ALICE.items() if name != "sasl.password"}
    expected = PasswordCredentials("SCRAM-SHA-512", "al=ice", 'hun"ter;2')
    named = {**without, "sasl.username": "${env:OUR_USER}"}
    assert parse_security({**named, "sasl.password.file": str(secret)}).credentials == expected
    assert parse_security({**named, "sasl.password": f"${{file:{secret}}}"}).credentials == expected
    jaas = f'{MODULE} required username="${{env:OUR_USER}}" password="${{file:{secret}}}";'
    assert parse_security({**SCRAM, "sasl.jaas.config": jaas}).credentials == expected


def test_tokens(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc.def.ghi\n")
    from_file = parse_security({**BEARER, "sasl.oauthbearer.token.file": str(token)})
    assert from_file.credentials == TokenCredentials(path=str(token))
    from_java = parse_security({**BEARER, "sasl.oauthbearer.token.endpoint.url": f"file://{token}"})
    assert from_java == from_file
    given = {**BEARER, "sasl.oauthbearer.token": "abc", "sasl.oauthbearer.extensions": "pool=a,lane=b"}
    assert parse_security(given).credentials == TokenCredentials("abc", extensions=(("pool", "a"), ("lane", "b")))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protcol": "SSL"}, "is security.protocol meant?"),
        ({"sasl.user": "alice"}, "is sasl.username meant?"),
        ({"ssl.crl.location": "/crl"}, "is not a setting that is known here"),
        ({"sasl.client.callback.handler.class": "org.example.Mine"}, "names code to load"),
        ({"sasl.username": "alice"}, "security.protocol is not set, which means no login: set it to SASL_SSL"),
        ({"security.protocol": "SSL", "sasl.password": "hunter2"}, "security.protocol is SSL, which means no login"),
        ({"ssl.ca.location": "/ca.pem"}, "which means no TLS: set it to SSL or SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set; expected one of SCRAM-SHA-512"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism is 'GSSAPI'; expected one of"),
        ({**SCRAM, "sasl.mechanisms": "PLAIN"}, "differ"),
        (SCRAM, "sasl.username is not set"),
        ({**SCRAM, "sasl.username": "alice"}, r"sasl.password \(or sasl.password.file\) is not set"),
        ({**ALICE, "sasl.password": "hun\0ter2"}, "characters that cannot be sent"),
        ({**ALICE, "sasl.password.file": "/nowhere"}, "say the same"),
        ({**SCRAM, "sasl.username": "a", "sasl.password.file": "/nowhere"}, "cannot read /nowhere: no such file"),
        ({**ALICE, "sasl.password": "${env:NOT_THERE_AT_ALL}"}, "the environment has no NOT_THERE_AT_ALL"),
        ({**ALICE, "sasl.jaas.config": f'{MODULE} required password="hunter2";'}, "say the same"),
        ({**ALICE, "sasl.oauthbearer.token": "hunter2"}, "takes no token"),
        ({**ALICE, "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"}, "lets everybody on the way"),
        ({**BEARER, "sasl.username": "alice"}, "takes a token"),
        (BEARER, "takes its token from nothing; expected sasl.oauthbearer.token.file"),
        ({**BEARER, "sasl.oauthbearer.token.endpoint.url": "https://x"}, "tokens are not fetched here"),
        ({**BEARER, "sasl.oauthbearer.token": "hunter2", "sasl.oauthbearer.token.file": "/x"}, "expected"),
        ({**ALICE, "ssl.truststore.type": "JKS"}, "expected is PEM. To make PEM of it: keytool -importkeystore"),
        ({**ALICE, "ssl.keystore.password": "hunter2"}, "for Java's keystores"),
        ({**ALICE, "ssl.key.location": "/key"}, "without its certificate"),
        ({**ALICE, "ssl.ca.location": "/a", "ssl.truststore.location": "/b"}, "say the same"),
        ({**ALICE, "ssl.endpoint.identification.algorithm": "http"}, "expected https, or none"),
        ({**ALICE, "enable.ssl.certificate.verification": "no"}, "expected true or false"),
    ],
)
def test_what_is_refused_and_why(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UnusableSettings, match=words) as caught:
        parse_security(settings)
    assert "hunter2" not in str(caught.value)


def test_plain_without_tls_can_be_allowed() -> None:
    settings = {**ALICE, "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"}
    allowed = parse_security({**settings, "headrace.allow.cleartext.secrets": "true"})
    assert allowed.credentials == PasswordCredentials("PLAIN", "alice", "hunter2")


def test_no_secret_is_shown_by_accident() -> None:
    security = parse_security({**ALICE, "ssl.key.password": "hunter2"})
    token = parse_security({**BEARER, "sasl.oauthbearer.token": "hunter2"})
    assert "hunter2" not in repr(security) + repr(security.credentials) + repr(token) + repr(token.credentials)


# The login modules of Java.

QUOTABLE = st.text(st.characters(exclude_categories=("Cs",)), max_size=30).filter(lambda text: "${" not in text)


@given(QUOTABLE, st.sampled_from("\"'"))
def test_any_value_can_be_quoted(value: str, quote: str) -> None:
    quoted = value.replace("\\", "\\\\").replace(quote, f"\\{quote}").replace("\n", "\\n")
    found = parse_jaas(f"// mine\n{MODULE} required /* this */ password={quote}{quoted}{quote};\n")
    assert found.options == {"password": value}


@given(st.text(max_size=60))
def test_whatever_is_written_is_read_or_refused_without_being_repeated(text: str) -> None:
    try:
        parse_jaas(f'{MODULE} required password="hunter2" {text};')
    except UnusableSettings as refused:
        said = str(refused)
    else:
        said = ""
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not end with ';'"),
        (f'{MODULE} required username="a" password="hunter2"', "does not end with ';'"),
        (f'{MODULE} required username="a" password="hunter2', "a quote that is not closed"),
        (f'{MODULE} username="a" password="hunter2";', "no 'required'"),
        (f'{MODULE} required username "a" password="hunter2";', 'expected name="value"'),
        (f'{MODULE} required username="a" password="hunter2" hunter2;', "behind the option 'password'"),
        (f'{MODULE} required password="hunter2" password="hunter2";', "twice"),
        (f"{MODULE} required; {MODULE} required;", "more than one"),
        ('com.sun.security.auth.module.JndiLoginModule required password="hunter2";', "no other code is loaded"),
    ],
)
def test_what_is_no_login_module_is_refused_without_its_values(text: str, words: str) -> None:
    with pytest.raises(UnusableSettings, match=words) as caught:
        parse_jaas(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("jaas", "mechanism", "words"),
    [
        (f'{MODULE} required username="a" password="hunter2";', "PLAIN", "login module of scram, but"),
        (f'{MODULE} required username="a" password="hunter2" debug="x";', "SCRAM-SHA-256", "has the option 'debug'"),
        (f'{MODULE} required username="a" tokenauth="true";', "SCRAM-SHA-256", "delegation tokens"),
        (f'{MODULE} required username="a";', "OAUTHBEARER", "login module of scram"),
    ],
)
def test_a_login_module_that_does_not_fit_is_refused(jaas: str, mechanism: str, words: str) -> None:
    with pytest.raises(UnusableSettings, match=words) as caught:
        parse_security({**SCRAM, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas})
    assert "hunter2" not in str(caught.value)


# Files.


def test_properties_are_read_as_java_reads_them() -> None:
    text = """
    # comment
    ! another
    a=1
    b : 2
    c 3
    d\\=e=4=5
    long = one \\
           two \\
    # three
    empty
    tab=\\t\\u00e9\\\\
    """
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d=e": "4=5",
        "long": "one two # three",
        "empty": "",
        "tab": "\té\\",
    }


@given(st.dictionaries(st.from_regex(r"[a-z.]{1,10}", fullmatch=True), st.text(max_size=20), max_size=5))
def test_properties_come_back_whatever_they_hold(expected: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\u{ord(sign):04x}" if sign in " =:#!\\" or not " " < sign < "\x7f" else sign for sign in text)

    values = {name: "".join(sign for sign in value if ord(sign) < 0x10000) for name, value in expected.items()}
    assert parse_properties("".join(f"{name}={escaped(value)}\n" for name, value in values.items())) == values


def test_a_file_of_properties(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=a:9092,b:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={MODULE} required \\\n  username="alice" \\\n  password="hunter2";\nacks=all\n'
    )
    path.chmod(0o600)
    found = read_client_file(str(path))
    assert found.bootstrap_servers == "a:9092,b:9092"
    assert found.security.credentials == PasswordCredentials("SCRAM-SHA-256", "alice", "hunter2")
    assert [warning.partition(": ")[2][:23] for warning in found.warnings] == ["acks has no effect here"]


@pytest.mark.parametrize(
    "text",
    [
        'security.protocol = "SASL_SSL"\nsasl.mechanism = "PLAIN"\nsasl.username = "a"\nsasl.password = "hunter2"\n',
        '[security]\nprotocol = "SASL_SSL"\n[sasl]\nmechanism = "PLAIN"\nusername = "a"\npassword = "hunter2"\n',
    ],
)
def test_a_file_of_toml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "client.toml"
    path.write_text(text)
    path.chmod(0o600)
    found = read_client_file(str(path))
    assert found.security.credentials == PasswordCredentials("PLAIN", "a", "hunter2")
    assert found.bootstrap_servers is None
    assert found.warnings == ()


def test_a_password_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    path, secret = tmp_path / "client.properties", tmp_path / "password"
    path.write_text("".join(f"{name}={value}\n" for name, value in ALICE.items()))
    path.chmod(0o640)
    assert [f"chmod 600 {path}" in warning for warning in read_client_file(str(path)).warnings] == [True]
    path.chmod(0o600)
    assert read_client_file(str(path)).warnings == ()

    secret.write_text("hunter2")
    elsewhere = {**ALICE, "sasl.password": f"${{file:{secret}}}"}
    path.write_text("".join(f"{name}={value}\n" for name, value in elsewhere.items()))
    path.chmod(0o644)
    assert read_client_file(str(path)).warnings == ()

    in_a_file = {**ALICE, "sasl.password.file": str(secret)}
    del in_a_file["sasl.password"]
    path.write_text("".join(f"{name}={value}\n" for name, value in in_a_file.items()))
    secret.chmod(0o644)
    assert [f"chmod 600 {secret}" in warning for warning in read_client_file(str(path)).warnings] == [True]
    secret.chmod(0o600)
    assert read_client_file(str(path)).warnings == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("security.protocol=SSL\nsecurity.protocol=SSL\n", "line 2: security.protocol is set twice"),
        ("security.protocol=SSL\nsasl.password=hunter2\n", "client.properties, line 2: sasl.password is set, but"),
    ],
)
def test_an_error_in_a_file_names_it(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(UnusableSettings, match=words) as caught:
        read_client_file(str(path))
    assert str(path) in str(caught.value)
    assert "hunter2" not in str(caught.value)
