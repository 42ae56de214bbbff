"""The messages of SASL, and SCRAM's arithmetic: the examples of RFC 5802 and RFC 7677, what none may look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.primitives import Malformed
from headrace.wire.sasl import scram_keys
from headrace.wire.sasl.oauthbearer import TOKEN_MESSAGE_SIZE_MAX, BearerLogin, BearerRefusal
from headrace.wire.sasl.plain import PlainLogin
from headrace.wire.sasl.scram import ClientFinal, ClientFirst, ServerFinal, ServerFirst, signed_text
from headrace.wire.sasl.text import MESSAGE_SIZE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

RFC_5802 = (
    "sha1",
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    "sha256",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize("example", [RFC_5802, RFC_7677], ids=["RFC 5802", "RFC 7677"])
def test_the_examples_of_the_rfcs(example: tuple[str, bytes, bytes, bytes, bytes]) -> None:
    hash_name, *sent = example
    first, answer = ClientFirst.decode(sent[0]), ServerFirst.decode(sent[1])
    final, verdict = ClientFinal.decode(sent[2]), ServerFinal.decode(sent[3])
    assert [message.encode() for message in (first, answer, final, verdict)] == sent

    signed = signed_text(first, answer, final)
    salted = scram_keys.salted_password(hash_name, "pencil", answer.salt, answer.iterations)
    key = scram_keys.client_key(hash_name, salted)
    stored = scram_keys.stored_key(hash_name, key)
    assert scram_keys.client_proof(hash_name, key, signed) == final.proof
    assert scram_keys.proven_client_key(hash_name, stored, signed, final.proof) == key
    assert scram_keys.server_signature(hash_name, scram_keys.server_key(hash_name, salted), signed) == verdict.signature


def test_a_proof_of_another_length_proves_nothing() -> None:
    assert scram_keys.proven_client_key("sha256", bytes(32), b"said", b"") == b""
    assert scram_keys.proven_client_key("sha256", bytes(32), b"said", bytes(31)) == b""


NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)) | st.sampled_from("=,"), min_size=1, max_size=50
)
NONCES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), min_size=1, max_size=60)
BYTES = st.binary(min_size=1, max_size=64)
EXTENSIONS = st.lists(
    st.tuples(
        st.text(st.sampled_from("abtuwxyz"), min_size=2, max_size=8), st.text(st.sampled_from("ab=1"), min_size=1)
    ),
    max_size=3,
).map(tuple)


@given(st.builds(ClientFirst, NAMES, NONCES, NAMES | st.just(""), st.sampled_from("ny"), EXTENSIONS))
def test_a_first_message_comes_back_whatever_the_name(message: ClientFirst) -> None:
    assert ClientFirst.decode(message.encode()) == message


@given(st.builds(ServerFirst, NONCES, BYTES, st.integers(1, 999_999_999), EXTENSIONS))
def test_an_answer_comes_back(message: ServerFirst) -> None:
    assert ServerFirst.decode(message.encode()) == message


@given(st.builds(ClientFinal, BYTES, NONCES, BYTES, EXTENSIONS))
def test_a_last_message_comes_back(message: ClientFinal) -> None:
    assert ClientFinal.decode(message.encode()) == message


@given(st.builds(PlainLogin, NAMES, NAMES, NAMES | st.just("")))
def test_a_plain_login_comes_back(message: PlainLogin) -> None:
    assert PlainLogin.decode(message.encode()) == message


TOKENS = st.from_regex(r"[A-Za-z0-9\-._~+/]{1,40}={0,2}", fullmatch=True).filter(str.isascii)
BEARER_EXTENSIONS = st.dictionaries(
    st.text(st.sampled_from("abc"), min_size=1, max_size=5), st.text(st.sampled_from("xy =,"), min_size=1), max_size=3
).map(lambda found: tuple(found.items()))


@given(st.builds(BearerLogin, TOKENS, NAMES | st.just(""), BEARER_EXTENSIONS))
def test_a_bearer_login_comes_back(message: BearerLogin) -> None:
    assert BearerLogin.decode(message.encode()) == message


DECODERS: list[Any] = [ClientFirst, ServerFirst, ClientFinal, ServerFinal, PlainLogin, BearerLogin]
EXAMPLES = [
    *RFC_5802[1:],
    *RFC_7677[1:],
    b"\0user\0pencil",
    b"n,a=user,\x01host=server.example.com\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01",
]


@given(st.sampled_from(DECODERS), st.sampled_from(EXAMPLES), st.integers(0, 120), st.binary(max_size=4), st.data())
def test_whatever_comes_is_refused_or_means_exactly_what_was_sent(
    decoder: Any, example: bytes, place: int, put: bytes, data: st.DataObject
) -> None:
    damaged = example[:place] + put + example[place + data.draw(st.integers(0, 4)) :]
    try:
        message = decoder.decode(damaged)
    except Malformed:
        return
    if decoder in {ClientFirst, ServerFirst, ClientFinal, PlainLogin}:
        assert message.encode() == damaged, "what is signed must be what was sent"
    else:
        assert decoder.decode(message.encode()) == message


@pytest.mark.parametrize("decoder", DECODERS)
def test_what_is_too_long_is_not_looked_at(decoder: Any) -> None:
    limit = TOKEN_MESSAGE_SIZE_MAX if decoder is BearerLogin else MESSAGE_SIZE_MAX
    with pytest.raises(Malformed, match=f"expected {limit} at most"):
        decoder.decode(b"n" * (limit + 1))


@pytest.mark.parametrize(
    ("decode", "data", "words"),
    [
        (ClientFirst.decode, b"p=tls-unique,,n=user,r=abc", "asks for channel binding"),
        (ClientFirst.decode, b"n=user,r=abc", "does not begin with 'n,,'"),
        (ClientFirst.decode, b"n,user,n=user,r=abc", "does not begin with 'n,,'"),
        (ClientFirst.decode, b"n,,m=x,n=user,r=abc", "must be understood"),
        (ClientFirst.decode, b"n,,n=us=2cer,r=abc", "not escaped"),
        (ClientFirst.decode, b"n,,n=us=er,r=abc", "not escaped"),
        (ClientFirst.decode, b"n,,n=,r=abc", "empty"),
        (ClientFirst.decode, b"n,,n=us\0er,r=abc", "not escaped"),
        (ClientFirst.decode, b"n,,n=user,r=", "nonce that is empty"),
        (ClientFirst.decode, b"n,,n=user,r=a\xc3\xa9", "not printable"),
        (ClientFirst.decode, b"n,,r=abc,n=user", "attributes n=…,r=…"),
        (ClientFirst.decode, b"n,,n=user", "attributes n=…,r=…"),
        (ClientFirst.decode, b"n,,n=user,r=abc,tokenauth", "no attribute"),
        (ClientFirst.decode, b"n,,n=\xff,r=abc", "not UTF-8"),
        (ServerFirst.decode, b"r=abc,s=QSXCR+Q6sek8bf92,i=0", "iterations"),
        (ServerFirst.decode, b"r=abc,s=QSXCR+Q6sek8bf92,i=04096", "iterations"),
        (ServerFirst.decode, b"r=abc,s=QSXCR+Q6sek8bf92,i=-1", "iterations"),
        (ServerFirst.decode, b"r=abc,s=QSXCR+Q6sek8bf92,i=99999999999999999999", "iterations"),
        (ServerFirst.decode, b"r=abc,s=,i=4096", "not base64"),
        (ServerFirst.decode, b"r=abc,s=QSXCR+Q6sek8bf9,i=4096", "not base64"),
        (ServerFirst.decode, b"e=other-error\x1b[31m", r"is an error: other-error\?\[31m"),
        (ClientFinal.decode, b"c=biws,r=abc", "no proof"),
        (ClientFinal.decode, b"c=biws,r=abc,p=", "not base64"),
        (ClientFinal.decode, b"c=biws,r=abc,p=YR==", "not base64"),  # the last bits say nothing: also YQ==
        (PlainLogin.decode, b"user\0pencil", "2 parts"),
        (PlainLogin.decode, b"\0user\0pen\0cil", "4 parts"),
        (PlainLogin.decode, b"\0user\0", "no password"),
        (PlainLogin.decode, b"\0\0pencil", "no name"),
        (BearerLogin.decode, b"n,,\x01\x01", "keys and values"),
        (BearerLogin.decode, b"n,,\x01host=a\x01\x01", "no auth"),
        (BearerLogin.decode, b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", "same key twice"),
        (BearerLogin.decode, b"n,,\x01auth=Basic a\x01\x01", "no bearer token"),
        (BearerLogin.decode, b"n,,\x01auth=Bearer \x01\x01", "no bearer token"),
        (BearerLogin.decode, b"n,,\x01auth=Bearer a\x01no key\x01\x01", "no key and value"),
        (BearerRefusal.decode, b"[" * 8000, "not JSON"),
        (BearerRefusal.decode, b"{}", "no status"),
    ],
)
def test_what_is_refused_and_why(decode: Callable[[bytes], object], data: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        decode(data)


def test_a_name_with_signs_of_the_grammar() -> None:
    message = ClientFirst("a=b,c", "abc", authorization_id="d,e")
    assert message.encode() == b"n,a=d=2Ce,n=a=3Db=2Cc,r=abc"
    assert ClientFirst.decode(b"n,,n=id,r=abc,tokenauth=true").is_token
    assert not message.is_token


def test_a_refused_token_says_why() -> None:
    refusal = BearerRefusal("invalid_token", "kafka", "https://login.example.com/.well-known")
    assert BearerRefusal.decode(refusal.encode()) == refusal
    assert BearerRefusal("invalid_token").encode() == b'{"status": "invalid_token"}'


def test_an_error_instead_of_a_signature() -> None:
    assert ServerFinal.decode(b"e=invalid-proof") == ServerFinal(error="invalid-proof")
    assert ServerFinal(error="unknown-user").encode() == b"e=unknown-user"


@pytest.mark.parametrize(
    "message",
    [
        PlainLogin("alice", "hunter2"),
        BearerLogin("hunter2"),
        ClientFinal(b"n,,", "abc", b"hunter2"),
        ServerFirst("abc", b"hunter2", 4096),
        ServerFinal(b"hunter2"),
    ],
)
def test_no_secret_is_shown_by_accident(message: object) -> None:
    assert "hunter2" not in repr(message)
