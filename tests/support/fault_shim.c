/* Makes calls of a process fail on demand: preloaded, steered through a small file that a test maps too.
 *
 * The file holds one errno per kind of call (0: let it through): [0] writes, [1] syncs, [2] reads, [3] opening,
 * renaming and making; then [4], how many calls were refused. Only paths that begin with FAULT_PATH are touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES, SYNCS, READS, NAMES, REFUSED, SLOTS };

static volatile int *orders;
static const char *below;

static int (*real_open)(const char *, int, ...);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_ORDERS");
    below = getenv("FAULT_PATH");
    real_open = dlsym(RTLD_NEXT, "open");
    if (path == NULL || below == NULL) return;
    int fd = real_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *made = mmap(NULL, SLOTS * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (made != MAP_FAILED) orders = made;
}

static int refuse(int kind) {
    __atomic_add_fetch((int *)&orders[REFUSED], 1, __ATOMIC_SEQ_CST);
    errno = orders[kind];
    return 1;
}

static int bad_path(int kind, const char *path) {
    if (orders == NULL || orders[kind] == 0) return 0;
    return strncmp(path, below, strlen(below)) == 0 && refuse(kind);
}

static int bad_fd(int kind, int fd) {
    char link[64], path[PATH_MAX];
    if (orders == NULL || orders[kind] == 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, below, strlen(below)) == 0 && refuse(kind);
}

#define FORWARD(result, name, kind, declared, passed)                                  \
    result name declared {                                                             \
        static result(*next) declared;                                                 \
        if (next == NULL) next = dlsym(RTLD_NEXT, #name);                              \
        return bad_fd(kind, fd) ? (result)-1 : next passed;                            \
    }

FORWARD(ssize_t, write, WRITES, (int fd, const void *data, size_t size), (fd, data, size))
FORWARD(ssize_t, pwritev, WRITES, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
FORWARD(ssize_t, pwritev64, WRITES, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
FORWARD(ssize_t, pwritev2, WRITES, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))
FORWARD(ssize_t, pwritev64v2, WRITES, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))
FORWARD(int, fsync, SYNCS, (int fd), (fd))
FORWARD(int, fdatasync, SYNCS, (int fd), (fd))
FORWARD(ssize_t, pread, READS, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
FORWARD(ssize_t, pread64, READS, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
FORWARD(ssize_t, preadv, READS, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
FORWARD(ssize_t, preadv64, READS, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
FORWARD(ssize_t, preadv2, READS, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))
FORWARD(ssize_t, preadv64v2, READS, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))

static int open_named(const char *name, const char *path, int flags, int mode) {
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
    return bad_path(NAMES, path) ? -1 : next(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    return open_named("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    return open_named("open64", path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    int (*next)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
    return bad_path(NAMES, path) ? -1 : next(path, mode);
}

int rename(const char *from, const char *to) {
    int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    return bad_path(NAMES, from) ? -1 : next(from, to);
}
