/* limit: what the machine itself allows, with no protocol at all.
 *
 *   limit receive   one process receives over loopback and writes to a file: the most that produce could reach
 *   limit sendfile  one process answers each one-byte request with a chunk of a cached file: the same for fetch
 *
 * `receive` takes several connections, each with its own buffer and file, a chunk from each in turn: more buffers than
 * the processor's cache holds cost something, whoever reads into them.
 *
 * A forked child is the other end. Time and CPU are those of the parent, which stands where the node would.
 */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct settings {
    const char *file;
    double megabytes;
    size_t chunk_bytes;
    int connections;
} settings = {.file = NULL, .megabytes = 1000, .chunk_bytes = 1000000, .connections = 1};

enum {
    SENDFILE_SOURCE_BYTES = 256 << 20, /* read again and again; large enough not to live in the processor's cache */
    CONNECTIONS_MAX = 64,
};

static size_t total_bytes(void)
{
    return (size_t)(settings.megabytes * 1e6);
}

static uint8_t *touched_buffer(size_t bytes)
{
    uint8_t *buffer = allocate(bytes);
    memset(buffer, 'x', bytes); /* page faults belong before the clock */
    return buffer;
}

static _Noreturn void send_chunks(const int *sockets)
{
    uint8_t *chunk = touched_buffer(settings.chunk_bytes);
    size_t left = total_bytes();
    for (int turn = 0; left > 0; turn++) {
        size_t bytes = left < settings.chunk_bytes ? left : settings.chunk_bytes;
        send_all(sockets[turn % settings.connections], chunk, bytes);
        left -= bytes;
    }
    exit(0);
}

static _Noreturn void request_chunks(const int *sockets)
{
    uint8_t *chunk = touched_buffer(settings.chunk_bytes);
    for (;;) {
        if (send(sockets[0], "?", 1, MSG_NOSIGNAL) != 1)
            exit(0);
        for (size_t got = 0; got < settings.chunk_bytes;) {
            ssize_t n = recv(sockets[0], chunk + got, settings.chunk_bytes - got, 0);
            if (n <= 0)
                exit(0);
            got += (size_t)n;
        }
    }
}

/* Fork the other end and accept its connections, one after the other so that both sides number them alike. */
static void meet_child(void (*behave)(const int *), int *sockets)
{
    int port, listener = listen_on_loopback(&port);
    pid_t child = fork();
    if (child < 0)
        die("cannot fork: %m");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < settings.connections; i++)
            sockets[i] = connect_to("127.0.0.1", port);
        behave(sockets);
    }
    for (int i = 0; i < settings.connections; i++)
        sockets[i] = accept_from(listener);
    close(listener);
}

static void write_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written <= 0)
            die("cannot write to %s: %m", settings.file);
        bytes += written;
        count -= (size_t)written;
    }
}

static int open_sink(int number)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", settings.file, number);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        die("cannot open %s: %m", path);
    unlink(path); /* gone with this process, however it ends */
    return file;
}

/* Fill the chunk, or what is left of it before the sender closes. */
static size_t receive_chunk(int fd, uint8_t *chunk)
{
    size_t filled = 0;
    while (filled < settings.chunk_bytes) {
        ssize_t n = recv(fd, chunk + filled, settings.chunk_bytes - filled, 0);
        if (n < 0)
            die("recv failed: %m");
        if (n == 0)
            break;
        filled += (size_t)n;
    }
    return filled;
}

static size_t receive_and_write(const int *sockets)
{
    int files[CONNECTIONS_MAX];
    uint8_t *chunks[CONNECTIONS_MAX];
    for (int i = 0; i < settings.connections; i++) {
        files[i] = open_sink(i);
        chunks[i] = touched_buffer(settings.chunk_bytes);
    }
    size_t total = 0;
    for (int turn = 0;; turn = (turn + 1) % settings.connections) {
        size_t filled = receive_chunk(sockets[turn], chunks[turn]);
        if (filled == 0)
            return total;
        write_all(files[turn], chunks[turn], filled);
        total += filled;
    }
}

static int cached_source(void)
{
    int file = open(settings.file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        die("cannot open %s: %m", settings.file);
    unlink(settings.file);
    uint8_t *chunk = touched_buffer(1 << 20);
    for (int written = 0; written < SENDFILE_SOURCE_BYTES; written += 1 << 20)
        write_all(file, chunk, 1 << 20);
    return file;
}

static size_t answer_from_file(int fd, int file)
{
    off_t at = 0;
    char request;
    size_t total = 0;
    while (total < total_bytes() && recv(fd, &request, 1, 0) == 1) {
        if (at + (off_t)settings.chunk_bytes > SENDFILE_SOURCE_BYTES)
            at = 0;
        for (size_t left = settings.chunk_bytes; left > 0;) {
            ssize_t n = sendfile(fd, file, &at, left); /* moves `at` on */
            if (n <= 0)
                die("sendfile failed: %m");
            left -= (size_t)n;
        }
        total += settings.chunk_bytes;
    }
    return total;
}

static const char *read_arguments(int count, char **arguments)
{
    static const struct option options[] = {{"file", 1, 0, 'f'},
                                            {"megabytes", 1, 0, 'm'},
                                            {"chunk-bytes", 1, 0, 'b'},
                                            {"connections", 1, 0, 'c'},
                                            {0, 0, 0, 0}};
    for (int option, index; (option = getopt_long(count, arguments, "", options, &index)) != -1;) {
        const char *name = option == '?' ? "" : options[index].name;
        switch (option) {
        case 'f': settings.file = optarg; break;
        case 'm': settings.megabytes = number_argument(name, optarg, 1, 1e6); break;
        case 'b': settings.chunk_bytes = (size_t)number_argument(name, optarg, 1, SENDFILE_SOURCE_BYTES); break;
        case 'c': settings.connections = (int)number_argument(name, optarg, 1, CONNECTIONS_MAX); break;
        default: exit(2);
        }
    }
    const char *mode = optind == count - 1 ? arguments[optind] : "";
    bool sends = strcmp(mode, "sendfile") == 0;
    if (settings.file == NULL || (!sends && strcmp(mode, "receive") != 0) || (sends && settings.connections > 1))
        die("usage: limit receive --file PATH [--megabytes N] [--chunk-bytes N] [--connections N]\n"
            "       limit sendfile --file PATH [--megabytes N] [--chunk-bytes N]");
    return mode;
}

int main(int count, char **arguments)
{
    bool receives = strcmp(read_arguments(count, arguments), "receive") == 0;
    int sockets[CONNECTIONS_MAX], source = receives ? -1 : cached_source();
    meet_child(receives ? send_chunks : request_chunks, sockets);
    double start_cpu_s = cpu_seconds();
    int64_t start_ns = now_ns();
    size_t bytes = receives ? receive_and_write(sockets) : answer_from_file(sockets[0], source);
    double seconds = (double)(now_ns() - start_ns) / (double)NS_PER_S, cpu_s = cpu_seconds() - start_cpu_s;
    double megabytes = (double)bytes / 1e6;
    for (int i = 0; i < settings.connections; i++)
        close(sockets[i]);
    wait(NULL);
    printf("{\"megabytes\": %.3f, \"seconds\": %.6f, \"mb_per_s\": %.3f, \"cpu_s\": %.3f, \"cpu_s_per_gb\": %.4f}\n",
           megabytes, seconds, megabytes / seconds, cpu_s, cpu_s / megabytes * 1e3);
    return 0;
}
