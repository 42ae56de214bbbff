"""What a listener asks of whoever connects to it, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def has_sasl(self) -> bool:
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ClientAuth(Enum):
    """Whether a client shows a certificate (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    name: str
    protocol: SecurityProtocol
    mechanisms: tuple[str, ...] = ()
    """Of SASL, by their registered names; none where the protocol has no SASL."""
    client_auth: ClientAuth = ClientAuth.NONE

    @property
    def knows_its_clients(self) -> bool:
        """Whether nobody is served who has not said, and shown, who they are."""
        return self.protocol.has_sasl or (self.protocol.has_tls and self.client_auth is ClientAuth.REQUIRED)


OPEN_LISTENER: Final = ListenerSecurity("PLAINTEXT", SecurityProtocol.PLAINTEXT)
