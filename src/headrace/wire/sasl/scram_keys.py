"""SCRAM's arithmetic (RFC 5802, section 3). `hash_name` is hashlib's: sha256 or sha512."""

from __future__ import annotations

import hashlib
import hmac


def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Slow on purpose, a few milliseconds: call it in a thread."""
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def client_key(hash_name: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", hash_name)


def stored_key(hash_name: str, key_of_client: bytes) -> bytes:
    """What a server keeps of the client's key: enough to check a proof."""
    return hashlib.new(hash_name, key_of_client).digest()


def server_key(hash_name: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", hash_name)


def client_proof(hash_name: str, key_of_client: bytes, signed: bytes) -> bytes:
    """The client's key under its signature of what was said."""
    return _xor(key_of_client, hmac.digest(stored_key(hash_name, key_of_client), signed, hash_name))


def proven_client_key(hash_name: str, key_stored: bytes, signed: bytes, proof: bytes) -> bytes:
    """The client's key, if the proof is right. `stored_key` of it tells: compare in constant time.

    A proof of another length is nobody's: the result is empty then.
    """
    signature = hmac.digest(key_stored, signed, hash_name)
    return _xor(proof, signature) if len(proof) == len(signature) else b""


def server_signature(hash_name: str, key_of_server: bytes, signed: bytes) -> bytes:
    return hmac.digest(key_of_server, signed, hash_name)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))
