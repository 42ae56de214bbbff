/* What the load programs share: time, sockets, big-endian bytes, CRC-32C and percentiles. */
#ifndef HEADRACE_BENCH_COMMON_H
#define HEADRACE_BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_S 1000000000LL

/* Print the message to stderr and leave with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *allocate(size_t bytes); /* zeroed; never returns NULL */
int64_t now_ns(void);         /* monotonic */
double cpu_seconds(void);     /* user + system time of this process, all threads */

/* --- numbers on the command line --- */

double number_argument(const char *name, const char *text, double low, double high);
int *partition_list(const char *text, int *count); /* "0-3", "5" or "0,2,9-11" */

/* --- sockets --- */

int connect_to(const char *host, int port); /* IPv4, without Nagle's delay */
int listen_on_loopback(int *port);          /* a free port, reported back */
int accept_from(int listener);              /* also without Nagle's delay */
void send_all(int fd, const void *bytes, size_t count);

/* --- bytes, big-endian as on Kafka's wire --- */

struct writer {
    uint8_t *at;
};

void put_i8(struct writer *w, int value);
void put_i16(struct writer *w, int value);
void put_i32(struct writer *w, int64_t value);
void put_i64(struct writer *w, int64_t value);
void put_string(struct writer *w, const char *text); /* 16-bit length, then the bytes */
void put_varint(struct writer *w, int64_t value);    /* zigzag, as inside record batches */
int varint_bytes(int64_t value);

int16_t get_i16(const uint8_t *p);
int32_t get_i32(const uint8_t *p);
int64_t get_i64(const uint8_t *p);

uint32_t crc32c(const uint8_t *bytes, size_t count);

/* --- samples --- */

struct samples {
    float *values;
    size_t count, capacity;
};

void samples_add(struct samples *s, double value);
void samples_sort(struct samples *s);
double samples_at(const struct samples *s, double share); /* sorted first; share 0.5 is the median; 0 when empty */

#endif
