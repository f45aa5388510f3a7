/* Preloaded into a node: while the file that SLOW_SYNC names is there, each sync of a file takes SLOW_SYNC_MS longer. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void wait_while_slow(void) {
    const char *path = getenv("SLOW_SYNC");
    const char *text = getenv("SLOW_SYNC_MS");
    long delay_ms = text == NULL ? 0 : strtol(text, NULL, 10);
    struct timespec delay = {delay_ms / 1000, delay_ms % 1000 * 1000000};

    if (path != NULL && access(path, F_OK) == 0) {
        nanosleep(&delay, NULL);
    }
}

static int sync_with(const char *name, int descriptor) {
    int (*sync_file)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

    wait_while_slow();
    return sync_file(descriptor);
}

int fsync(int descriptor) {
    return sync_with("fsync", descriptor);
}

int fdatasync(int descriptor) {
    return sync_with("fdatasync", descriptor);
}
