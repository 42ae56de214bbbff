"""`headrace transactions`: which are open, on what, and how to end one that nobody ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.terminal.numbers import partition_number, producer_number
from headrace.cli.terminal.options import HELP, cluster_options, noun, output_format

if TYPE_CHECKING:
    from headrace.client.admin.transactions import (
        ActiveProducer,
        TransactionAdmin,
        TransactionDescription,
        TransactionListing,
    )
    from headrace.client.connections.cluster import Cluster
    from headrace.model.names import TopicPartition

command = noun("List, describe and abort transactions.")

OPEN = "Ongoing"
FIRST_COORDINATOR = 0  # the epoch; for a partition to which none has written yet
STATES = ("Empty", OPEN, "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")

id_option = click.option("--transactional-id", help="The producer's transactional id.")
topic_option = click.option("--topic", help="With --partition: a topic that transactions write to.")
partition_option = click.option("--partition", type=partition_number, help="The partition of --topic.")


@command.command("list", context_settings=HELP)
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only those in this state. Repeatable.",
)
@output_format
@cluster_options
def list_transactions(states: tuple[str, ...], form: str) -> None:
    """List transactional ids, and the state of the last transaction of each."""
    from headrace.cli.terminal.output import answer, answer_json, table
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.transactions import TransactionAdmin

    async def work(cluster: Cluster) -> list[TransactionListing]:
        return await TransactionAdmin(cluster).list_transactions(states=states)

    listings = sorted(with_cluster(work), key=lambda listing: listing.transactional_id)
    if form == "json":
        answer_json(
            [
                {
                    "transactional_id": listing.transactional_id,
                    "state": listing.state,
                    "producer_id": listing.producer_id,
                    "coordinator": listing.coordinator,
                }
                for listing in listings
            ]
        )
    elif listings:
        rows = [
            (listing.transactional_id, listing.state, listing.producer_id, listing.coordinator) for listing in listings
        ]
        answer(table(("TRANSACTIONAL ID", "STATE", "PRODUCER ID", "COORDINATOR"), rows))


@command.command(context_settings=HELP)
@id_option
@topic_option
@partition_option
@output_format
@cluster_options
def describe(transactional_id: str | None, topic: str | None, partition: int | None, form: str) -> None:
    """Show the transaction of one id, or all producers that write to one partition.

    An open transaction keeps readers of committed messages waiting in the partitions that it writes to.
    """
    from headrace.cli.terminal.output import answer, answer_json
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.transactions import TransactionAdmin

    place = _place(transactional_id, topic, partition)

    async def work(cluster: Cluster) -> TransactionDescription | list[ActiveProducer]:
        admin = TransactionAdmin(cluster)
        if place is not None:
            return await admin.producers(place)
        assert transactional_id is not None
        return await admin.describe(transactional_id)

    found = with_cluster(work)
    if isinstance(found, list):
        if form == "json":
            answer_json([producer_facts(producer) for producer in found])
        elif found:
            answer(producers_table(found))
    elif form == "json":
        answer_json(transaction_facts(found))
    else:
        answer(transaction_text(found))


@command.command(context_settings=HELP)
@id_option
@topic_option
@partition_option
@click.option("--producer-id", type=producer_number, help="With --topic: the producer whose transaction it is.")
@cluster_options
def abort(transactional_id: str | None, topic: str | None, partition: int | None, producer_id: int | None) -> None:
    """Abort an open transaction. Its producer is fenced: it cannot commit any more.

    By its id this is always safe. A transaction that its coordinator has forgotten, and that holds up the readers of a
    partition, is aborted there with --topic, --partition and --producer-id, as `transactions describe` shows them.
    """
    from headrace.cli.terminal.output import talk
    from headrace.cli.terminal.session import with_cluster
    from headrace.client.admin.transactions import TransactionAdmin

    place = _place(transactional_id, topic, partition)
    if (place is None) != (producer_id is None):
        raise click.UsageError("--producer-id goes with --topic and --partition")

    async def work(cluster: Cluster) -> None:
        admin = TransactionAdmin(cluster)
        if place is not None and producer_id is not None:
            hanging = _open_transaction(await admin.producers(place), place, producer_id)
            await _abort_there(admin, place, hanging)
        else:
            assert transactional_id is not None
            _refuse_unless_open(await admin.describe(transactional_id))
            await admin.abort(transactional_id)

    with_cluster(work)
    talk(f"aborted the transaction of {transactional_id or f'producer {producer_id} in {place}'}")


def _place(transactional_id: str | None, topic: str | None, partition: int | None) -> TopicPartition | None:
    """Where to look; None if an id was given instead."""
    from headrace.model.names import TopicPartition

    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition go together")
    if (transactional_id is None) == (topic is None):
        raise click.UsageError("give either --transactional-id, or --topic and --partition")
    return None if topic is None or partition is None else TopicPartition(topic, partition)


def _refuse_unless_open(found: TransactionDescription) -> None:
    """To abort is to fence the producer, which one that is between two transactions has not deserved."""
    from headrace.cli.terminal.complaints import Complaint

    if found.state != OPEN:
        raise Complaint(f"{found.transactional_id} has no open transaction: its state is {found.state}")


def _open_transaction(producers: list[ActiveProducer], place: TopicPartition, producer_id: int) -> ActiveProducer:
    from headrace.cli.terminal.complaints import NOT_FOUND, Complaint

    for producer in producers:
        if producer.producer_id == producer_id and producer.transaction_start_offset is not None:
            return producer
    raise Complaint(
        f"producer {producer_id} has no open transaction in {place}",
        f"`headrace transactions describe --topic {place.topic} --partition {place.partition}` shows who has",
        NOT_FOUND,
    )


async def _abort_there(admin: TransactionAdmin, place: TopicPartition, hanging: ActiveProducer) -> None:
    from headrace.cli.terminal.complaints import Complaint
    from headrace.model.errors import ErrorCode, Refusal

    try:
        await admin.abort_hanging(
            place, hanging.producer_id, hanging.producer_epoch, max(hanging.coordinator_epoch, FIRST_COORDINATOR)
        )
    except Refusal as refusal:
        if refusal.code is not ErrorCode.INVALID_TXN_STATE:
            raise
        raise Complaint(
            f"a coordinator looks after the transaction of producer {hanging.producer_id} in {place}",
            "`headrace transactions list` shows its id, with which it can be aborted everywhere at once",
        ) from refusal


def transaction_facts(found: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator": found.coordinator,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.started_ms,
        "partitions": [{"topic": name.topic, "partition": name.partition} for name in found.partitions],
    }


def transaction_text(found: TransactionDescription) -> str:
    from headrace.cli.terminal.output import duration_text, facts_text, moment_text

    return facts_text(
        [
            ("Transactional id", found.transactional_id),
            ("State", found.state),
            ("Producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
            ("Coordinator", found.coordinator),
            ("Started", "-" if found.started_ms is None else moment_text(found.started_ms)),
            ("Timeout", duration_text(found.timeout_ms)),
            ("Partitions", ", ".join(map(str, found.partitions)) or "-"),
        ]
    )


def producer_facts(producer: ActiveProducer) -> dict[str, Any]:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp_ms,
        "transaction_start_offset": producer.transaction_start_offset,
    }


def producers_table(producers: list[ActiveProducer]) -> str:
    from headrace.cli.terminal.output import moment_text, table

    columns = ("PRODUCER ID", "EPOCH", "LAST SEQUENCE", "LAST WRITE", "OPEN SINCE OFFSET")
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            moment_text(producer.last_timestamp_ms),
            producer.transaction_start_offset,
        )
        for producer in producers
    ]
    return table(columns, rows)
