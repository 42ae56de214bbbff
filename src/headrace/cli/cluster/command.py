"""`headrace cluster`: is it well, and is its work where it should be?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.terminal.numbers import node_number
from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format

if TYPE_CHECKING:
    from headrace.cli.cluster.reassignment import Pace
    from headrace.client.admin.cluster import RebalancePlan
    from headrace.client.connections.cluster import Cluster
    from headrace.client.connections.view import ClusterView
    from headrace.model.errors import Refusal
    from headrace.model.names import TopicPartition

command = noun("Show the state of the cluster; move leaders and replicas.")

UNHEALTHY = 3
TOO_FEW_NODES = "the copies of a partition need a node each, and there are too few others"
AT_ONCE = 10  # partitions: enough to keep the disks busy, few enough for clients not to notice

node_option = click.option("--node", "node_id", type=node_number, required=True, help="The node, by its id.")
wait_option = click.option("--wait", is_flag=True, help="Move a few partitions at a time, and end when all are there.")
at_once_option = click.option(
    "--at-once",
    type=click.IntRange(min=1),
    help=f"With --wait: how many partitions move at the same time. Default: {AT_ONCE}.",
)
throttle_option = click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="With --wait: copy at most so many bytes a second from each node, and to each.",
)


@command.command(context_settings=HELP)
@output_format
@cluster_options
def status(form: str) -> int:
    """Show nodes, controller, quorum and partitions. Exit code 3 if something is wrong."""
    from headrace.cli.cluster.health import cluster_health
    from headrace.cli.cluster.text import status_facts, status_text
    from headrace.cli.terminal.output import answer, answer_json
    from headrace.cli.terminal.session import with_cluster

    health = with_cluster(cluster_health)
    if form == "json":
        answer_json(status_facts(health))
    else:
        answer(status_text(health))
    return 0 if health.is_healthy else UNHEALTHY


@command.command(context_settings=HELP)
@output_format
@cluster_options
def nodes(form: str) -> None:
    """Show the nodes: which are there, and what each of them has."""
    from headrace.cli.cluster.health import LAST_KNOWN, cluster_health
    from headrace.cli.cluster.text import node_facts, nodes_text
    from headrace.cli.terminal.output import answer, answer_json, talk
    from headrace.cli.terminal.session import with_cluster

    health = with_cluster(cluster_health)
    if form == "json":
        answer_json(node_facts(health))
    else:
        answer(nodes_text(health))
    if health.quorum is None:
        talk(LAST_KNOWN)


@command.command("under-replicated", context_settings=HELP)
@output_format
@cluster_options
def under_replicated(form: str) -> int:
    """Show partitions that have fewer copies in sync than they should.

    Exit code 3 if there are any, or if nobody knows because there is no controller.
    """
    from headrace.cli.cluster.health import cluster_health
    from headrace.cli.cluster.text import under_replicated_facts, under_replicated_text
    from headrace.cli.terminal.output import answer, answer_json, talk
    from headrace.cli.terminal.session import with_cluster

    health = with_cluster(cluster_health)
    found = under_replicated_facts(health)
    if form == "json":
        answer_json(found)
    elif found:
        answer(under_replicated_text(health))
    if health.quorum is None:
        talk("there is no controller: this is what was known before, and nobody knows which copies are in sync now")
        return UNHEALTHY
    if not found and form != "json":
        talk("every partition has all its copies in sync")
    return UNHEALTHY if found else 0


@command.command(context_settings=HELP)
@node_option
@click.option("--undo", is_flag=True, help="Let the node take its part again.")
@wait_option
@at_once_option
@throttle_option
@cluster_options
def drain(node_id: int, undo: bool, wait: bool, at_once: int | None, throttle: int | None) -> None:
    """Empty a node: others lead what it leads, and its replicas move to them.

    Nothing new is placed on it until --undo, or until it is started anew.
    """
    from headrace.cli.terminal.output import plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.cluster import ClusterAdmin

    pace = _pace(wait, at_once, throttle)
    if undo and pace is not None:
        raise click.UsageError("--undo moves nothing, so there is nothing to wait for")

    async def work(cluster: Cluster) -> None:
        admin = ClusterAdmin(cluster)
        await admin.drain_node(node_id, is_draining=not undo)
        if undo:
            talk(f"node {node_id} takes part again: it gets new replicas at once, and leads partitions within minutes")
            talk(
                "without waiting: `headrace cluster elect-leaders` lets it lead, "
                "`headrace cluster rebalance` moves replicas to it"
            )
            return
        talk(f"node {node_id} leads {plural(await _led_by(cluster, node_id), 'partition')} now; nothing new goes there")
        plan = await admin.plan_rebalance(away_from=node_id)
        await _carry_out(cluster, plan, pace)
        if plan.stuck_replicas:
            stay = "stays" if plan.stuck_replicas == 1 else "stay"
            talk(f"{plural(plan.stuck_replicas, 'replica')} {stay} on node {node_id}: {TOO_FEW_NODES}")

    with_cluster(work)


@command.command(context_settings=HELP)
@node_option
@cluster_options
def remove(node_id: int) -> None:
    """Forget a node that has stopped for good. It must be empty: drain it first."""
    from headrace.cli.terminal.output import talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.cluster import ClusterAdmin

    async def work(cluster: Cluster) -> None:
        await ClusterAdmin(cluster).unregister_node(node_id)

    with_cluster(work)
    talk(f"node {node_id} is no longer part of the cluster")


@command.command(context_settings=HELP)
@click.option("--dry-run", is_flag=True, help="Only show what would move.")
@wait_option
@at_once_option
@throttle_option
@output_format
@cluster_options
def rebalance(dry_run: bool, wait: bool, at_once: int | None, throttle: int | None, form: str) -> None:
    """Move replicas so that every node has its share of each topic and in all, with few moves.

    Shows the plan: which replica goes from where to where. Nodes that drain or are away give up what they have.
    """
    from headrace.cli.cluster.reassignment import plan_facts, plan_text
    from headrace.cli.terminal.output import answer, answer_json, plural, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.cluster import ClusterAdmin

    pace = _pace(wait, at_once, throttle)

    async def work(cluster: Cluster) -> RebalancePlan:
        plan = await ClusterAdmin(cluster).plan_rebalance()
        if form == "json":
            answer_json(plan_facts(plan.moves))
        elif plan.moves:
            answer(plan_text(plan.moves))
        if not dry_run:
            await _carry_out(cluster, plan, pace)
        return plan

    plan = with_cluster(work)
    if plan.moves and dry_run:
        talk(f"{plural(len(plan.moves), 'partition')} would move; nothing was done")
    if plan.stuck_replicas:
        talk(f"{plural(plan.stuck_replicas, 'replica')} of nodes that drain or are away cannot move: {TOO_FEW_NODES}")
    elif not plan.moves:
        talk("every node has its share; nothing has to move")


@command.command("elect-leaders", context_settings=HELP)
@click.option("--topic", "topics", multiple=True, help="Only this topic; repeatable. Default: all topics.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Where no replica in sync is alive, let another one lead. Messages that it lacks are lost. Needs --topic.",
)
@click.option("--yes", is_flag=True, help="With --unclean: do not ask. Needed where there is no terminal.")
@output_format
@cluster_options
def elect_leaders(topics: tuple[str, ...], unclean: bool, yes: bool, form: str) -> int:
    """Make the preferred replica of each partition, the first in its list, lead it again."""
    import sys

    from headrace.cli.terminal.complaints import FAILED, Complaint
    from headrace.cli.terminal.output import answer, answer_json, talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.cluster import ClusterAdmin
    from headrace.model.errors import ErrorCode
    from headrace.model.names import TopicPartition

    if unclean and not topics:
        raise click.UsageError("--unclean can lose messages: name the topics with --topic")
    if unclean and not yes and not sys.stdin.isatty():
        raise click.UsageError("--unclean can lose messages, and there is nobody to ask: add --yes if you accept that")

    async def work(cluster: Cluster) -> tuple[dict[TopicPartition, Refusal | None], ClusterView]:
        names = None
        if topics:
            found = [await cluster.topic(topic) for topic in topics]
            names = [TopicPartition(topic.name, part.index) for topic in found for part in topic.partitions]
        question = f"Accept that messages of {', '.join(topics)} may be lost?"
        if unclean and not yes and not click.confirm(question, err=True):
            raise Complaint("nobody was elected")
        results = await ClusterAdmin(cluster).elect_leaders(names, is_unclean=unclean)
        return results, await cluster.full_view()

    results, view = with_cluster(work)
    needed = {name: it for name, it in results.items() if it is None or it.code != ErrorCode.ELECTION_NOT_NEEDED}
    if form == "json":
        answer_json(_election_facts(needed, view))
    elif needed:
        answer(_election_text(needed, view))
    else:
        talk("every partition is led as it should be; nobody had to be elected")
    return FAILED if any(needed.values()) else 0


@command.command(context_settings=HELP)
@click.option("--node", "node_id", type=node_number, help="Only this node. Default: all nodes.")
@click.option("--topic", help="Only this topic. Default: all topics.")
@output_format
@cluster_options
def scrub(node_id: int | None, topic: str | None, form: str) -> int:
    """Check what nodes have stored against its CRCs, now and at full speed. Exit code 3 if something is damaged.

    Nodes do so by themselves, slowly. A damaged copy is fetched again from another node that has it in sync.
    """
    from headrace.cli.cluster import scrub as cluster_scrub
    from headrace.cli.terminal.output import answer, answer_json, talk
    from headrace.cli.terminal.session import with_cluster

    found = with_cluster(lambda cluster: cluster_scrub.scrub(cluster, node_id, topic))
    if form == "json":
        answer_json(cluster_scrub.found_facts(found))
    elif found:
        answer(cluster_scrub.found_text(found))
    else:
        talk("nothing is damaged")
    return UNHEALTHY if found else 0


def _election_facts(results: dict[TopicPartition, Refusal | None], view: ClusterView) -> list[dict[str, object]]:
    return [
        {
            "topic": name.topic,
            "partition": name.partition,
            "leader": _leader(view, name),
            "problem": None if refusal is None else refusal.message,
        }
        for name, refusal in sorted(results.items())
    ]


def _election_text(results: dict[TopicPartition, Refusal | None], view: ClusterView) -> str:
    from headrace.cli.terminal.output import table

    rows = [
        (name.topic, name.partition, _leader(view, name), "elected" if refusal is None else refusal.message)
        for name, refusal in sorted(results.items())
    ]
    return table(("TOPIC", "PARTITION", "LEADER", "RESULT"), rows)


def _leader(view: ClusterView, name: TopicPartition) -> int | None:
    topic = view.topics.get(name.topic)
    if topic is None or name.partition >= len(topic.partitions) or topic.partitions[name.partition].is_offline:
        return None
    return topic.partitions[name.partition].leader


def _pace(wait: bool, at_once: int | None, throttle: int | None) -> Pace | None:
    """None: begin everything at once, and do not wait."""
    from headrace.cli.cluster.reassignment import Pace

    if not wait and (at_once is not None or throttle is not None):
        raise click.UsageError(
            "--at-once and --throttle need --wait: without it, all moves begin at once and the command ends"
        )
    return Pace(at_once or AT_ONCE, throttle) if wait else None


async def _led_by(cluster: Cluster, node_id: int) -> int:
    topics = (await cluster.full_view()).topics.values()
    return sum(part.leader == node_id for topic in topics for part in topic.partitions)


async def _carry_out(cluster: Cluster, plan: RebalancePlan, pace: Pace | None) -> None:
    from headrace.cli.cluster.reassignment import begin, move_in_waves, pace_text
    from headrace.cli.terminal.output import plural, talk

    if not plan.moves:
        return
    if pace is None:
        await begin(cluster, plan.moves)
        talk(f"{plural(len(plan.moves), 'partition')} began to move; `headrace cluster status` shows how many are left")
        return
    talk(f"moving {plural(len(plan.moves), 'partition')}, {pace_text(pace)}")
    await move_in_waves(cluster, plan.moves, pace)
