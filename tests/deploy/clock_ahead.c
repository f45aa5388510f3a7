/* Preloaded into a node: while the file that CLOCK_AHEAD names is there, the machine's clock is 5 s ahead. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLOCK_AHEAD");
    int result = real(clock, now);

    if (clock == CLOCK_REALTIME && path != NULL && access(path, F_OK) == 0) {
        now->tv_sec += 5;
    }
    return result;
}
