"""JSON Web Tokens: whose they are, if a key that this node trusts has signed them.

The key says by which algorithms it may have signed. What the token says of that is only compared: a token cannot choose
to be checked with a public key as if it were a shared secret, or not at all.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from headrace.access.authentication.credentials import user_name_problem
from headrace.access.authentication.exchange import Accepted, Denied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.access.authentication.token_rules import TokenRules

RSA_BITS_MIN: Final = 2048
KEYS_MAX: Final = 100
UNKNOWN_KEY: Final = "its token names no key that is trusted"
OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
OF_CURVE: Final = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
TYPES: Final = frozenset({"RSA", "EC"})

_UNCHECKED = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
"""By the library, which would ask the clock: `BearerTokens` does."""


class NoKeys(ValueError):
    """The text says why there is no key to trust, and what was expected."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    key: RSAPublicKey | EllipticCurvePublicKey
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """By their ids. A key from a PEM file has none: then it is the only one."""

    by_id: Mapping[str, TokenKey]
    only: TokenKey | None = None

    def named_by(self, header: Mapping[str, Any]) -> TokenKey | None:
        if self.only is not None:
            return self.only
        kid = header.get("kid")
        return self.by_id.get(kid) if isinstance(kid, str) else None


def keys_of(text: str) -> TokenKeys:
    """A JSON Web Key Set, or one public key or certificate as PEM. Raises NoKeys."""
    if text.lstrip().startswith("-----BEGIN"):
        return TokenKeys({}, _pem_key(text.encode()))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise NoKeys("neither JSON nor PEM; expected a JSON Web Key Set, or one public key as PEM") from None
    entries = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise NoKeys(f'no JSON Web Key Set; expected an object with "keys", {KEYS_MAX} at most')
    found: dict[str, TokenKey] = {}
    for entry in entries:
        if _is_for_signatures(entry):
            found.setdefault(entry["kid"], _web_key(entry))
    if not found:
        raise NoKeys("no key in it that has an id, is of RSA or EC, and is for signatures")
    return TokenKeys(found)


def _is_for_signatures(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("kid"), str)
        and entry.get("kty") in TYPES
        and entry.get("use", "sig") == "sig"
    )


def _web_key(entry: dict[str, Any]) -> TokenKey:
    public = {name: value for name, value in entry.items() if name not in {"d", "p", "q", "dp", "dq", "qi", "oth"}}
    try:
        allowed = _trusted(jwt.PyJWK(public).key)
    except jwt.PyJWTError:
        raise NoKeys(f"the key {entry['kid'][:100]!r} cannot be read") from None
    said = entry.get("alg")
    if said is None:
        return allowed
    if said not in allowed.algorithms:
        raise NoKeys(f"the key {entry['kid'][:100]!r} is for {str(said)[:20]!r}, which it cannot be")
    return TokenKey(allowed.key, (said,))


def _pem_key(pem: bytes) -> TokenKey:
    try:
        if b"CERTIFICATE" in pem:
            return _trusted(load_pem_x509_certificate(pem).public_key())
        return _trusted(load_pem_public_key(pem))
    except NoKeys:
        raise
    except (ValueError, UnsupportedAlgorithm):
        raise NoKeys("PEM that holds no public key and no certificate") from None


def _trusted(key: object) -> TokenKey:
    if isinstance(key, RSAPublicKey):
        if key.key_size < RSA_BITS_MIN:
            raise NoKeys(f"an RSA key of {key.key_size} bits; expected {RSA_BITS_MIN} at least")
        return TokenKey(key, OF_RSA)
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in OF_CURVE:
        return TokenKey(key, OF_CURVE[key.curve.name])
    raise NoKeys("a key of another kind; expected RSA, or EC on P-256, P-384 or P-521")


def checked(token: str, keys: TokenKeys, rules: TokenRules, now_s: float) -> Accepted | Denied:
    """Whose token it is. Tens of microseconds for RSA, more for long ones: call it in a thread."""
    try:
        header = jwt.get_unverified_header(token)
        key = keys.named_by(header)
        if key is None:
            return Denied(UNKNOWN_KEY)
        if header.get("alg") not in key.algorithms:
            return Denied("its token is signed in a way that is not this key's")
        if "crit" in header:
            return Denied("its token asks for something that must be understood, and is not")
        claims = jwt.decode(token, key.key, algorithms=list(key.algorithms), options=_UNCHECKED)  # type: ignore[arg-type]
    except jwt.PyJWTError as error:
        return Denied(f"its token is not valid: {type(error).__name__}")
    except (ValueError, RecursionError, TypeError):
        return Denied("its token is no JSON Web Token")
    return _of_claims(claims, rules, now_s)


def _of_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> Accepted | Denied:
    name = claims.get(rules.subject_claim)
    if not isinstance(name, str) or user_name_problem(name) is not None:
        return Denied(f"its token has no name under {rules.subject_claim!r}")
    ends_s, begins_s, made_s = _time(claims.get("exp")), _time(claims.get("nbf", 0)), _time(claims.get("iat", 0))
    if ends_s is None or begins_s is None or made_s is None:
        return Denied("its token does not say until when it is valid, or says it in another way than as a number", name)
    if now_s >= ends_s + rules.leeway_s:
        return Denied("its token has expired", name)
    if now_s < begins_s - rules.leeway_s or now_s < made_s - rules.leeway_s:
        return Denied("its token is not valid yet", name)
    if rules.issuer and claims.get("iss") != rules.issuer:
        return Denied("its token is from another issuer", name)
    if rules.audiences and not set(rules.audiences) & _texts(claims.get("aud")):
        return Denied("its token is for another audience", name)
    if rules.scope_claim in claims and not _is_scope(claims[rules.scope_claim]):
        return Denied(f"its token has something under {rules.scope_claim!r} that is no list of scopes", name)
    return Accepted(name, ends_at_s=ends_s + rules.leeway_s)


def _time(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1 << 53 and math.isfinite(value) else None


def _texts(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    return {text for text in value if isinstance(text, str)} if isinstance(value, list) else set()


def _is_scope(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(scope, str) for scope in value))
