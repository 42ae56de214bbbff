"""Whose a JSON Web Token is, and which ones are nobody's."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from headrace.access.authentication.bearer_exchange import BearerExchange
from headrace.access.authentication.bearer_tokens import NoKeys, checked, keys_of
from headrace.access.authentication.exchange import Accepted, Challenge, Denied, Work
from headrace.access.authentication.token_rules import TokenRules
from headrace.wire.sasl.oauthbearer import REFUSAL_SEEN, BearerLogin, BearerRefusal

NOW_S = 1_900_000_000.0
RSA_KEY, OTHER_RSA_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CLAIMS: dict[str, Any] = {"sub": "alice", "exp": NOW_S + 60, "aud": "headrace", "iss": "https://id.example"}
RULES = TokenRules(("headrace", "streams"), "https://id.example", leeway_s=5.0)


def web_key(key: Any, kid: str | None, **more: str) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    named = {} if kid is None else {"kid": kid}
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), **named, **more}


SET = json.dumps({"keys": [web_key(RSA_KEY, "rsa"), web_key(EC_KEY, "ec"), web_key(OTHER_RSA_KEY, "old", use="enc")]})
KEYS = keys_of(SET)


def pem_of(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def token(key: Any = RSA_KEY, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    shown = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not ...}
    return jwt.encode(shown, key, algorithm, {"kid": "rsa"} if headers is None else headers)


def forged(header: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(part).encode() for part in (header, CLAIMS)]
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (*parts, signature)).decode()


def outcome(shown: str, rules: TokenRules = RULES, now_s: float = NOW_S) -> Accepted | Denied:
    return checked(shown, KEYS, rules, now_s)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_token_that_a_trusted_key_has_signed_names_its_owner(algorithm: str) -> None:
    assert outcome(token(algorithm=algorithm)) == Accepted("alice", ends_at_s=NOW_S + 65)


def test_keys_on_curves_sign_too() -> None:
    assert isinstance(outcome(token(EC_KEY, "ES256", {"kid": "ec"})), Accepted)


def test_a_single_key_as_pem_needs_no_id() -> None:
    keys = keys_of(pem_of(RSA_KEY).decode())
    assert isinstance(checked(token(headers={}), keys, RULES, NOW_S), Accepted)
    assert isinstance(checked(token(OTHER_RSA_KEY), keys, RULES, NOW_S), Denied)


def test_a_token_without_a_signature_is_nobodys() -> None:
    for algorithm in ("none", "None", "NONE", ""):
        assert isinstance(outcome(forged({"alg": algorithm, "kid": "rsa"})), Denied)


def test_a_public_key_is_not_taken_for_a_shared_secret() -> None:
    """The confusion of algorithms: everybody knows the public key."""
    for secret in (pem_of(RSA_KEY), pem_of(RSA_KEY).strip()):
        header = {"alg": "HS256", "kid": "rsa"}
        signed = forged(header).rsplit(".", 1)[0].encode()
        assert isinstance(outcome(forged(header, hmac.digest(secret, signed, "sha256"))), Denied)


@pytest.mark.parametrize("headers", [{}, {"kid": "unknown"}, {"kid": "old"}, {"kid": "ec"}])
def test_a_token_has_to_name_a_key_that_is_for_signatures(headers: dict[str, Any]) -> None:
    assert isinstance(outcome(token(headers=headers)), Denied)


@pytest.mark.parametrize("kid", [1, None, ["rsa"], {"a": 1}])
def test_an_id_that_is_no_text_names_no_key(kid: Any) -> None:
    assert isinstance(outcome(forged({"alg": "RS256", "kid": kid})), Denied)


def test_another_key_under_the_same_id_does_not_sign() -> None:
    assert isinstance(outcome(token(OTHER_RSA_KEY)), Denied)


def test_a_key_in_the_token_itself_is_not_looked_at() -> None:
    headers = {"kid": "rsa", "jwk": web_key(OTHER_RSA_KEY, "rsa"), "jku": "https://evil.example"}
    assert isinstance(outcome(token(OTHER_RSA_KEY, headers=headers)), Denied)


def test_a_token_that_asks_for_what_must_be_understood_is_refused() -> None:
    assert isinstance(outcome(token(headers={"kid": "rsa", "crit": ["exp"]})), Denied)


def test_a_key_for_one_algorithm_is_for_no_other() -> None:
    keys = keys_of(json.dumps({"keys": [web_key(RSA_KEY, "rsa", alg="RS512")]}))
    assert isinstance(checked(token(algorithm="RS512"), keys, RULES, NOW_S), Accepted)
    assert isinstance(checked(token(algorithm="RS256"), keys, RULES, NOW_S), Denied)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 5},
        {"exp": ...},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 1e300},
        {"nbf": NOW_S + 6},
        {"iat": NOW_S + 6},
        {"aud": "another"},
        {"aud": ["another", "yet another"]},
        {"aud": ...},
        {"iss": "https://evil.example"},
        {"iss": ...},
        {"sub": ...},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\nb"},
        {"sub": "x" * 300},
        {"scope": 5},
    ],
)
def test_claims_are_checked(claims: dict[str, Any]) -> None:
    shown = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not ...}
    made = jwt.api_jws.encode(json.dumps(shown).encode(), RSA_KEY, "RS256", {"kid": "rsa"})
    assert isinstance(
        outcome(jwt.api_jws.encode(json.dumps(CLAIMS).encode(), RSA_KEY, "RS256", {"kid": "rsa"})), Accepted
    )
    assert isinstance(outcome(made), Denied)


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW_S - 4}, {"nbf": NOW_S + 4}, {"aud": ["another", "streams"]}, {"scope": "a b"}, {"scope": ["a"]}],
)
def test_clocks_may_differ_a_little_and_one_audience_is_enough(claims: dict[str, Any]) -> None:
    assert isinstance(outcome(token(**claims)), Accepted)


def test_the_name_may_be_another_claim() -> None:
    rules = TokenRules(subject_claim="client_id")
    assert outcome(token(client_id="service"), rules) == Accepted("service", ends_at_s=NOW_S + 90)
    assert isinstance(outcome(token(), rules), Denied)


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "e30.e30.e30", "." * 60_000, "[].[].x", "bnVsbA.bnVsbA.bnVsbA"])
def test_what_is_no_token_is_nobodys(text: str) -> None:
    assert isinstance(outcome(text), Denied)


# ---- keys


NO_KEYS_TO_TRUST = {
    "nothing": "",
    "no keys": "{}",
    "an empty list": '{"keys": []}',
    "no list": '{"keys": {}}',
    "nested too deep": "[" * 100_000,
    "a shared secret": '{"keys": [{"kty": "oct", "kid": "a", "k": "AAAA"}]}',
    "RSA without numbers": '{"keys": [{"kty": "RSA", "kid": "a"}]}',
    "no point of a curve": '{"keys": [{"kty": "EC", "kid": "a", "crv": "P-256", "x": "AA", "y": "AA"}]}',
    "no PEM": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
    "without an id": json.dumps({"keys": [web_key(RSA_KEY, None)]}),
    "another algorithm": json.dumps({"keys": [web_key(RSA_KEY, "a", alg="HS256")]}),
    "too short": json.dumps({"keys": [web_key(rsa.generate_private_key(public_exponent=65537, key_size=1024), "a")]}),
    "another curve": pem_of(ec.generate_private_key(ec.SECP256K1())).decode(),
}


@pytest.mark.parametrize("name", NO_KEYS_TO_TRUST)  # by name: processes that share the tests must agree on their ids
def test_what_holds_no_key_to_trust_is_refused(name: str) -> None:
    text = NO_KEYS_TO_TRUST[name]
    with pytest.raises(NoKeys):
        keys_of(text)


# ---- the exchange


def exchange() -> BearerExchange:
    return BearerExchange(outcome)


def looked_at(message: bytes, begun: BearerExchange | None = None) -> Accepted | Challenge | Denied:
    step = (begun or exchange()).step(message)
    assert isinstance(step, Work)
    return step.call()


def test_a_token_logs_in() -> None:
    assert looked_at(BearerLogin(token()).encode()) == Accepted("alice", ends_at_s=NOW_S + 65)
    assert looked_at(BearerLogin(token(), "alice").encode()) == Accepted("alice", ends_at_s=NOW_S + 65)


def test_nobody_logs_in_for_somebody_else_with_a_token() -> None:
    assert isinstance(looked_at(BearerLogin(token(), "bob").encode()), Challenge)


def test_a_refused_token_is_answered_in_json_and_ends_with_the_next_message() -> None:
    begun = exchange()
    challenge = looked_at(BearerLogin(token(OTHER_RSA_KEY)).encode(), begun)
    assert isinstance(challenge, Challenge)
    assert BearerRefusal.decode(challenge.message).status == "invalid_token"
    assert isinstance(begun.step(REFUSAL_SEEN), Denied)


def test_a_second_token_after_a_refused_one_is_not_looked_at() -> None:
    begun = exchange()
    looked_at(BearerLogin(token(OTHER_RSA_KEY)).encode(), begun)
    assert isinstance(begun.step(BearerLogin(token()).encode()), Denied)


@pytest.mark.parametrize("message", [b"", b"n,,", b"n,,\x01auth=Bearer\x01\x01", b"\xff", b"x" * 100_000])
def test_what_is_no_message_of_oauthbearer_is_denied(message: bytes) -> None:
    assert isinstance(looked_at(message), Denied)
