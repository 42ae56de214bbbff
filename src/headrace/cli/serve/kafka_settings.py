"""Kafka's settings of a broker that are none of ours: why each does nothing here, or why a node must not start with it.

A pattern stands for all names that it fits as a whole; the first that fits counts.
"""

from __future__ import annotations

import re
from typing import Final

_NO_PLUGIN: Final = "a class of Java cannot run here, and without it the node would allow what it forbids: take it out"

CANNOT_BE_KEPT: Final = (
    (r"zookeeper\..*", "there is no ZooKeeper here: set process.roles=broker,controller, and node.id in place of it"),
    (r"delegation\.token\..*", "there are no delegation tokens: take it out"),
    (r"(listener\.name\..*)?(sasl\..*(callback\.handler|login)\.class|ssl\.engine\.factory\.class)", _NO_PLUGIN),
    (r"principal\.builder\.class|security\.providers", _NO_PLUGIN),
    (r"(listener\.name\..*)?ssl\.allow\..*", "a certificate that has changed is taken as it is: take it out"),
    (r"listener\.name\..*", "no setting of a listener has this name; docs/settings.md lists them"),
    (r"(create\.topic|alter\.config)\.policy\.class\.name|client\.quota\.callback\.class", _NO_PLUGIN),
    (
        r"config\.providers(\..*)?",
        "take it out: settings of listeners may say ${env:NAME} and ${file:/path} without it",
    ),
    (
        r"remote\.log\.storage\.system\.enable",
        "there is no remote storage: take it out, and plan disks for all that is kept",
    ),
    (r"metadata\.log\.dir", "everything is kept in one directory here: take it out, or make it the same as log.dirs"),
    (r"cordoned\.log\.dirs", "a node has one directory here, which cannot be closed to new partitions: take it out"),
)

_ALREADY_SO: Final = {
    ("remote.log.storage.system.enable", "false"),
}

_ONE_LOOP: Final = "one event loop serves all connections, with a few threads beside it"
_OF_ITS_OWN: Final = "the node finds the right amount by itself"
_INTERNAL: Final = "internal topics have three copies as soon as there are three nodes, and settings of their own"
_NO_SHARE: Final = "there are no share groups"
_NO_STREAMS: Final = "there are no groups of the streams protocol; Kafka Streams works with its classic one"
_NO_TIERS: Final = "there is no remote storage"
_METRICS: Final = "metrics are read from /metrics, see --http"
_RAFT: Final = "follows from controller.quorum.election.timeout.ms"
_FOLLOWERS: Final = "a follower has one Fetch waiting at each leader, of a size that suits it"
_MEMBERS: Final = "members get what group.consumer.heartbeat.interval.ms and group.consumer.session.timeout.ms say"
_PARKED: Final = "whatever waits is dropped at once when it is answered"

WITHOUT_MEANING: Final = (
    (r"num\.(network|io)\.threads|queued\.max\.requests|background\.threads", _ONE_LOOP),
    (r"num\.recovery\.threads\.per\.data\.dir|num\.replica\.alter\.log\.dirs\.threads", _OF_ITS_OWN),
    (r"socket\.(send|receive)\.buffer\.bytes|socket\.listen\.backlog\.size", "the operating system sizes its sockets"),
    (r"(socket\.connection\.setup|controller\.socket|request)\.timeout\..*", _OF_ITS_OWN),
    (r"(offsets\.topic|transaction\.state\.log)\..*", _INTERNAL),
    (r"offsets\.(commit\.timeout\.ms|load\.buffer\.size)", _INTERNAL),
    (r"(group\.share|share\.coordinator|share\.fetch)\..*", _NO_SHARE),
    (r"group\.streams\..*", _NO_STREAMS),
    (r"group\.consumer\..*", _MEMBERS),
    (r"group\.coordinator\..*", _OF_ITS_OWN),
    (r"remote\..*|log\.local\.retention\..*|follower\.fetch\.last\.tiered\.offset\.enable", _NO_TIERS),
    (r"(kafka\.)?metrics?\..*|telemetry\.max\.bytes", _METRICS),
    (r"controller\.quorum\..*", _RAFT),
    (r"controller\.performance\..*", _METRICS),
    (r"replica\..*|num\.replica\.fetchers", _FOLLOWERS),
    (r"(metadata|internal\.metadata)\..*", "the metadata log is kept short by snapshots when they are worth it"),
    (r".*\.purgatory\.purge\.interval\.requests", _PARKED),
    (r".*quota\.window\..*", "the rates of replicas are measured over half a second"),
    (r"transaction\..*|add\.partitions\..*", "every transaction is verified, and what has expired is looked for often"),
    (r"log\.(flush\.(scheduler|(start\.)?offset)\..*|initial\.task\.delay\.ms)", _OF_ITS_OWN),
    (r"log\.dir\.failure\.timeout\.ms", "a node with one directory stops when that fails"),
    (r"(inter\.broker\.protocol|log\.message\.format)\.version", "there is one version of both"),
    (r"inter\.broker\.listener\.name", "nodes meet at the listener that controller.listener.names names"),
    (r"early\.start\.listeners|server\.max\.startup\.time\.ms", "the listener for nodes opens first, by itself"),
    (r"initial\.broker\.registration\.timeout\.ms", "a node waits for the others as long as it takes"),
    (r"controlled\.shutdown\..*", "a node that stops always lets others lead first"),
    (r"unclean\.leader\.election\.interval\.ms", "such an election is held as soon as it is allowed"),
    (r"unstable\..*", "there are no unstable versions"),
    (r"security\.inter\.broker\.protocol", "nodes speak as listener.security.protocol.map says of their listener"),
    (r"sasl\.mechanism\.(inter\.broker|controller)\.protocol", "nodes log in by SCRAM-SHA-512, if they have a secret"),
    (r"sasl\.(kerberos|login|server|oauthbearer)\..*", "nothing here needs it"),
    (r"ssl\..*|security\..*", "OpenSSL chooses"),
    (r"allow\.everyone\.if\.no\.acl\.found", "there are no access rules, so everyone may"),
    (r"producer\.id\.expiration\.check\.interval\.ms|max\.request\.partition\.size\.limit", _OF_ITS_OWN),
)  # fmt: skip


def reason_against(name: str, text: str) -> str | None:
    """Why a node must not start with it. An empty text asks for nothing."""
    return _first_fit(CANNOT_BE_KEPT, name) if text and (name, text) not in _ALREADY_SO else None


def reason_without(name: str) -> str | None:
    """Why it means nothing here."""
    return _first_fit(WITHOUT_MEANING, name)


def _first_fit(table: tuple[tuple[str, str], ...], name: str) -> str | None:
    return next((why for pattern, why in table if re.fullmatch(pattern, name)), None)
