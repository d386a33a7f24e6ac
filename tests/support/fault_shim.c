/* A preloaded library that records and refuses the file system calls of a process below one directory.
 *
 * FAULT_PATH    the directory; calls on other paths are neither recorded nor refused.
 * FAULT_TRACE   a file to which each successful change is appended as a line: the call, its path below FAULT_PATH, and the
 *               target of a rename, separated by tabs.
 * FAULT_SIZES   if set, the line of a call on an open file has the size of the file after it instead of a target.
 * FAULT_NO_SYNC if set, a sync is recorded and succeeds without being done: the tests look at calls, not at a disk.
 * FAULT_ORDERS  a file of ints that a test maps too. [0] to [3] hold one errno per kind of call (0: let it through): writes,
 *               syncs, reads, names (open, rename, mkdir). [4] counts refused calls. [5]: let that many calls of a refused
 *               kind through before the first refusal. [6]: refuse that many calls and let all others through; 0: no limit. */
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES, SYNCS, READS, NAMES, REFUSED, SKIPPED, LIMIT, SLOTS };

static volatile int *orders;
static const char *below;
static size_t below_length;
static int trace = -1;
static int no_sync;
static int with_sizes;

#define NEXT(name) dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_ORDERS"), *traced = getenv("FAULT_TRACE");
    int (*real_open)(const char *, int, ...) = NEXT("open");
    below = getenv("FAULT_PATH");
    if (below == NULL) return;
    below_length = strlen(below);
    no_sync = getenv("FAULT_NO_SYNC") != NULL;
    with_sizes = getenv("FAULT_SIZES") != NULL;
    if (traced != NULL) trace = real_open(traced, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    int fd = path == NULL ? -1 : real_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *made = mmap(NULL, SLOTS * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (made != MAP_FAILED) orders = made;
}

static int is_below(const char *path) {
    return below != NULL && strncmp(path, below, below_length) == 0 && strchr("/", path[below_length]) != NULL;
}

static int find_path(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = below == NULL ? -1 : readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static const char *relative(const char *path) {
    const char *rest = path + below_length;
    while (*rest == '/') rest++;
    return *rest ? rest : ".";
}

static void record(const char *call, const char *path, const char *target) {
    char line[2 * PATH_MAX + 64];
    int saved = errno;
    if (trace >= 0 && is_below(path)) {
        int size = snprintf(line, sizeof line, "%s\t%s\t%s\n", call, relative(path), target ? relative(target) : "");
        syscall(SYS_write, trace, line, size);
    }
    errno = saved;
}

static void record_file(const char *call, int fd, const char *path) {
    char line[PATH_MAX + 64];
    struct stat found;
    int saved = errno;
    if (!with_sizes || fstat(fd, &found) != 0) {
        record(call, path, NULL);
    } else {
        int size = snprintf(line, sizeof line, "%s\t%s\t%lld\n", call, relative(path), (long long)found.st_size);
        syscall(SYS_write, trace, line, size);
    }
    errno = saved;
}

static int refuse(int kind) {
    if (__atomic_fetch_sub((int *)&orders[SKIPPED], 1, __ATOMIC_SEQ_CST) > 0) return 0;
    int count = __atomic_add_fetch((int *)&orders[REFUSED], 1, __ATOMIC_SEQ_CST);
    if (orders[LIMIT] && count > orders[LIMIT]) {
        __atomic_sub_fetch((int *)&orders[REFUSED], 1, __ATOMIC_SEQ_CST);
        return 0;
    }
    errno = orders[kind];
    return 1;
}

static int bad_path(int kind, const char *path) {
    return orders != NULL && orders[kind] != 0 && is_below(path) && refuse(kind);
}

static int bad_fd(int kind, int fd) {
    char path[PATH_MAX];
    return orders != NULL && orders[kind] != 0 && find_path(fd, path) && refuse(kind);
}

/* A call on an open file, recorded under `as` unless that is NULL. */
#define ON_FILE(result, name, kind, as, declared, passed)                              \
    result name declared {                                                             \
        static result(*next) declared;                                                 \
        char path[PATH_MAX];                                                           \
        if (next == NULL) next = NEXT(#name);                                          \
        if (bad_fd(kind, fd)) return (result)-1;                                       \
        result done = kind == SYNCS && no_sync ? 0 : next passed;                       \
        const char *call = as;                                                         \
        if (done >= 0 && call != NULL && trace >= 0 && find_path(fd, path)) record_file(call, fd, path); \
        return done;                                                                   \
    }

#define DONE(how) (no_sync ? (how) & ~RWF_DSYNC : (how))
#define SYNCED(how) ((how) & RWF_DSYNC ? "write+sync" : "write")

ON_FILE(ssize_t, write, WRITES, "write", (int fd, const void *data, size_t size), (fd, data, size))
ON_FILE(ssize_t, pwrite, WRITES, "write", (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, pwrite64, WRITES, "write", (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, pwritev, WRITES, "write", (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
ON_FILE(ssize_t, pwritev64, WRITES, "write", (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
ON_FILE(ssize_t, pwritev2, WRITES, SYNCED(how), (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, DONE(how)))
ON_FILE(ssize_t, pwritev64v2, WRITES, SYNCED(how), (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, DONE(how)))
ON_FILE(int, fsync, SYNCS, "sync", (int fd), (fd))
ON_FILE(int, fdatasync, SYNCS, "sync", (int fd), (fd))
ON_FILE(int, syncfs, SYNCS, "sync-all", (int fd), (fd))
ON_FILE(int, ftruncate, WRITES, "truncate", (int fd, off_t size), (fd, size))
ON_FILE(int, ftruncate64, WRITES, "truncate", (int fd, off_t size), (fd, size))
ON_FILE(ssize_t, pread, READS, NULL, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, pread64, READS, NULL, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(ssize_t, preadv, READS, NULL, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
ON_FILE(ssize_t, preadv64, READS, NULL, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
ON_FILE(ssize_t, preadv2, READS, NULL, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))
ON_FILE(ssize_t, preadv64v2, READS, NULL, (int fd, const struct iovec *v, int n, off_t at, int how), (fd, v, n, at, how))

static int open_named(const char *name, const char *path, int flags, int mode) {
    int (*next)(const char *, int, ...) = NEXT(name);
    if (bad_path(NAMES, path)) return -1;
    int is_new = flags & O_CREAT && is_below(path) && access(path, F_OK) != 0;
    int fd = next(path, flags, mode);
    if (fd >= 0 && is_new) record("create", path, NULL);
    if (fd >= 0 && flags & O_TRUNC && !is_new) record("truncate", path, NULL);
    return fd;
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
    int (*next)(const char *, mode_t) = NEXT("mkdir");
    if (bad_path(NAMES, path)) return -1;
    int done = next(path, mode);
    if (done == 0) record("mkdir", path, NULL);
    return done;
}

int rename(const char *from, const char *to) {
    int (*next)(const char *, const char *) = NEXT("rename");
    if (bad_path(NAMES, from)) return -1;
    int done = next(from, to);
    if (done == 0) record("rename", from, to);
    return done;
}

int unlink(const char *path) {
    int (*next)(const char *) = NEXT("unlink");
    if (bad_path(NAMES, path)) return -1;
    int done = next(path);
    if (done == 0) record("remove", path, NULL);
    return done;
}

int rmdir(const char *path) {
    int (*next)(const char *) = NEXT("rmdir");
    if (bad_path(NAMES, path)) return -1;
    int done = next(path);
    if (done == 0) record("remove", path, NULL);
    return done;
}
