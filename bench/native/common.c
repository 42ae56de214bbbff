#define _GNU_SOURCE
#include "common.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        die("no memory for %zu bytes", bytes);
    return memory;
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

double cpu_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

double number_argument(const char *name, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high))
        die("--%s takes a number from %g to %g, not '%s'", name, low, high, text);
    return value;
}

int *partition_list(const char *text, int *count)
{
    enum { PARTITIONS_MAX = 100000 }; /* a typing mistake must not eat the memory */
    int *partitions = allocate(PARTITIONS_MAX * sizeof *partitions);
    *count = 0;
    for (const char *at = text; *at != '\0';) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at || first < 0)
            die("--partitions takes a list such as 0-3,7, not '%s'", text);
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if ((*end != ',' && *end != '\0') || last < first || last - first >= PARTITIONS_MAX - *count)
            die("--partitions takes a list such as 0-3,7, not '%s'", text);
        for (long partition = first; partition <= last; partition++)
            partitions[(*count)++] = (int)partition;
        at = *end == ',' ? end + 1 : end;
    }
    if (*count == 0)
        die("--partitions is empty");
    return partitions;
}

static struct sockaddr_in address_of(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die("--host takes an IPv4 address, not '%s'", host);
    return address;
}

static void send_without_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int connect_to(const char *host, int port)
{
    struct sockaddr_in address = address_of(host, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("cannot connect to %s:%d: %m", host, port);
    send_without_delay(fd);
    return fd;
}

int listen_on_loopback(int *port)
{
    struct sockaddr_in address = address_of("127.0.0.1", 0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 128) != 0)
        die("cannot listen: %m");
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        die("cannot learn my own port: %m");
    *port = ntohs(address.sin_port);
    return fd;
}

int accept_from(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        die("accept failed: %m");
    send_without_delay(fd);
    return fd;
}

void send_all(int fd, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    while (count > 0) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
        if (sent <= 0)
            die("send failed: %m");
        at += sent;
        count -= (size_t)sent;
    }
}

void put_i8(struct writer *w, int value)
{
    *w->at++ = (uint8_t)value;
}

void put_i16(struct writer *w, int value)
{
    put_i8(w, value >> 8);
    put_i8(w, value);
}

void put_i32(struct writer *w, int64_t value)
{
    put_i16(w, (int)(value >> 16));
    put_i16(w, (int)value);
}

void put_i64(struct writer *w, int64_t value)
{
    put_i32(w, value >> 32);
    put_i32(w, value);
}

void put_string(struct writer *w, const char *text)
{
    size_t length = strlen(text);
    put_i16(w, (int)length);
    memcpy(w->at, text, length);
    w->at += length;
}

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

void put_varint(struct writer *w, int64_t value)
{
    uint64_t rest = zigzag(value);
    for (; rest > 0x7f; rest >>= 7)
        put_i8(w, (int)(rest & 0x7f) | 0x80);
    put_i8(w, (int)rest);
}

int varint_bytes(int64_t value)
{
    int bytes = 1;
    for (uint64_t rest = zigzag(value); rest > 0x7f; rest >>= 7)
        bytes++;
    return bytes;
}

int16_t get_i16(const uint8_t *p)
{
    return (int16_t)(p[0] << 8 | p[1]);
}

int32_t get_i32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return (int32_t)ntohl(value);
}

int64_t get_i64(const uint8_t *p)
{
    return (int64_t)((uint64_t)(uint32_t)get_i32(p) << 32 | (uint32_t)get_i32(p + 4));
}

/* One bit at a time into a table, then a byte at a time: only requests are built with it, before the clock starts. */
uint32_t crc32c(const uint8_t *bytes, size_t count)
{
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t remainder = byte;
            for (int bit = 0; bit < 8; bit++)
                remainder = remainder >> 1 ^ (remainder & 1 ? 0x82f63b78u : 0);
            table[byte] = remainder;
        }
    uint32_t crc = ~0u;
    while (count-- > 0)
        crc = table[(crc ^ *bytes++) & 0xff] ^ crc >> 8;
    return ~crc;
}

void samples_add(struct samples *s, double value)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 1 << 16;
        s->values = realloc(s->values, s->capacity * sizeof *s->values);
        if (s->values == NULL)
            die("no memory for %zu samples", s->capacity);
    }
    s->values[s->count++] = (float)value;
}

static int by_value(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

void samples_sort(struct samples *s)
{
    if (s->count > 0)
        qsort(s->values, s->count, sizeof *s->values, by_value);
}

double samples_at(const struct samples *s, double share)
{
    if (s->count == 0)
        return 0;
    size_t index = (size_t)((double)s->count * share);
    return (double)s->values[index < s->count ? index : s->count - 1];
}
