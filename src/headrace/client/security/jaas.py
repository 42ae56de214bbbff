"""`sasl.jaas.config`: where Java's clients keep a name and a password. What Kafka's own login modules take is read, and
nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.client.security.secret_values import UnusableSettings, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTING: Final = "sasl.jaas.config"
EXAMPLE: Final = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="${file:/path}";'
)
SIZE_MAX: Final = 1 << 20

_PACKAGE: Final = "org.apache.kafka.common.security."
MODULES: Final = {
    _PACKAGE + "plain.PlainLoginModule": "plain",
    _PACKAGE + "scram.ScramLoginModule": "scram",
    _PACKAGE + "oauthbearer.OAuthBearerLoginModule": "oauthbearer",
}
_FLAGS: Final = {"required", "requisite", "sufficient", "optional"}
_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/          # nothing
    |"(?P<double>(?:[^"\\\n]|\\.)*)"    # quoted
    |'(?P<single>(?:[^'\\\n]|\\.)*)'
    |(?P<sign>[=;])
    |(?P<word>[^\s"'=;]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r"}


class LoginModule(NamedTuple):
    """Which way to log in, and what with."""

    kind: str
    """`plain`, `scram` or `oauthbearer`."""
    options: Mapping[str, str]


def parse_jaas(text: str) -> LoginModule:
    """Raises UnusableSettings, which names what is wrong, and no value: one of them is the password."""
    if len(text) > SIZE_MAX:
        raise UnusableSettings(f"{SETTING} has more than {SIZE_MAX} characters")
    tokens = list(_tokens(text))
    if not tokens or tokens.pop() != (";", True):
        raise UnusableSettings(f"{SETTING} does not end with ';'; expected is, for example, {EXAMPLE}")
    if (";", True) in tokens:
        raise UnusableSettings(f"{SETTING} names more than one login module; expected is one")
    module = tokens[0][0] if tokens else ""
    if module not in MODULES:
        raise UnusableSettings(
            f"{SETTING} names a login module that is not known here; expected {', '.join(MODULES)}: no other code is "
            "loaded"
        )
    if len(tokens) < 2 or tokens[1][0].lower() not in _FLAGS:
        raise UnusableSettings(f"{SETTING} has no 'required' behind its login module; expected is, e.g., {EXAMPLE}")
    return LoginModule(MODULES[module], _options(tokens[2:]))


def _options(tokens: list[tuple[str, bool]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        triple = tokens[start : start + 3]
        signs = [is_sign for _, is_sign in triple]
        if signs != [False, True, False]:
            known = f" behind the option {list(options)[-1]!r}" if options else ""
            raise UnusableSettings(f'{SETTING}: expected name="value"{known}, with quotes around the value')
        name = triple[0][0]
        if name in options:
            raise UnusableSettings(f"{SETTING} has the option {name!r} twice")
        options[name] = resolved(triple[2][0], f"{SETTING}, option {name}")
    return options


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words and quoted text, and whether each is one of the signs = and ;."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UnusableSettings(f"{SETTING} has a quote that is not closed")
        at = found.end()
        if found.lastgroup is not None:
            content = found[found.lastgroup]
            is_quoted = found.lastgroup in {"double", "single"}
            yield (_ESCAPE.sub(_unescaped, content) if is_quoted else content), found.lastgroup == "sign"


def _unescaped(found: re.Match[str]) -> str:
    return _CONTROLS.get(found[1], found[1])
