/* fetch_load: drains partitions from offset 0 to the high watermark with Fetch v11, as many times as told.
 *
 * One request in flight per connection, as consumers do. Of what arrives only the 61-byte batch headers are read:
 * batches must follow each other without a gap, and each must hold as many records as its offsets say.
 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    BATCH_HEADER_BYTES = 61,
    BATCH_PREFIX_BYTES = 12,         /* base offset and length: what the length does not count */
    ANSWER_BYTES_MAX = 512 << 20,    /* a longer answer is a broken length */
    CONNECTIONS_MAX = 1024,
    FETCH_WAIT_MS = 500,
};

static struct settings {
    const char *host, *topic;
    int port, connections;
    int *partitions, partition_count;
    int partition_bytes, answer_bytes; /* most bytes per partition, and per answer */
    int passes;
    double seconds; /* give up after this */
} settings = {
    .host = "127.0.0.1", .topic = "bench", .port = 9092, .connections = 1, .partition_bytes = 1 << 20,
    .answer_bytes = 50 << 20, .passes = 1, .seconds = 60,
};

struct position {
    int partition;
    int64_t next_offset;
    bool drained;
};

struct lane {
    int fd;
    struct position *positions;
    int position_count;
    int passes_left;
    uint32_t correlation_id;
    uint8_t *request;
    uint8_t *answer;
    size_t answer_bytes, capacity;
};

static struct totals {
    uint64_t answers, empty_answers, batches, records;
    double bytes; /* of record batches */
    int64_t start_ns;
    double start_cpu_s;
} totals;

static void open_lane(struct lane *lane, int number)
{
    enum { ENVELOPE_BYTES = 1024, PARTITION_BYTES = 28 };
    lane->fd = connect_to(settings.host, settings.port);
    lane->positions = allocate((size_t)settings.partition_count * sizeof *lane->positions);
    for (int i = number; i < settings.partition_count; i += settings.connections)
        lane->positions[lane->position_count++].partition = settings.partitions[i];
    lane->passes_left = lane->position_count > 0 ? settings.passes : 0;
    lane->request = allocate(ENVELOPE_BYTES + (size_t)lane->position_count * PARTITION_BYTES);
    lane->capacity = (size_t)settings.partition_bytes + (1 << 16);
    lane->answer = allocate(lane->capacity);
    memset(lane->answer, 1, lane->capacity); /* the first touch of each page belongs before the clock */
}

static int undrained(const struct lane *lane)
{
    int count = 0;
    for (int i = 0; i < lane->position_count; i++)
        count += !lane->positions[i].drained;
    return count;
}

/* Ask for every partition of this lane that is not at its end. No fetch session: each request is complete. */
static void send_request(struct lane *lane)
{
    struct writer w = {lane->request};
    put_i32(&w, 0); /* length, below */
    put_i16(&w, 1); /* Fetch */
    put_i16(&w, 11);
    put_i32(&w, ++lane->correlation_id);
    put_string(&w, "fetch_load");
    put_i32(&w, -1); /* a consumer, not a replica */
    put_i32(&w, FETCH_WAIT_MS);
    put_i32(&w, 1); /* least bytes */
    put_i32(&w, settings.answer_bytes);
    put_i8(&w, 0); /* read uncommitted */
    put_i32(&w, 0);
    put_i32(&w, -1);
    put_i32(&w, 1);
    put_string(&w, settings.topic);
    put_i32(&w, undrained(lane));
    for (int i = 0; i < lane->position_count; i++) {
        struct position *position = &lane->positions[i];
        if (position->drained)
            continue;
        put_i32(&w, position->partition);
        put_i32(&w, -1); /* leader epoch unknown */
        put_i64(&w, position->next_offset);
        put_i64(&w, -1); /* log start: replicas only */
        put_i32(&w, settings.partition_bytes);
    }
    put_i32(&w, 0);      /* nothing forgotten */
    put_string(&w, "");  /* no rack */
    size_t bytes = (size_t)(w.at - lane->request);
    put_i32(&(struct writer){lane->request}, (int64_t)bytes - 4);
    send_all(lane->fd, lane->request, bytes);
}

/* Walk the batches; the last may be cut off by the byte limit and will be asked for again. */
static void walk_batches(struct position *position, const uint8_t *at, const uint8_t *end)
{
    while (end - at >= BATCH_HEADER_BYTES) {
        int64_t base_offset = get_i64(at);
        int64_t bytes = (int64_t)BATCH_PREFIX_BYTES + get_i32(at + 8);
        int last_offset_delta = get_i32(at + 23), records = get_i32(at + 57);
        if (bytes < BATCH_HEADER_BYTES || at[16] != 2)
            die("partition %d: no batch begins at offset %lld", position->partition, (long long)position->next_offset);
        if (bytes > end - at)
            return;
        if (base_offset != position->next_offset || last_offset_delta + 1 != records)
            die("partition %d: offset %lld is due, a batch of %d records from %lld came", position->partition,
                (long long)position->next_offset, records, (long long)base_offset);
        position->next_offset += records;
        totals.batches++;
        totals.records += (uint64_t)records;
        totals.bytes += (double)bytes;
        at += bytes;
    }
}

static struct position *position_of(struct lane *lane, int partition)
{
    for (int i = 0; i < lane->position_count; i++)
        if (lane->positions[i].partition == partition)
            return &lane->positions[i];
    die("partition %d was not asked for", partition);
}

/* index, error, high watermark, last stable offset, log start offset, [aborted], preferred replica, records */
static const uint8_t *read_partition(struct lane *lane, const uint8_t *at, const uint8_t *end)
{
    struct position *position = position_of(lane, get_i32(at));
    int error = get_i16(at + 4), aborted = get_i32(at + 30);
    int64_t high_watermark = get_i64(at + 6);
    if (error != 0)
        die("partition %d: error %d", position->partition, error);
    at += 34 + (aborted > 0 ? aborted * 16 : 0) + 4;
    int records_bytes = get_i32(at);
    at += 4;
    if (records_bytes > end - at)
        die("partition %d: %d bytes of records do not fit into the answer", position->partition, records_bytes);
    if (records_bytes > 0) {
        walk_batches(position, at, at + records_bytes);
        at += records_bytes;
    }
    position->drained = position->next_offset >= high_watermark;
    return at;
}

/* correlation id, throttle time, error, session id, [topic, [partition]] */
static void read_answer(struct lane *lane)
{
    const uint8_t *at = lane->answer + 4, *end = lane->answer + lane->answer_bytes;
    uint64_t records_before = totals.records;
    if ((uint32_t)get_i32(at) != lane->correlation_id)
        die("correlation id %d came where %u was due", get_i32(at), lane->correlation_id);
    if (get_i16(at + 8) != 0)
        die("error %d for the whole fetch", get_i16(at + 8));
    int topics = get_i32(at + 14);
    at += 18;
    while (topics-- > 0) {
        at += 2 + get_i16(at);
        int partitions = get_i32(at);
        at += 4;
        while (partitions-- > 0)
            at = read_partition(lane, at, end);
    }
    totals.answers++;
    totals.empty_answers += totals.records == records_before;
}

static void begin_again(struct lane *lane)
{
    lane->passes_left--;
    for (int i = 0; i < lane->position_count; i++)
        lane->positions[i] = (struct position){.partition = lane->positions[i].partition};
}

static void receive(struct lane *lane)
{
    ssize_t got = recv(lane->fd, lane->answer + lane->answer_bytes, lane->capacity - lane->answer_bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("the node closed a connection that waited for an answer");
    lane->answer_bytes += (size_t)got;
    if (lane->answer_bytes < 4)
        return;
    int size = get_i32(lane->answer);
    if (size < 18 || size > ANSWER_BYTES_MAX)
        die("an answer of %d bytes", size);
    if (lane->capacity < 4 + (size_t)size) {
        lane->capacity = 4 + (size_t)size;
        lane->answer = realloc(lane->answer, lane->capacity);
        if (lane->answer == NULL)
            die("no memory for an answer of %d bytes", size);
    }
    if (lane->answer_bytes < 4 + (size_t)size)
        return;
    read_answer(lane);
    lane->answer_bytes = 0;
    if (undrained(lane) == 0)
        begin_again(lane);
    if (lane->passes_left > 0)
        send_request(lane);
}

static void run(struct lane *lanes)
{
    struct pollfd watch[CONNECTIONS_MAX];
    totals.start_cpu_s = cpu_seconds();
    totals.start_ns = now_ns();
    int64_t end_ns = totals.start_ns + (int64_t)(settings.seconds * (double)NS_PER_S);
    for (int i = 0; i < settings.connections; i++)
        if (lanes[i].passes_left > 0)
            send_request(&lanes[i]);
    for (;;) {
        bool busy = false;
        for (int i = 0; i < settings.connections; i++) {
            bool waits = lanes[i].passes_left > 0;
            busy |= waits;
            watch[i] = (struct pollfd){.fd = waits ? lanes[i].fd : -1, .events = POLLIN};
        }
        if (!busy)
            return;
        if (now_ns() > end_ns)
            die("not at the end after %g s; %llu records so far", settings.seconds, (unsigned long long)totals.records);
        if (poll(watch, (nfds_t)settings.connections, 100) < 0 && errno != EINTR)
            die("poll failed: %m");
        for (int i = 0; i < settings.connections; i++)
            if (watch[i].revents != 0)
                receive(&lanes[i]);
    }
}

static void report(void)
{
    double cpu_s = cpu_seconds() - totals.start_cpu_s;
    double seconds = (double)(now_ns() - totals.start_ns) / (double)NS_PER_S;
    printf("{\"answers\": %llu, \"empty_answers\": %llu, \"batches\": %llu, \"records\": %llu, \"seconds\": %.6f, "
           "\"megabytes\": %.3f, \"mb_per_s\": %.3f, \"records_per_s\": %.1f, \"generator_cpu_s\": %.3f}\n",
           (unsigned long long)totals.answers, (unsigned long long)totals.empty_answers,
           (unsigned long long)totals.batches, (unsigned long long)totals.records, seconds, totals.bytes / 1e6,
           totals.bytes / 1e6 / seconds, (double)totals.records / seconds, cpu_s);
}

static void read_arguments(int count, char **arguments)
{
    static const struct option options[] = {
        {"host", 1, 0, 'h'},       {"port", 1, 0, 'p'},         {"topic", 1, 0, 't'},
        {"partitions", 1, 0, 'P'}, {"connections", 1, 0, 'c'},  {"partition-bytes", 1, 0, 'b'},
        {"answer-bytes", 1, 0, 'B'}, {"passes", 1, 0, 'n'},     {"seconds", 1, 0, 's'},
        {0, 0, 0, 0},
    };
    settings.partitions = partition_list("0", &settings.partition_count);
    for (int option, index; (option = getopt_long(count, arguments, "", options, &index)) != -1;) {
        const char *name = option == '?' ? "" : options[index].name;
        switch (option) {
        case 'h': settings.host = optarg; break;
        case 't': settings.topic = optarg; break;
        case 'P': settings.partitions = partition_list(optarg, &settings.partition_count); break;
        case 'p': settings.port = (int)number_argument(name, optarg, 1, 65535); break;
        case 'c': settings.connections = (int)number_argument(name, optarg, 1, CONNECTIONS_MAX); break;
        case 'b': settings.partition_bytes = (int)number_argument(name, optarg, 1, ANSWER_BYTES_MAX / 2); break;
        case 'B': settings.answer_bytes = (int)number_argument(name, optarg, 1, ANSWER_BYTES_MAX / 2); break;
        case 'n': settings.passes = (int)number_argument(name, optarg, 1, 1e6); break;
        case 's': settings.seconds = number_argument(name, optarg, 0, 1e6); break;
        default: exit(2);
        }
    }
    if (optind < count || strlen(settings.topic) > 249)
        die("usage: fetch_load [--option value]...; the topic's name has at most 249 characters");
}

int main(int count, char **arguments)
{
    read_arguments(count, arguments);
    struct lane *lanes = allocate((size_t)settings.connections * sizeof *lanes);
    for (int i = 0; i < settings.connections; i++)
        open_lane(&lanes[i], i);
    run(lanes);
    report();
    return 0;
}
