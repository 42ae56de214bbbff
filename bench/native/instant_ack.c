/* instant_ack: a server that answers every Produce v7 request at once and keeps nothing.
 *
 * It stands in for an infinitely fast node: what produce_load reaches against it is the limit of produce_load itself.
 * It prints its port as one JSON line and ends when its standard input closes.
 */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 64,
    REQUEST_BYTES_MAX = 8 << 20,
    SMALL_READ_BYTES = 1 << 16,
    ANSWERS_BYTES = 1 << 20,
    NAME_BYTES_MAX = 249,
};

struct connection {
    uint8_t *buffer;
    size_t filled;
};

static int64_t next_offset; /* one counter for all partitions: rising is all that is asked of it */

/* length, key, version, correlation id, client, transaction, acks, timeout, [topic, [partition, ...]] */
static void put_answer(struct writer *w, const uint8_t *request)
{
    const uint8_t *topic = request + 14 + get_i16(request + 12) + 2 + 2 + 4 + 4;
    int name_bytes = get_i16(topic);
    const uint8_t *partition = topic + 2 + name_bytes + 4;
    if (get_i16(request + 4) != 0 || get_i16(request + 6) != 7 || name_bytes < 0 || name_bytes > NAME_BYTES_MAX)
        die("only Produce v7 without a transaction is answered");
    uint8_t *answer = w->at;
    put_i32(w, 0); /* length, below */
    put_i32(w, get_i32(request + 8));
    put_i32(w, 1);
    memcpy(w->at, topic, (size_t)name_bytes + 2);
    w->at += name_bytes + 2;
    put_i32(w, 1);
    put_i32(w, get_i32(partition));
    put_i16(w, 0);
    put_i64(w, next_offset++);
    put_i64(w, -1); /* log append time */
    put_i64(w, 0);  /* log start */
    put_i32(w, 0);  /* throttle time */
    put_i32(&(struct writer){answer}, w->at - answer - 4);
}

/* Many small requests at once, but of a large one to its end and no further: then nothing large has to be moved. */
static size_t room_to_read(const struct connection *connection)
{
    size_t frame_bytes = connection->filled < 4 ? 0 : 4 + (size_t)get_i32(connection->buffer);
    if (frame_bytes > REQUEST_BYTES_MAX)
        die("a request of %zu bytes", frame_bytes);
    return (frame_bytes > SMALL_READ_BYTES ? frame_bytes : SMALL_READ_BYTES) - connection->filled;
}

/* False when the client has gone. */
static bool serve(int fd, struct connection *connection)
{
    static uint8_t answers[ANSWERS_BYTES];
    struct writer w = {answers};
    ssize_t got = recv(fd, connection->buffer + connection->filled, room_to_read(connection), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        return false;
    connection->filled += (size_t)got;
    size_t read = 0;
    while (connection->filled - read >= 4) {
        size_t frame_bytes = 4 + (size_t)get_i32(connection->buffer + read);
        if (connection->filled - read < frame_bytes)
            break;
        put_answer(&w, connection->buffer + read);
        read += frame_bytes;
    }
    connection->filled -= read;
    memmove(connection->buffer, connection->buffer + read, connection->filled);
    if (w.at > answers)
        send_all(fd, answers, (size_t)(w.at - answers));
    return true;
}

int main(void)
{
    enum { STDIN, LISTENER, FIRST_CLIENT };
    struct pollfd watch[FIRST_CLIENT + CONNECTIONS_MAX];
    struct connection connections[FIRST_CLIENT + CONNECTIONS_MAX] = {0};
    int port, count = FIRST_CLIENT;
    watch[STDIN] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    watch[LISTENER] = (struct pollfd){.fd = listen_on_loopback(&port), .events = POLLIN};
    printf("{\"port\": %d}\n", port);
    fflush(stdout);
    while (poll(watch, (nfds_t)count, -1) >= 0 && watch[STDIN].revents == 0) {
        for (int i = FIRST_CLIENT; i < count; i++)
            if (watch[i].revents != 0 && !serve(watch[i].fd, &connections[i])) {
                close(watch[i].fd);
                watch[i].fd = -1; /* poll skips it; the place is not used again */
            }
        if (watch[LISTENER].revents != 0 && count < FIRST_CLIENT + CONNECTIONS_MAX) {
            connections[count].buffer = allocate(REQUEST_BYTES_MAX);
            watch[count++] = (struct pollfd){.fd = accept_from(watch[LISTENER].fd), .events = POLLIN};
        }
    }
    return 0;
}
