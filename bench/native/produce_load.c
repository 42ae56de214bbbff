/* produce_load: sends prebuilt Produce v7 requests as fast as the node answers, or at an even rate.
 *
 * Every request is built once, before the clock starts; sending one only patches its correlation id. So the cost of a
 * client (records, compression, CRC) is not in the measure, and one thread is enough to outrun the node.
 *
 * Version 7 is the newest without varints around the records: its fields stand at fixed places, every Kafka since 2.0
 * speaks it, and so do kcat and aiokafka.
 *
 * Answers are checked: correlation ids in order, the partition that was asked, no error, base offsets that rise.
 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

enum {
    STAGING_BYTES = 1 << 16,  /* small requests leave together, up to this much per send */
    ANSWERS_BYTES = 1 << 16,  /* a whole number of answers need not fit, one must */
    CORRELATION_AT = 8,       /* after length, api key and version */
    SILENCE_S_MAX = 30,       /* a node that answers nothing for so long is stuck */
    CONNECTIONS_MAX = 1024,
};

static struct settings {
    const char *host, *topic;
    int port, acks, connections;
    int *partitions, partition_count;
    int in_flight;      /* unanswered requests per connection */
    int records;        /* per batch */
    int record_bytes;   /* of each value */
    double seconds, megabytes, requests; /* the first of them that is reached ends the run */
    double rate;        /* requests per second over all connections; 0 is as fast as answers come */
} settings = {
    .host = "127.0.0.1", .topic = "bench", .port = 9092, .acks = 1, .connections = 1, .in_flight = 5,
    .records = 1, .record_bytes = 100, .seconds = 3600, .megabytes = 1e12, .requests = 1e15,
};

struct request {
    int partition;
    uint8_t *frame;
    size_t frame_bytes, batch_bytes;
    int64_t last_base_offset;
};

struct pending {
    struct request *request;
    int64_t due_ns; /* when it was to be sent: a late send counts as the node's delay, which caused it */
};

/* One connection with the partitions that it alone serves, as a client would have it. */
struct lane {
    int fd;
    struct request *requests;
    int request_count, next_request;
    struct pending *window; /* ring of settings.in_flight, by correlation id */
    uint32_t sent, answered;
    int64_t next_due_ns;
    const uint8_t *out; /* what the socket has not taken yet: the staging area, or one large request */
    size_t out_bytes;
    uint8_t *staging;
    uint8_t *answers;
    size_t answer_bytes;
};

static struct totals {
    uint64_t issued, answered, errors;
    double issued_bytes, answered_bytes; /* of record batches: what lands in the log */
    int first_error;
    bool stopping;
    int64_t start_ns, end_ns, last_answer_ns;
    double start_cpu_s;
    struct samples latency_us, lateness_us;
} totals;

/* --- building --- */

static void put_records(struct writer *w)
{
    for (int index = 0; index < settings.records; index++) {
        int value_bytes = settings.record_bytes;
        int body = 1 + varint_bytes(0) + varint_bytes(index) + varint_bytes(-1) + varint_bytes(value_bytes) +
                   value_bytes + varint_bytes(0);
        put_varint(w, body);
        put_i8(w, 0);      /* attributes */
        put_varint(w, 0);  /* timestamp delta */
        put_varint(w, index);
        put_varint(w, -1); /* no key */
        put_varint(w, value_bytes);
        for (int at = 0; at < value_bytes; at++)
            put_i8(w, 'a' + (at * 7 + index) % 26);
        put_varint(w, 0); /* no headers */
    }
}

/* A record batch, magic 2, without a producer id; returns its size. */
static size_t put_batch(struct writer *w)
{
    uint8_t *batch = w->at;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t timestamp_ms = wall.tv_sec * 1000LL + wall.tv_nsec / 1000000;

    put_i64(w, 0);  /* base offset: the node's to give */
    put_i32(w, 0);  /* length, below */
    put_i32(w, -1); /* leader epoch */
    put_i8(w, 2);   /* magic */
    put_i32(w, 0);  /* CRC, below */
    uint8_t *checked = w->at;
    put_i16(w, 0); /* attributes: not compressed */
    put_i32(w, settings.records - 1);
    put_i64(w, timestamp_ms);
    put_i64(w, timestamp_ms);
    put_i64(w, -1); /* producer id */
    put_i16(w, -1); /* producer epoch */
    put_i32(w, -1); /* first sequence */
    put_i32(w, settings.records);
    put_records(w);

    size_t bytes = (size_t)(w->at - batch);
    put_i32(&(struct writer){batch + 8}, (int64_t)bytes - 12);
    put_i32(&(struct writer){batch + 17}, crc32c(checked, (size_t)(w->at - checked)));
    return bytes;
}

static void build_request(struct request *request, int partition)
{
    enum { ENVELOPE_BYTES = 1024, RECORD_OVERHEAD_BYTES = 32 };
    size_t room = ENVELOPE_BYTES + (size_t)settings.records * (size_t)(settings.record_bytes + RECORD_OVERHEAD_BYTES);
    request->partition = partition;
    request->frame = allocate(room);
    request->last_base_offset = -1;

    struct writer w = {request->frame};
    put_i32(&w, 0); /* length, below */
    put_i16(&w, 0); /* Produce */
    put_i16(&w, 7);
    put_i32(&w, 0); /* correlation id, when sent */
    put_string(&w, "produce_load");
    put_i16(&w, -1); /* no transaction */
    put_i16(&w, settings.acks);
    put_i32(&w, 30000); /* the node's own time limit, ms */
    put_i32(&w, 1);
    put_string(&w, settings.topic);
    put_i32(&w, 1);
    put_i32(&w, partition);
    uint8_t *batch_length = w.at;
    put_i32(&w, 0);
    request->batch_bytes = put_batch(&w);
    put_i32(&(struct writer){batch_length}, (int64_t)request->batch_bytes);
    request->frame_bytes = (size_t)(w.at - request->frame);
    put_i32(&(struct writer){request->frame}, (int64_t)request->frame_bytes - 4);
}

static int64_t interval_ns(void)
{
    return (int64_t)((double)NS_PER_S / settings.rate);
}

/* Partitions are dealt out to the lanes; with fewer partitions than lanes, lanes share them. */
static void open_lane(struct lane *lane, int number)
{
    int lanes = settings.connections, partitions = settings.partition_count;
    lane->fd = connect_to(settings.host, settings.port);
    lane->requests = allocate((size_t)(partitions / lanes + 1) * sizeof *lane->requests);
    for (int i = number % partitions; i < partitions; i += lanes)
        build_request(&lane->requests[lane->request_count++], settings.partitions[i]);
    lane->window = allocate((size_t)settings.in_flight * sizeof *lane->window);
    lane->staging = allocate(STAGING_BYTES);
    lane->answers = allocate(ANSWERS_BYTES);
}

/* --- sending --- */

static bool may_issue(const struct lane *lane, int64_t now)
{
    if (totals.stopping || lane->sent - lane->answered >= (uint32_t)settings.in_flight)
        return false;
    if (totals.issued_bytes >= settings.megabytes * 1e6 || (double)totals.issued >= settings.requests) {
        totals.stopping = true;
        return false;
    }
    return settings.rate == 0 || lane->next_due_ns <= now;
}

static void issue(struct lane *lane, int64_t now)
{
    struct request *request = &lane->requests[lane->next_request];
    lane->next_request = (lane->next_request + 1) % lane->request_count;
    put_i32(&(struct writer){request->frame + CORRELATION_AT}, lane->sent);

    struct pending *pending = &lane->window[lane->sent % (uint32_t)settings.in_flight];
    pending->request = request;
    pending->due_ns = now;
    if (settings.rate > 0) {
        pending->due_ns = lane->next_due_ns;
        samples_add(&totals.lateness_us, (double)(now - lane->next_due_ns) / 1e3);
        lane->next_due_ns += interval_ns() * settings.connections;
    }
    lane->sent++;
    totals.issued++;
    totals.issued_bytes += (double)request->batch_bytes;
    if (settings.acks == 0)
        lane->answered++; /* nobody will */
}

/* Put the next bytes to send into lane->out: one large request where it lies, or many small ones packed together. */
static void refill(struct lane *lane, int64_t now)
{
    size_t staged = 0;
    while (may_issue(lane, now)) {
        struct request *request = &lane->requests[lane->next_request];
        if (request->frame_bytes > STAGING_BYTES) {
            issue(lane, now);
            lane->out = request->frame;
            lane->out_bytes = request->frame_bytes;
            return;
        }
        if (staged + request->frame_bytes > STAGING_BYTES)
            break;
        issue(lane, now);
        memcpy(lane->staging + staged, request->frame, request->frame_bytes);
        staged += request->frame_bytes;
    }
    lane->out = lane->staging;
    lane->out_bytes = staged;
}

/* Send until the socket is full, the window is full, or nothing is due. */
static void pump(struct lane *lane)
{
    for (;;) {
        if (lane->out_bytes == 0)
            refill(lane, now_ns());
        if (lane->out_bytes == 0)
            return;
        ssize_t sent = send(lane->fd, lane->out, lane->out_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EAGAIN)
                return;
            die("send failed: %m");
        }
        lane->out += sent;
        lane->out_bytes -= (size_t)sent;
    }
}

/* --- answers --- */

/* correlation id, [topic, [partition, error, base offset, log append time, log start offset]], throttle time */
static void check_answer(struct lane *lane, const uint8_t *answer, int64_t now)
{
    if (lane->sent == lane->answered)
        die("an answer that nobody asked for");
    struct pending *pending = &lane->window[lane->answered % (uint32_t)settings.in_flight];
    struct request *request = pending->request;
    const uint8_t *at = answer + 4 + 4 + 2 + strlen(settings.topic) + 4;
    int partition = get_i32(at), error = get_i16(at + 4);
    int64_t base_offset = get_i64(at + 6);

    if ((uint32_t)get_i32(answer) != lane->answered)
        die("correlation id %d came where %u was due", get_i32(answer), lane->answered);
    if (partition != request->partition)
        die("partition %d answered where %d was asked", partition, request->partition);
    if (error != 0) {
        if (totals.errors++ == 0)
            totals.first_error = error;
    } else if (base_offset <= request->last_base_offset) {
        die("partition %d: base offset %lld came after %lld", partition, (long long)base_offset,
            (long long)request->last_base_offset);
    } else {
        request->last_base_offset = base_offset;
    }
    samples_add(&totals.latency_us, (double)(now - pending->due_ns) / 1e3);
    totals.answered++;
    totals.answered_bytes += (double)request->batch_bytes;
    lane->answered++;
}

static void take_answers(struct lane *lane)
{
    ssize_t got = recv(lane->fd, lane->answers + lane->answer_bytes, ANSWERS_BYTES - lane->answer_bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("the node closed a connection with %u requests unanswered", lane->sent - lane->answered);
    lane->answer_bytes += (size_t)got;

    const int answer_bytes = (int)(4 + 4 + 2 + strlen(settings.topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4);
    int64_t now = now_ns();
    size_t read = 0;
    while (lane->answer_bytes - read >= 4 + (size_t)answer_bytes) {
        int size = get_i32(lane->answers + read);
        if (size != answer_bytes)
            die("an answer of %d bytes where %d are right", size, answer_bytes);
        check_answer(lane, lane->answers + read + 4, now);
        read += 4 + (size_t)size;
    }
    lane->answer_bytes -= read;
    memmove(lane->answers, lane->answers + read, lane->answer_bytes);
    if (read > 0)
        totals.last_answer_ns = now;
}

/* Without answers only the end of the stream says that the node has read everything. */
static void wait_until_read(struct lane *lanes)
{
    uint8_t byte;
    for (int i = 0; i < settings.connections; i++)
        shutdown(lanes[i].fd, SHUT_WR);
    for (int i = 0; i < settings.connections; i++) {
        struct pollfd watch = {.fd = lanes[i].fd, .events = POLLIN};
        if (poll(&watch, 1, SILENCE_S_MAX * 1000) != 1 || recv(lanes[i].fd, &byte, 1, 0) > 0)
            die("acks=0, but the node did not just read to the end and close");
    }
    totals.last_answer_ns = now_ns();
    totals.answered = totals.issued;
    totals.answered_bytes = totals.issued_bytes;
}

/* --- the run --- */

/* How long to sleep when no socket stirs: until the next request is due, or a while. */
static int64_t idle_ns(const struct lane *lanes)
{
    int64_t now = now_ns(), until = now + NS_PER_S / 10;
    if (totals.end_ns > now && totals.end_ns < until)
        until = totals.end_ns;
    if (settings.rate > 0 && !totals.stopping)
        for (int i = 0; i < settings.connections; i++) {
            bool window_is_full = lanes[i].sent - lanes[i].answered >= (uint32_t)settings.in_flight;
            if (!window_is_full && lanes[i].next_due_ns < until)
                until = lanes[i].next_due_ns;
        }
    return until > now ? until - now : 0;
}

static bool is_busy(const struct lane *lane)
{
    return lane->out_bytes > 0 || lane->sent != lane->answered;
}

static void run(struct lane *lanes)
{
    struct pollfd watch[CONNECTIONS_MAX];
    totals.start_cpu_s = cpu_seconds();
    totals.start_ns = totals.last_answer_ns = now_ns();
    totals.end_ns = totals.start_ns + (int64_t)(settings.seconds * (double)NS_PER_S);
    for (int i = 0; i < settings.connections; i++)
        lanes[i].next_due_ns = totals.start_ns + (settings.rate > 0 ? i * interval_ns() : 0);

    for (;;) {
        bool busy = false;
        int64_t now = now_ns();
        totals.stopping |= now >= totals.end_ns;
        for (int i = 0; i < settings.connections; i++) {
            pump(&lanes[i]);
            busy |= is_busy(&lanes[i]);
            watch[i] = (struct pollfd){.fd = lanes[i].fd, .events = POLLIN | (lanes[i].out_bytes ? POLLOUT : 0)};
        }
        if (totals.stopping && !busy)
            break;
        if (busy && settings.acks != 0 && now - totals.last_answer_ns > SILENCE_S_MAX * NS_PER_S)
            die("no answer for %d s", SILENCE_S_MAX);
        int64_t nap = idle_ns(lanes);
        struct timespec timeout = {.tv_sec = nap / NS_PER_S, .tv_nsec = nap % NS_PER_S};
        if (ppoll(watch, (nfds_t)settings.connections, &timeout, NULL) < 0 && errno != EINTR)
            die("ppoll failed: %m");
        for (int i = 0; i < settings.connections; i++)
            if (watch[i].revents & (POLLIN | POLLHUP | POLLERR))
                take_answers(&lanes[i]);
    }
    if (settings.acks == 0)
        wait_until_read(lanes);
}

static void report(void)
{
    struct samples *latency = &totals.latency_us;
    double run_cpu_s = cpu_seconds() - totals.start_cpu_s; /* before the sorting */
    double seconds = (double)(totals.last_answer_ns - totals.start_ns) / (double)NS_PER_S;
    samples_sort(latency);
    samples_sort(&totals.lateness_us);
    printf("{\"requests\": %llu, \"records\": %llu, \"errors\": %llu, \"first_error\": %d, \"seconds\": %.6f, "
           "\"megabytes\": %.3f, \"mb_per_s\": %.3f, \"requests_per_s\": %.1f, "
           "\"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, "
           "\"late_p99_us\": %.1f, \"generator_cpu_s\": %.3f}\n",
           (unsigned long long)totals.answered, (unsigned long long)totals.answered * (unsigned)settings.records,
           (unsigned long long)totals.errors, totals.first_error, seconds, totals.answered_bytes / 1e6,
           totals.answered_bytes / 1e6 / seconds, (double)totals.answered / seconds, samples_at(latency, 0.5),
           samples_at(latency, 0.9), samples_at(latency, 0.99), samples_at(latency, 0.999), samples_at(latency, 1),
           samples_at(&totals.lateness_us, 0.99), run_cpu_s);
}

static void read_arguments(int count, char **arguments)
{
    static const struct option options[] = {
        {"host", 1, 0, 'h'},    {"port", 1, 0, 'p'},      {"topic", 1, 0, 't'},   {"partitions", 1, 0, 'P'},
        {"acks", 1, 0, 'a'},    {"connections", 1, 0, 'c'}, {"in-flight", 1, 0, 'i'}, {"records", 1, 0, 'n'},
        {"record-bytes", 1, 0, 'b'}, {"seconds", 1, 0, 's'}, {"megabytes", 1, 0, 'm'}, {"requests", 1, 0, 'q'},
        {"rate", 1, 0, 'r'},    {0, 0, 0, 0},
    };
    settings.partitions = partition_list("0", &settings.partition_count);
    for (int option, index; (option = getopt_long(count, arguments, "", options, &index)) != -1;) {
        const char *name = option == '?' ? "" : options[index].name;
        switch (option) {
        case 'h': settings.host = optarg; break;
        case 't': settings.topic = optarg; break;
        case 'P': settings.partitions = partition_list(optarg, &settings.partition_count); break;
        case 'p': settings.port = (int)number_argument(name, optarg, 1, 65535); break;
        case 'a': settings.acks = (int)number_argument(name, optarg, -1, 1); break;
        case 'c': settings.connections = (int)number_argument(name, optarg, 1, CONNECTIONS_MAX); break;
        case 'i': settings.in_flight = (int)number_argument(name, optarg, 1, 1e6); break;
        case 'n': settings.records = (int)number_argument(name, optarg, 1, 1e6); break;
        case 'b': settings.record_bytes = (int)number_argument(name, optarg, 0, 1e8); break;
        case 's': settings.seconds = number_argument(name, optarg, 0, 1e6); break;
        case 'm': settings.megabytes = number_argument(name, optarg, 0, 1e9); break;
        case 'q': settings.requests = number_argument(name, optarg, 1, 1e12); break;
        case 'r': settings.rate = number_argument(name, optarg, 0, 1e7); break;
        default: exit(2);
        }
    }
    if (optind < count || strlen(settings.topic) > 249)
        die("usage: produce_load [--option value]...; the topic's name has at most 249 characters");
}

int main(int count, char **arguments)
{
    read_arguments(count, arguments);
    prctl(PR_SET_TIMERSLACK, 1UL); /* wake when a request is due, not up to 50 us later */
    struct lane *lanes = allocate((size_t)settings.connections * sizeof *lanes);
    for (int i = 0; i < settings.connections; i++)
        open_lane(&lanes[i], i);
    run(lanes);
    report();
    return 0;
}
