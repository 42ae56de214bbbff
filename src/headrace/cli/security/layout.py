"""What `headrace security init` puts into a directory: which file is which, and what is written in those that people
read.

A node's settings name the files beside them without a path, so that a directory works wherever it is copied. A client's
name the authority with its whole path: other Kafka clients look for it from where they are started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"
NODE: Final = "node.pem"
"""The certificate and its key in one file: so both are replaced in one moment."""
SETTINGS: Final = "node.toml"
USERS: Final = "users.json"
CLIENT: Final = "admin.properties"
CLIENTS_AUTHORITY: Final = "clients-ca.pem"
CLIENTS_AUTHORITY_KEY: Final = "clients-ca.key"
"""Another authority: who has a certificate of the nodes' one is taken for a node."""
NODE_FILES: Final = (SETTINGS, NODE, AUTHORITY, USERS)
"""What a node needs."""

_SETTINGS_TEXT: Final = f"""\
# Settings of every node of a cluster, made by `headrace security init`. A node is started with them, beside the usual
# flags (--listen, --voters, --data-dir and so on):
#
#   headrace serve --config {SETTINGS}
#
# Files without a path are looked for beside this one. A node needs {NODE}, {AUTHORITY} and {USERS}, and nothing else.

# Clients log in with a name and a password, over TLS. --listen says where, instead of this address.
listeners = "SASL_SSL://127.0.0.1:9092"
sasl.enabled.mechanisms = "SCRAM-SHA-512,SCRAM-SHA-256"

# Nodes know each other by certificates of this authority, which issues them to nodes alone.
listener.security.protocol.map = "SASL_SSL:SASL_SSL,CONTROLLER:SSL"
listener.name.controller.ssl.truststore.location = "{AUTHORITY}"

# It is read again when it has changed: see `headrace security renew`.
ssl.keystore.location = "{NODE}"

# What is not allowed is forbidden: see `headrace acls`.
authorizer.class.name = "headrace"
super.users = "User:{{admin}}"

# Who can log in to a new cluster. It counts when the cluster is founded: later, see `headrace users`.
headrace.initial.users.file = "{USERS}"
"""

_CLIENT_TEXT: Final = """\
# Settings of a client who may do everything, made by `headrace security init`: for --command-config of `headrace`, and
# for every other Kafka client. bootstrap.servers is missing: where the cluster is.
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.username={admin}
sasl.password={password}
ssl.ca.location={authority}
"""


_CERTIFICATE_TEXT: Final = """\
# Settings of a client that is known by its certificate, made by `headrace security certificate`. bootstrap.servers is
# missing: where a listener is that asks for certificates.
security.protocol=SSL
ssl.ca.location={authority}
ssl.certificate.location={certificate}
ssl.key.location={certificate}
"""

_LISTENER_TEXT: Final = """\
listeners = "SASL_SSL://127.0.0.1:9092,SSL://127.0.0.1:9094"
listener.security.protocol.map = "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:SSL"
listener.name.ssl.ssl.client.auth = "required"
listener.name.ssl.ssl.keystore.location = "{node}"
listener.name.ssl.ssl.truststore.location = "{authority}"
listener.name.ssl.ssl.principal.mapping.rules = "RULE:^CN=([^,]+)$/$1/"
"""


def listener_text() -> str:
    """What nodes need to know clients by certificates, beside what they have."""
    return _LISTENER_TEXT.format(node=NODE, authority=CLIENTS_AUTHORITY)


def certificate_text(authority: Path, certificate: Path) -> str:
    return _CERTIFICATE_TEXT.format(authority=_escaped(str(authority)), certificate=_escaped(str(certificate)))


def settings_text(admin: str) -> str:
    return _SETTINGS_TEXT.format(admin=admin)


def client_text(admin: str, password: str, authority: Path) -> str:
    return _CLIENT_TEXT.format(admin=_escaped(admin), password=_escaped(password), authority=_escaped(str(authority)))


def _escaped(value: str) -> str:
    """As the value of a property, for readers that take the file for Latin-1, too."""
    text = value.replace("\\", "\\\\")
    return "".join(sign if " " <= sign <= "~" else _unicode(sign) for sign in text)


def _unicode(sign: str) -> str:
    units = sign.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
