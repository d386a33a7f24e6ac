/* Load for a broker that speaks Kafka's protocol, cheap enough that the broker is what is measured.
 *
 * Frames are encoded once; the run only sends slices of them, reads answers and checks order and error codes.
 * One thread, epoll, non-blocking sockets. Each connection has a ring of frames and sends them in turn; frame `s` of
 * connection `c` is for partition (c + s x connections) mod partitions when there are more partitions than connections,
 * else every frame of connection `c` is for partition (c mod partitions).
 *
 *   load produce  keep N connections x M requests in flight, each one record batch, for some seconds
 *   load fetch    read what `produce` wrote, from the start and round again, one request in flight each
 *   load pace     one connection, requests at a fixed rate, latency from the moment each was due
 *   load disk     no broker: write + fdatasync of the same sizes, the floor of a synced log
 *
 * Prints one JSON object. Any error code, any answer out of order, any closed connection ends the run with 1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, PRODUCE_VERSION = 11, FETCH_VERSION = 12, BATCH_HEADER = 61 };

static struct {
    const char *mode, *host, *topic, *file;
    int port, partitions, connections, inflight, acks, rate, slots;
    long batch_bytes, record_bytes, bytes_max;
    double seconds, warmup;
} opt = {.host = "127.0.0.1", .topic = "bench", .file = "bench.disk", .port = 9092, .partitions = 1,
         .connections = 1, .inflight = 1, .acks = -1, .rate = 1000, .batch_bytes = 0, .record_bytes = 100,
         .bytes_max = 1L << 40, .seconds = 3, .warmup = 0.5};

static void die(const char *what) {
    fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double own_cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* ---- encoding ------------------------------------------------------------------------------------------ */

typedef struct { uint8_t *data; size_t size, room; } Bytes;

static void put(Bytes *b, const void *data, size_t n) {
    if (b->size + n > b->room) {
        b->room = (b->size + n) * 2;
        if (!(b->data = realloc(b->data, b->room))) die("memory");
    }
    memcpy(b->data + b->size, data, n);
    b->size += n;
}

static void put_int(Bytes *b, int64_t value, int width) {
    uint8_t raw[8];
    for (int i = 0; i < width; i++) raw[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    put(b, raw, width);
}

static void put_uvarint(Bytes *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put_int(b, (int64_t)(value & 0x7f) | 0x80, 1);
    put_int(b, (int64_t)value, 1);
}

static void put_varint(Bytes *b, int64_t value) { put_uvarint(b, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63)); }

static void put_text(Bytes *b, const char *text) { /* compact string */
    put_uvarint(b, strlen(text) + 1);
    put(b, text, strlen(text));
}

static int64_t get_int(const uint8_t *p, int width) {
    int64_t value = (int8_t)p[0];
    for (int i = 1; i < width; i++) value = (value << 8) | p[i];
    return value;
}

static uint32_t crc32c(const uint8_t *p, size_t n) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0x82f63b78u ^ (c >> 1) : c >> 1;
            table[i] = c;
        }
    uint32_t c = ~0u;
    while (n--) c = table[(c ^ *p++) & 0xff] ^ (c >> 8);
    return ~c;
}

static int64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int records_per_batch; /* set by build_batch, needed to step through offsets */

static void put_record(Bytes *b, int delta, size_t value_bytes, unsigned *seed) {
    Bytes body = {0};
    put_int(&body, 0, 1);
    put_varint(&body, 0);
    put_varint(&body, delta);
    put_varint(&body, -1);
    put_varint(&body, (int64_t)value_bytes);
    for (size_t i = 0; i < value_bytes; i++) {
        uint8_t letter = (uint8_t)(32 + rand_r(seed) % 95);
        put(&body, &letter, 1);
    }
    put_varint(&body, 0);
    put_varint(b, (int64_t)body.size);
    put(b, body.data, body.size);
    free(body.data);
}

/* A batch of exactly opt.batch_bytes (the last record takes up the slack), or of one record when it is 0. */
static Bytes build_batch(unsigned seed) {
    Bytes records = {0};
    int count = 0;
    const long room = opt.batch_bytes - BATCH_HEADER, overhead = 20;
    while (opt.batch_bytes && (long)records.size + 2 * (opt.record_bytes + overhead) < room)
        put_record(&records, count++, (size_t)opt.record_bytes, &seed);
    if (opt.batch_bytes) {
        const size_t before = records.size;
        for (long value = room - (long)before; value > 0; value--) {
            records.size = before;
            put_record(&records, count, (size_t)value, &seed);
            if ((long)records.size <= room) break;
        }
    } else
        put_record(&records, count, (size_t)opt.record_bytes, &seed);
    count++;
    records_per_batch = count;

    Bytes tail = {0}; /* what the CRC covers */
    int64_t stamp = wall_ms();
    put_int(&tail, 0, 2);
    put_int(&tail, count - 1, 4);
    put_int(&tail, stamp, 8);
    put_int(&tail, stamp, 8);
    put_int(&tail, -1, 8);
    put_int(&tail, -1, 2);
    put_int(&tail, -1, 4);
    put_int(&tail, count, 4);
    put(&tail, records.data, records.size);

    Bytes batch = {0};
    put_int(&batch, 0, 8);
    put_int(&batch, (int64_t)tail.size + 9, 4);
    put_int(&batch, -1, 4);
    put_int(&batch, 2, 1);
    put_int(&batch, crc32c(tail.data, tail.size), 4);
    put(&batch, tail.data, tail.size);
    free(records.data);
    free(tail.data);
    return batch;
}

static size_t begin_frame(Bytes *b, int api, int version, int correlation) {
    size_t start = b->size;
    put_int(b, 0, 4);
    put_int(b, api, 2);
    put_int(b, version, 2);
    put_int(b, correlation, 4);
    put_int(b, 4, 2);
    put(b, "load", 4);
    put_uvarint(b, 0);
    return start;
}

static void end_frame(Bytes *b, size_t start) {
    Bytes size = {0};
    put_int(&size, (int64_t)(b->size - start - 4), 4);
    memcpy(b->data + start, size.data, 4);
    free(size.data);
}

static void put_produce(Bytes *b, int correlation, int partition, const Bytes *batch) {
    size_t start = begin_frame(b, PRODUCE, PRODUCE_VERSION, correlation);
    put_uvarint(b, 0); /* no transactional id */
    put_int(b, opt.acks, 2);
    put_int(b, 30000, 4);
    put_uvarint(b, 2);
    put_text(b, opt.topic);
    put_uvarint(b, 2);
    put_int(b, partition, 4);
    put_uvarint(b, batch->size + 1);
    put(b, batch->data, batch->size);
    put_uvarint(b, 0);
    put_uvarint(b, 0);
    put_uvarint(b, 0);
    end_frame(b, start);
}

static size_t fetch_offset_at; /* where in a fetch frame the offset lies */

static void put_fetch(Bytes *b, int partition) {
    size_t start = begin_frame(b, FETCH, FETCH_VERSION, 0);
    put_int(b, -1, 4);                   /* a consumer */
    put_int(b, 500, 4);                  /* max wait */
    put_int(b, 1, 4);                    /* min bytes */
    put_int(b, opt.batch_bytes, 4);      /* max bytes */
    put_int(b, 0, 1);                    /* read uncommitted */
    put_int(b, 0, 4);
    put_int(b, -1, 4);                   /* no session */
    put_uvarint(b, 2);
    put_text(b, opt.topic);
    put_uvarint(b, 2);
    put_int(b, partition, 4);
    put_int(b, -1, 4);
    fetch_offset_at = b->size;
    put_int(b, 0, 8);
    put_int(b, -1, 4);
    put_int(b, -1, 8);
    put_int(b, opt.batch_bytes, 4);
    put_uvarint(b, 0);
    put_uvarint(b, 0);
    put_uvarint(b, 1); /* nothing forgotten */
    put_uvarint(b, 1); /* no rack */
    put_uvarint(b, 0);
    end_frame(b, start);
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

static float *samples;
static size_t samples_count, samples_room;
static uint64_t requests, bytes_moved;
static int measuring;
static double warmed_up_after;

static void sample(double seconds) {
    if (samples_count == samples_room) {
        samples_room = samples_room ? samples_room * 2 : 1 << 16;
        if (!(samples = realloc(samples, samples_room * sizeof *samples))) die("memory");
    }
    samples[samples_count++] = (float)(seconds * 1e3);
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double percentile(double p) {
    if (!samples_count) return 0;
    size_t i = (size_t)(p / 100 * (double)(samples_count - 1) + 0.5);
    return samples[i];
}

static void report(double seconds, double cpu) {
    qsort(samples, samples_count, sizeof *samples, compare);
    printf("{\"warmup_s\": %.4f, \"seconds\": %.4f, \"requests\": %llu, \"bytes\": %llu, \"requests_per_s\": %.1f, \"mb_per_s\": %.3f, "
           "\"client_cpu_s\": %.3f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
           warmed_up_after, seconds, (unsigned long long)requests, (unsigned long long)bytes_moved, requests / seconds,
           bytes_moved / seconds / 1e6, cpu, percentile(50), percentile(99), percentile(99.9), percentile(100));
}

/* ---- connections --------------------------------------------------------------------------------------- */

typedef struct {
    int fd, waiting_to_write;
    Bytes frames;             /* produce: opt.slots frames, correlation 0, 1, ...; fetch: one frame */
    size_t frame_bytes;       /* size of each frame: all are equal */
    size_t at;                /* next byte of `frames` to send, cyclic */
    size_t owed;              /* bytes still to be sent for requests already started */
    int expected;             /* correlation id of the next answer */
    double *sent;             /* when each request in flight was started, by correlation id */
    int next_sent;
    uint8_t *in;              /* bytes received and not yet handled */
    size_t in_size, in_room;
    int64_t fetch_offset, empty;
} Connection;

static int open_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    if (inet_pton(AF_INET, opt.host, &address.sin_addr) != 1) die("host must be an IPv4 address");
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void set_interest(int epoll, Connection *c) {
    int want = c->owed > 0;
    if (want == c->waiting_to_write) return;
    struct epoll_event event = {.events = EPOLLIN | (want ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event)) die("epoll");
    c->waiting_to_write = want;
}

static void flush_out(int epoll, Connection *c) {
    while (c->owed) {
        size_t straight = c->frames.size - c->at, n = c->owed < straight ? c->owed : straight;
        ssize_t sent = send(c->fd, c->frames.data + c->at, n, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN) break;
            die("send");
        }
        c->owed -= (size_t)sent;
        c->at = (c->at + (size_t)sent) % c->frames.size;
    }
    set_interest(epoll, c);
}

static void start_requests(int epoll, Connection *c, int count) {
    double t = now();
    for (int i = 0; i < count; i++) {
        c->sent[c->next_sent] = t;
        c->next_sent = (c->next_sent + 1) % opt.slots;
    }
    c->owed += (size_t)count * c->frame_bytes;
    flush_out(epoll, c);
}

/* Just after a topic was made a broker may not know yet that it leads it (3, 5, 6): the warm-up lasts until it does. */
static long good_since_refusal;

static int may_happen_at_first(int error) {
    if (measuring || (error != 3 && error != 5 && error != 6)) return 0;
    good_since_refusal = 0;
    return 1;
}

static void check_produce_answer(Connection *c, const uint8_t *p, size_t size) {
    size_t error_at = 4 + 1 + 1 + 1 + strlen(opt.topic) + 1 + 4;
    if (size < error_at + 2) die("short answer");
    if (get_int(p, 4) != c->expected) die("answer out of order");
    int error = (int)get_int(p + error_at, 2);
    if (error && !may_happen_at_first(error)) {
        fprintf(stderr, "load: produce answered error code %d\n", error);
        exit(1);
    }
}

static const uint8_t *skip_uvarint(const uint8_t *p, uint64_t *value) {
    *value = 0;
    for (int shift = 0;; shift += 7, p++) {
        *value |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80)) return p + 1;
    }
}

/* Moves the connection's offset past the whole batches of the answer; at the end of the log it starts again. */
static size_t take_fetch_answer(Connection *c, const uint8_t *p) {
    const uint8_t *q = p + 4 + 1 + 4;
    int error = (int)get_int(q, 2);
    q += 2 + 4 + 1 + 1 + strlen(opt.topic) + 1 + 4;
    if (!error) error = (int)get_int(q, 2);
    if (error) {
        fprintf(stderr, "load: fetch answered error code %d\n", error);
        exit(1);
    }
    int64_t high_watermark = get_int(q + 2, 8);
    uint64_t aborted, size;
    q = skip_uvarint(q + 2 + 24, &aborted);
    q = skip_uvarint(q + 4, &size);
    size = size ? size - 1 : 0;
    size_t whole = 0;
    int64_t next = c->fetch_offset;
    while (whole + BATCH_HEADER <= size) {
        size_t batch = 12 + (size_t)get_int(q + whole + 8, 4);
        if (whole + batch > size) break;
        next = get_int(q + whole, 8) + get_int(q + whole + 23, 4) + 1;
        whole += batch;
    }
    c->fetch_offset = next >= high_watermark ? 0 : next;
    Bytes raw = {.data = c->frames.data + fetch_offset_at, .size = 0, .room = 8};
    put_int(&raw, c->fetch_offset, 8);
    if (!whole && ++c->empty > 100) die("nothing to fetch");
    return whole;
}

static void receive(int epoll, Connection *c, int fetching) {
    for (;;) {
        if (c->in_room - c->in_size < 1 << 16) {
            c->in_room = c->in_room * 2 + (1 << 18);
            if (!(c->in = realloc(c->in, c->in_room))) die("memory");
        }
        ssize_t n = recv(c->fd, c->in + c->in_size, c->in_room - c->in_size, 0);
        if (n == 0) { errno = 0; die("the broker closed a connection"); }
        if (n < 0) {
            if (errno == EAGAIN) break;
            die("recv");
        }
        c->in_size += (size_t)n;
        if (c->in_size < c->in_room) break;
    }
    double t = now();
    size_t at = 0;
    int answered = 0;
    while (c->in_size - at >= 4) {
        size_t size = (size_t)get_int(c->in + at, 4);
        if (c->in_size - at - 4 < size) break;
        size_t moved = (size_t)opt.batch_bytes;
        if (fetching) moved = take_fetch_answer(c, c->in + at + 4);
        else check_produce_answer(c, c->in + at + 4, size);
        if (measuring) {
            requests++;
            bytes_moved += moved;
            sample(t - c->sent[c->expected]);
        }
        c->expected = (c->expected + 1) % opt.slots;
        good_since_refusal++;
        at += 4 + size;
        answered++;
    }
    if (at) {
        memmove(c->in, c->in + at, c->in_size - at);
        c->in_size -= at;
    }
    if (answered) start_requests(epoll, c, answered);
}

static int partition_of(int connection, int slot) {
    if (opt.partitions <= opt.connections) return connection % opt.partitions;
    return (connection + slot * opt.connections) % opt.partitions;
}

static Connection *open_connections(int epoll, int fetching) {
    Connection *all = calloc((size_t)opt.connections, sizeof *all);
    const int share = (opt.partitions + opt.connections - 1) / opt.connections;
    opt.slots = fetching ? 1 : opt.inflight > share ? opt.inflight : share;
    for (int i = 0; i < opt.connections; i++) {
        Connection *c = &all[i];
        Bytes batch = build_batch((unsigned)i + 1);
        if (fetching) put_fetch(&c->frames, i % opt.partitions);
        else
            for (int j = 0; j < opt.slots; j++) put_produce(&c->frames, j, partition_of(i, j), &batch);
        c->frame_bytes = c->frames.size / (size_t)opt.slots;
        if (!opt.batch_bytes) opt.batch_bytes = (long)batch.size;
        free(batch.data);
        c->sent = calloc((size_t)opt.slots, sizeof *c->sent);
        c->fd = open_socket();
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event)) die("epoll");
    }
    return all;
}

static void run_closed_loop(int fetching) {
    int epoll = epoll_create1(0);
    if (fetching) opt.inflight = 1;
    Connection *all = open_connections(epoll, fetching);
    for (int i = 0; i < opt.connections; i++) start_requests(epoll, &all[i], opt.inflight);
    double begin = now(), start = begin, cpu = 0, end = begin + 60;
    struct epoll_event events[64];
    for (double t = begin; t < end; t = now()) {
        if (!measuring && t >= begin + opt.warmup && good_since_refusal >= 2L * opt.slots * opt.connections) {
            measuring = 1;
            start = t;
            warmed_up_after = t - begin;
            end = t + opt.seconds;
            cpu = own_cpu();
            fprintf(stdout, "measuring\n");
            fflush(stdout);
        }
        if (bytes_moved >= (uint64_t)opt.bytes_max) break;
        int n = epoll_wait(epoll, events, 64, 1000);
        for (int i = 0; i < n; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(epoll, c, fetching);
            if (events[i].events & EPOLLOUT) flush_out(epoll, c);
        }
    }
    if (!measuring) die("the broker did not lead all partitions within a minute");
    report(now() - start, own_cpu() - cpu);
}

/* Open loop: a request is due every 1/rate seconds whether or not earlier ones were answered. */
static void run_paced(void) {
    const int room = 1 << 14;
    opt.connections = 1;
    opt.inflight = 1;
    int epoll = epoll_create1(0);
    Connection *c = open_connections(epoll, 0);
    c->in_room = 1 << 20;
    if (!(c->in = malloc(c->in_room))) die("memory");
    double *due = calloc(room, sizeof *due);
    double begin = now(), start = begin + opt.warmup, end = start + opt.seconds, cpu = own_cpu();
    uint64_t sent = 0, answered = 0;
    struct epoll_event event;
    measuring = 0;
    fprintf(stdout, "measuring\n");
    fflush(stdout);
    for (;;) {
        double t = now(), next = begin + (double)sent / opt.rate;
        if (next < end && t >= next) {
            if (sent - answered >= (uint64_t)room) die("the broker cannot keep up with the rate");
            due[sent++ % room] = next;
            c->owed += c->frame_bytes;
            flush_out(epoll, c);
            continue;
        }
        if (next >= end && (answered == sent || t > end + 10)) break;
        struct timespec wait = {0, next < end ? (long)((next - t) * 1e9) : 100000000};
        if (epoll_pwait2(epoll, &event, 1, &wait, NULL) <= 0) continue;
        if (event.events & EPOLLOUT) flush_out(epoll, c);
        if (!(event.events & EPOLLIN)) continue;
        ssize_t n = recv(c->fd, c->in + c->in_size, c->in_room - c->in_size, 0);
        if (n <= 0) die("recv");
        c->in_size += (size_t)n;
        t = now();
        size_t at = 0;
        while (c->in_size - at >= 4 && c->in_size - at - 4 >= (size_t)get_int(c->in + at, 4)) {
            check_produce_answer(c, c->in + at + 4, (size_t)get_int(c->in + at, 4));
            c->expected = (c->expected + 1) % opt.slots;
            double was_due = due[answered++ % room];
            if (was_due >= start) {
                requests++;
                bytes_moved += (uint64_t)opt.batch_bytes;
                sample(t - was_due);
            }
            at += 4 + (size_t)get_int(c->in + at, 4);
        }
        memmove(c->in, c->in + at, c->in_size - at);
        c->in_size -= at;
    }
    report(now() - start, own_cpu() - cpu);
}

static void run_disk(void) {
    int fd = open(opt.file, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (fd < 0) die("open");
    long size = opt.batch_bytes ? opt.batch_bytes : opt.record_bytes;
    uint8_t *block = malloc((size_t)size);
    unsigned seed = 1;
    for (long i = 0; i < size; i++) block[i] = (uint8_t)rand_r(&seed);
    double start = now(), end = start + opt.seconds, cpu = own_cpu();
    for (double t = start; t < end && bytes_moved < (uint64_t)opt.bytes_max;) {
        if (write(fd, block, (size_t)size) != size || fdatasync(fd)) die("write");
        double after = now();
        sample(after - t);
        t = after;
        requests++;
        bytes_moved += (uint64_t)size;
    }
    report(now() - start, own_cpu() - cpu);
    close(fd);
    unlink(opt.file);
}

static void usage(void) {
    errno = 0;
    die("usage: load produce|fetch|pace|disk [--port N] [--topic T] [--partitions N] [--connections N] "
        "[--inflight N] [--batch-bytes N] [--record-bytes N] [--bytes-max N] [--seconds S] [--warmup S] "
        "[--acks N] [--rate N] [--file F] [--host A]");
}

static void parse(int argc, char **argv) {
    if (argc < 2) usage();
    opt.mode = argv[1];
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 >= argc) usage();
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--host")) opt.host = value;
        else if (!strcmp(name, "--topic")) opt.topic = value;
        else if (!strcmp(name, "--file")) opt.file = value;
        else if (!strcmp(name, "--port")) opt.port = atoi(value);
        else if (!strcmp(name, "--partitions")) opt.partitions = atoi(value);
        else if (!strcmp(name, "--connections")) opt.connections = atoi(value);
        else if (!strcmp(name, "--inflight")) opt.inflight = atoi(value);
        else if (!strcmp(name, "--acks")) opt.acks = atoi(value);
        else if (!strcmp(name, "--rate")) opt.rate = atoi(value);
        else if (!strcmp(name, "--batch-bytes")) opt.batch_bytes = atol(value);
        else if (!strcmp(name, "--record-bytes")) opt.record_bytes = atol(value);
        else if (!strcmp(name, "--bytes-max")) opt.bytes_max = atol(value);
        else if (!strcmp(name, "--seconds")) opt.seconds = atof(value);
        else if (!strcmp(name, "--warmup")) opt.warmup = atof(value);
        else usage();
    }
}

int main(int argc, char **argv) {
    parse(argc, argv);
    if (!strcmp(opt.mode, "produce")) run_closed_loop(0);
    else if (!strcmp(opt.mode, "fetch")) run_closed_loop(1);
    else if (!strcmp(opt.mode, "pace")) run_paced();
    else if (!strcmp(opt.mode, "disk")) run_disk();
    else usage();
    return 0;
}
