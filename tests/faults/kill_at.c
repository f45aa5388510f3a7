/* Preloaded into a process: it is killed in the place of the Nth call that changes a file below a folder. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long left;

/* From now on calls below `path` are counted, and the process ends at the `count`th. */
void kill_at(const char *path, long count) {
    snprintf(folder, sizeof folder, "%s", path);
    left = count;
}

static void count_path(const char *path) {
    if (left > 0 && strncmp(path, folder, strlen(folder)) == 0 && --left == 0) {
        kill(getpid(), SIGKILL);
    }
}

static void count_descriptor(int descriptor) {
    char name[64], path[PATH_MAX];
    ssize_t length;

    if (left <= 0) {
        return;
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    length = readlink(name, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        count_path(path);
    }
}

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

#define OF_DESCRIPTOR(type, name, parameters, arguments)                                                               \
    type name parameters {                                                                                             \
        count_descriptor(descriptor);                                                                                  \
        return NEXT(name) arguments;                                                                                   \
    }

OF_DESCRIPTOR(ssize_t, write, (int descriptor, const void *data, size_t length), (descriptor, data, length))
OF_DESCRIPTOR(ssize_t, writev, (int descriptor, const struct iovec *parts, int count), (descriptor, parts, count))
OF_DESCRIPTOR(ssize_t, pwrite, (int descriptor, const void *data, size_t length, off_t offset),
              (descriptor, data, length, offset))
OF_DESCRIPTOR(ssize_t, pwrite64, (int descriptor, const void *data, size_t length, off64_t offset),
              (descriptor, data, length, offset))
OF_DESCRIPTOR(ssize_t, pwritev, (int descriptor, const struct iovec *parts, int count, off_t offset),
              (descriptor, parts, count, offset))
OF_DESCRIPTOR(ssize_t, pwritev64, (int descriptor, const struct iovec *parts, int count, off64_t offset),
              (descriptor, parts, count, offset))
OF_DESCRIPTOR(int, ftruncate, (int descriptor, off_t length), (descriptor, length))
OF_DESCRIPTOR(int, ftruncate64, (int descriptor, off64_t length), (descriptor, length))
OF_DESCRIPTOR(int, fsync, (int descriptor), (descriptor))
OF_DESCRIPTOR(int, fdatasync, (int descriptor), (descriptor))

int unlink(const char *path) {
    count_path(path);
    return NEXT(unlink)(path);
}

int rename(const char *source, const char *target) {
    count_path(target);
    return NEXT(rename)(source, target);
}

static int open_with(const char *name, const char *path, int flags, mode_t mode) {
    int (*open_file)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);

    if ((flags & O_ACCMODE) != O_RDONLY) {
        count_path(path);
    }
    return open_file(path, flags, mode);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        mode_t mode;                                                                                                   \
                                                                                                                       \
        va_start(more, flags);                                                                                         \
        mode = va_arg(more, mode_t);                                                                                   \
        va_end(more);                                                                                                  \
        return open_with(#name, path, flags, mode);                                                                    \
    }

OPEN(open)
OPEN(open64)
