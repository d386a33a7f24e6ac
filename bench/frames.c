/* Sends given frames to a broker over and over: any request whose answer is always the same.
 *
 *   frames --port N --file F --connections N --seconds S --warmup S
 *
 * F holds whole requests, each after its 4-byte size, header included. Frame f belongs to connection f mod connections;
 * a connection sends its frames in turn, one in flight. Each answer but its correlation id must equal the first one to
 * the same frame: a coordinator that begins to refuse ends the run with 1. Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 4, ANSWER_MAX = 1 << 20, SAMPLES_MAX = 1 << 22 };

typedef struct { uint8_t *data; uint32_t size; uint8_t *answer; uint32_t answer_size; } Frame;
typedef struct { int socket, frame; uint8_t *in; uint32_t got; double sent_at; } Connection;

static Frame *frames;
static int frame_count, connections = 1, port = 9092;
static double seconds = 3, warmup = 0.5;
static const char *file;
static float samples[SAMPLES_MAX];
static long sample_count, answered;
static int measuring;

static void die(const char *what) {
    fprintf(stderr, "frames: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t size_at(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void load_frames(void) {
    FILE *f = fopen(file, "rb");
    uint8_t head[HEADER];
    if (!f) die(file);
    while (fread(head, 1, HEADER, f) == HEADER) {
        uint32_t size = size_at(head);
        frames = realloc(frames, sizeof *frames * (frame_count + 1));
        Frame *frame = &frames[frame_count++];
        *frame = (Frame){.data = malloc(size + HEADER), .size = size + HEADER};
        memcpy(frame->data, head, HEADER);
        if (fread(frame->data + HEADER, 1, size, f) != size) die("a frame is cut off");
    }
    fclose(f);
    if (frame_count < connections) die("fewer frames than connections");
}

static int open_socket(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (s < 0 || connect(s, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static void ask(Connection *c) {
    Frame *frame = &frames[c->frame];
    c->got = 0;
    c->sent_at = now();
    if (send(c->socket, frame->data, frame->size, 0) != (ssize_t)frame->size) die("send");
}

/* The size and the correlation id lie before what must not change. */
static void check(Frame *frame, const uint8_t *answer, uint32_t size) {
    const uint32_t skip = HEADER + 4;
    if (!frame->answer) {
        frame->answer = malloc(size);
        memcpy(frame->answer, answer, size);
        frame->answer_size = size;
    } else if (size != frame->answer_size || memcmp(answer + skip, frame->answer + skip, size - skip)) {
        errno = 0;
        die("an answer differs from the first one to the same request");
    }
}

static void receive(Connection *c) {
    ssize_t n = recv(c->socket, c->in + c->got, ANSWER_MAX - c->got, 0);
    if (n <= 0) die("the broker closed a connection");
    c->got += (uint32_t)n;
    if (c->got < HEADER || c->got < size_at(c->in) + HEADER) return;
    check(&frames[c->frame], c->in, c->got);
    if (measuring) {
        answered++;
        if (sample_count < SAMPLES_MAX) samples[sample_count++] = (float)(now() - c->sent_at);
    }
    c->frame = c->frame + connections < frame_count ? c->frame + connections : c->frame % connections;
    ask(c);
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void run(Connection *all, int epoll, double until) {
    struct epoll_event events[256];
    while (now() < until) {
        int n = epoll_wait(epoll, events, 256, 100);
        for (int i = 0; i < n; i++) receive(&all[events[i].data.u32]);
    }
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--file")) file = value;
        else if (!strcmp(name, "--connections")) connections = atoi(value);
        else if (!strcmp(name, "--seconds")) seconds = atof(value);
        else if (!strcmp(name, "--warmup")) warmup = atof(value);
        else die(name);
    }
    if (!file) die("--file is missing");
    load_frames();
    Connection *all = calloc(connections, sizeof *all);
    int epoll = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        all[i] = (Connection){.socket = open_socket(), .frame = i, .in = malloc(ANSWER_MAX)};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].socket, &event);
        ask(&all[i]);
    }
    run(all, epoll, now() + warmup);
    puts("measuring");
    fflush(stdout);
    measuring = 1;
    double began = now();
    run(all, epoll, began + seconds);
    double took = now() - began;
    if (!answered) { errno = 0; die("nothing was answered"); }
    qsort(samples, (size_t)sample_count, sizeof *samples, compare);
    printf("{\"requests\": %ld, \"seconds\": %.3f, \"requests_per_s\": %.1f, \"bytes\": 0, \"p50_ms\": %.3f, "
           "\"p99_ms\": %.3f}\n", answered, took, answered / took, samples[sample_count / 2] * 1e3,
           samples[(long)(sample_count * 0.99)] * 1e3);
    return 0;
}
