"""A client's usual security settings as a value: under librdkafka's names and Java's, as they stand in a program, in a
`--command-config` file, in the options of a Spark source.

Whoever sets one of them means to be safe. So what is unknown here, or says two things at once, is refused; nothing is
passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from headrace.client.security import tls_choice
from headrace.client.security.credentials import PasswordCredentials, TokenCredentials
from headrace.client.security.jaas import SETTING as JAAS
from headrace.client.security.jaas import parse_jaas
from headrace.client.security.secret_values import UnusableSettings, read_secret, resolved
from headrace.client.security.tls_choice import TlsChoice, boolean, parse_tls
from headrace.wire.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from headrace.wire.sasl.plain import MECHANISM as PLAIN
from headrace.wire.sasl.scram import HASH_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.client.security.credentials import Credentials

    Origin = tuple[Callable[..., "ClientSecurity"], tuple[object, ...]]

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
CLEARTEXT: Final = "headrace.allow.cleartext.secrets"
"""PLAIN and OAUTHBEARER over a connection that anybody on the way can read."""

MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", PLAIN, OAUTHBEARER)
PROTOCOLS: Final = {
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
"""Whether there is TLS, and a login."""

_TOKEN: Final = "sasl.oauthbearer.token"  # noqa: S105 - a setting's name
_TOKEN_FILE: Final = "sasl.oauthbearer.token.file"  # noqa: S105
_TOKEN_ADDRESS: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105
_EXTENSIONS: Final = "sasl.oauthbearer.extensions"
_PASSWORD_FILE: Final = "sasl.password.file"  # noqa: S105

_SASL_NAMES: Final = frozenset(
    {MECHANISM, "sasl.mechanisms", "sasl.username", "sasl.password", _PASSWORD_FILE, JAAS}
    | {_TOKEN, _TOKEN_FILE, _TOKEN_ADDRESS, _EXTENSIONS}
)
_SASL_WITHOUT_EFFECT: Final = ("sasl.kerberos.", "sasl.login.refresh.", "sasl.login.retry.", "sasl.login.connect.")
_LOADS_CODE: Final = ("callback.handler.class", "login.class", "engine.factory.class", "security.providers")
_PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "headrace.")
NAMES: Final = frozenset({PROTOCOL, CLEARTEXT} | _SASL_NAMES | tls_choice.NAMES)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a client's connections are protected."""

    tls: TlsChoice | None = None
    """None: not encrypted."""
    credentials: Credentials | None = field(default=None, repr=False)
    """None: no login. With TLS a certificate may say who the client is."""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """What makes the same of the settings as they were written."""

    def __reduce__(self) -> tuple[Any, ...]:
        """What is sent to another process is what was written: a secret that stands elsewhere stays there, and is
        looked up where it is used."""
        return self.origin or (ClientSecurity, (self.tls, self.credentials))


OPEN: Final = ClientSecurity()


def is_security_setting(name: str) -> bool:
    """Whether the setting of this name is for `parse_security`, known or not."""
    return name.startswith(_PREFIXES)


def parse_security(given: Mapping[str, str]) -> ClientSecurity:
    """From settings by their names; those that have nothing to do with security are left alone.

    Raises UnusableSettings (a ValueError). Files of passwords are read at once, those of certificates when the client
    connects.
    """
    chosen = {name: value.strip() for name, value in given.items() if is_security_setting(name)}
    _refuse_unknown(chosen)
    settings = {name: value if name == JAAS else resolved(value, name) for name, value in chosen.items()}
    has_tls, has_login = _protocol(settings)
    return ClientSecurity(
        parse_tls(settings) if has_tls else None,
        _credentials(settings, has_tls=has_tls) if has_login else None,
        (parse_security, (chosen,)),
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for name in sorted(given):
        if name in NAMES or name in tls_choice.WITHOUT_EFFECT or name.startswith(_SASL_WITHOUT_EFFECT):
            continue
        if name.endswith(_LOADS_CODE):
            raise UnusableSettings(f"{name} is not supported: it names code to load, and settings load none here")
        close = get_close_matches(name, NAMES, 1)
        advice = f"is {close[0]} meant?" if close else f"known are {PROTOCOL}, sasl.… and ssl.… (docs/security.md)"
        raise UnusableSettings(f"{name} is not a setting that is known here: {advice}")


def _protocol(given: Mapping[str, str]) -> tuple[bool, bool]:
    text = given.get(PROTOCOL, "PLAINTEXT").upper()
    if text not in PROTOCOLS:
        raise UnusableSettings(f"{PROTOCOL} is {given[PROTOCOL]!r}; expected one of {', '.join(PROTOCOLS)}")
    has_tls, has_login = PROTOCOLS[text]
    for name in sorted(given):
        is_about_tls = name in tls_choice.NAMES and given[name] != ""
        if (is_about_tls and not has_tls) or (name in _SASL_NAMES and not has_login):
            missing, right = ("TLS", "SSL or SASL_SSL") if is_about_tls else ("login", "SASL_SSL")
            stated = f"is {text}" if PROTOCOL in given else "is not set"
            raise UnusableSettings(
                f"{name} is set, but {PROTOCOL} {stated}, which means no {missing}: set it to {right}"
            )
    return has_tls, has_login


def _credentials(given: Mapping[str, str], *, has_tls: bool) -> Credentials:
    mechanism = _mechanism(given)
    credentials: Credentials = _token(given) if mechanism == OAUTHBEARER else _password(given, mechanism)
    shows_secret = mechanism not in HASH_NAMES
    if shows_secret and not has_tls and not boolean(given, CLEARTEXT, default=False):
        raise UnusableSettings(
            f"{mechanism} sends its secret as it is, and {PROTOCOL} SASL_PLAINTEXT lets everybody on the way read it: "
            f"set {PROTOCOL} to SASL_SSL, or take SCRAM-SHA-512 ({CLEARTEXT}=true allows it all the same)"
        )
    return credentials


def _mechanism(given: Mapping[str, str]) -> str:
    names = [given[name] for name in (MECHANISM, "sasl.mechanisms") if name in given]
    if len(set(names)) > 1:
        raise UnusableSettings(f"{MECHANISM} and sasl.mechanisms differ; expected is one of them")
    if not names:
        raise UnusableSettings(f"{MECHANISM} is not set; expected one of {', '.join(MECHANISMS)}")
    mechanism = names[0].upper()
    if mechanism not in MECHANISMS:
        raise UnusableSettings(f"{MECHANISM} is {names[0]!r}; expected one of {', '.join(MECHANISMS)}")
    return mechanism


def _password(given: Mapping[str, str], mechanism: str) -> PasswordCredentials:
    for name in (_TOKEN, _TOKEN_FILE, _TOKEN_ADDRESS, _EXTENSIONS):
        if name in given:
            raise UnusableSettings(f"{name} is set, but {MECHANISM} is {mechanism}, which takes no token")
    username, password = given.get("sasl.username", ""), given.get("sasl.password", "")
    if JAAS in given:
        if username or password or _PASSWORD_FILE in given:
            raise UnusableSettings(f"{JAAS} and sasl.username or sasl.password say the same; expected is one of them")
        username, password = _password_of_jaas(given[JAAS], mechanism)
    elif _PASSWORD_FILE in given:
        if password:
            raise UnusableSettings(f"sasl.password and {_PASSWORD_FILE} say the same; expected is one of them")
        password = read_secret(given[_PASSWORD_FILE], _PASSWORD_FILE)
    for value, name in ((username, "sasl.username"), (password, f"sasl.password (or {_PASSWORD_FILE})")):
        if not value:
            raise UnusableSettings(f"{name} is not set, and {mechanism} needs it")
        if "\0" in value or not _is_text(value):
            raise UnusableSettings(f"{name} has characters that cannot be sent")
    return PasswordCredentials(mechanism, username, password)


def _password_of_jaas(text: str, mechanism: str) -> tuple[str, str]:
    module = parse_jaas(text)
    expected = "scram" if mechanism in HASH_NAMES else "plain"
    if module.kind != expected:
        raise UnusableSettings(f"{JAAS} names the login module of {module.kind}, but {MECHANISM} is {mechanism}")
    options = dict(module.options)
    if options.pop("tokenauth", "false").lower() != "false":
        raise UnusableSettings(f"{JAAS}: tokenauth is for delegation tokens, which there are none of here")
    username, password = options.pop("username", ""), options.pop("password", "")
    if options:
        raise UnusableSettings(f"{JAAS} has the option {min(options)!r}; expected are username and password")
    return username, password


def _token(given: Mapping[str, str]) -> TokenCredentials:
    for name in ("sasl.username", "sasl.password", _PASSWORD_FILE):
        if name in given:
            raise UnusableSettings(f"{name} is set, but {MECHANISM} is {OAUTHBEARER}, which takes a token")
    extensions = _pairs(given.get(_EXTENSIONS, ""))
    if JAAS in given:
        extensions |= _extensions_of_jaas(given[JAAS])
    sources = [name for name in (_TOKEN, _TOKEN_FILE, _TOKEN_ADDRESS) if given.get(name)]
    if len(sources) != 1:
        found = " and ".join(sources) if sources else "nothing"
        raise UnusableSettings(f"{OAUTHBEARER} takes its token from {found}; expected {_TOKEN_FILE} or {_TOKEN}")
    path = given.get(_TOKEN_FILE, "")
    if sources == [_TOKEN_ADDRESS]:
        path = _path_of(given[_TOKEN_ADDRESS])
    if path:
        read_secret(path, sources[0])  # a wrong path is told now rather than at the first login
    return TokenCredentials(given.get(_TOKEN, ""), path, tuple(extensions.items()))


def _path_of(address: str) -> str:
    if not address.startswith("file:"):
        raise UnusableSettings(
            f"{_TOKEN_ADDRESS} is not the address of a file: tokens are not fetched here. Let something else fetch "
            f"them into a file, and name it with {_TOKEN_FILE}: it is read for each login"
        )
    return address.removeprefix("file:").removeprefix("//")


def _extensions_of_jaas(text: str) -> dict[str, str]:
    module = parse_jaas(text)
    if module.kind != "oauthbearer":
        raise UnusableSettings(f"{JAAS} names the login module of {module.kind}, but {MECHANISM} is {OAUTHBEARER}")
    prefix = "extension_"
    for name in module.options:
        if not name.startswith(prefix):
            raise UnusableSettings(f"{JAAS}: the option {name!r} is not supported; name a token with {_TOKEN_FILE}")
    return {name.removeprefix(prefix): value for name, value in module.options.items()}


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign or not name.isalpha():
            raise UnusableSettings(f"{_EXTENSIONS}: expected name=value, or several with commas between")
        pairs[name.strip()] = value.strip()
    return pairs


def _is_text(value: str) -> bool:
    """The environment may hold bytes that are no text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
