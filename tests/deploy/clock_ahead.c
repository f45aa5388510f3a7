/* Preloaded into a node: while the file that CLOCK_AHEAD names is there, the machine's clock is 5 s ahead. The file that
   CLOCK_QUALITY names has what adjtimex() returns and its maxerror; while it is not there, the call is forbidden. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
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

int adjtimex(struct timex *told) {
    int (*real)(struct timex *) = (int (*)(struct timex *))dlsym(RTLD_NEXT, "adjtimex");
    const char *path = getenv("CLOCK_QUALITY");
    FILE *file;
    int state, count = 0;

    if (path == NULL) {
        return real(told);
    }
    memset(told, 0, sizeof(*told));
    if ((file = fopen(path, "r")) != NULL) {
        count = fscanf(file, "%d %ld", &state, &told->maxerror);
        fclose(file);
    }
    if (count != 2) {
        errno = EPERM;
        return -1;
    }
    told->status = state == TIME_ERROR ? STA_UNSYNC : 0;
    return state;
}
