"""Rules that come and go: every node obeys what a look at all of them says, also one that was away meanwhile."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from headrace.access.identity import EVERYBODY, Identity, Principal
from headrace.access.operations import Operation, PatternType, Permission, ResourceType
from headrace.access.rules.acl import Acl
from headrace.access.rules.filters import AclFilter
from headrace.client.admin.acls import AclAdmin
from headrace.simulation.environment.universe import Universe, run
from tests.properties.test_access_rules_against_a_filter import model
from tests.simulation.ready_clusters import ready_cluster

if TYPE_CHECKING:
    from headrace.client.connections.cluster import Cluster
    from headrace.simulation.cluster import NodeProcess, SimulatedCluster

CONFIGS = {"authorizer.class.name": "headrace", "super.users": "User:ANONYMOUS", "headrace.audit.enable": "false"}
PEOPLE = (Principal("User", "alice"), Principal("User", "bob"), EVERYBODY)
HOSTS = ("10.0.0.1", "10.0.0.2")
KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DELETE, Operation.ALL)
NAMES = ("a", "aa", "ab", "abc", "b")
ROUNDS = 25


def a_rule(random: Random) -> Acl:
    return Acl(
        random.choice(KINDS),
        random.choice((*NAMES, "*")),
        random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        random.choice(PEOPLE),
        random.choice((*HOSTS, "*")),
        random.choice(OPERATIONS),
        random.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def difference(process: NodeProcess, rules: set[Acl], random: Random) -> str:
    """Between what a node says and what the rules say; some of each are asked for twice, and remembered."""
    assert process.node is not None
    authorizer = process.node.authorizer
    for _ in range(60):
        identity = Identity(random.choice(PEOPLE[:2]), random.choice(HOSTS))
        question = identity, random.choice(OPERATIONS), random.choice(KINDS), random.choice(NAMES)
        said, expected = authorizer.allows(*question), model(sorted(rules), *question, False)
        if said != expected:
            return f"{question}: {said}, and the rules say {expected}"
    return ""


async def change(admin: AclAdmin, rules: set[Acl], random: Random) -> None:
    if rules and random.random() < 0.4:
        gone = random.sample(sorted(rules), min(len(rules), random.randint(1, 3)))
        await admin.remove([AclFilter(*acl) for acl in gone])
        rules.difference_update(gone)
    else:
        new = [a_rule(random) for _ in range(random.randint(1, 4))]
        await admin.add(new)
        rules.update(new)


def has_all(process: NodeProcess, rules: set[Acl]) -> bool:
    return process.node is not None and set(process.node.image.access.acls) == rules


async def all_obey(cluster: SimulatedCluster, rules: set[Acl], random: Random) -> None:
    for process in cluster.nodes:
        if process.is_serving:
            while not has_all(process, rules):
                await asyncio.sleep(0.001)
            assert not difference(process, rules, random)


@pytest.mark.parametrize("seed", range(3))
def test_all_nodes_obey_the_same_rules(seed: int) -> None:
    random = Random(seed)
    rules: set[Acl] = set()

    async def some_changes(client: Cluster, cluster: SimulatedCluster) -> None:
        admin = AclAdmin(client)
        for _ in range(ROUNDS):
            await change(admin, rules, random)
            await all_obey(cluster, rules, random)

    async def in_universe(universe: Universe) -> None:
        cluster = await ready_cluster(universe, configs=CONFIGS)
        await cluster.run_on("client", some_changes(cluster.client("client"), cluster))
        away = cluster.nodes[random.randrange(3)]
        away.host.crash()
        await cluster.run_on("client", some_changes(cluster.client("client"), cluster))
        away.launch()
        await cluster.wait_ready()
        assert rules
        await all_obey(cluster, rules, random)

    run(in_universe, seed=seed, limit_s=600.0)
