/* Datagrams and synced writes by plain system calls and by io_uring, by turns: docs/design/PERFORMANCE-NOTES.md, io_uring.
 *
 * usage: rings FILE ROUNDS COUNT
 *
 * A line for each case, way and round: case, way, ns of wall time, ns of processor time, system calls, each of one
 * round trip, datagram or write. The other end of a round trip always uses plain calls.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LENGTH = 128, BATCH = 16, ENTRIES = 64, WRITE_LENGTH = 4096 };

static long calls;

static void check(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "rings: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static int64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* The ring: entries are filled in order, and submitted by the call that waits. */
static struct {
    int fd;
    unsigned *sq_tail, *sq_array, *cq_head, *cq_tail, sq_mask, cq_mask, filled;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} ring;

static void open_ring(void)
{
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    char *queues;
    ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    check(ring.fd >= 0, "io_uring is not to be had here");
    check(params.features & IORING_FEAT_SINGLE_MMAP, "this kernel's io_uring is too old");
    size_t sq_length = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq_length = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    queues = mmap(NULL, sq_length > cq_length ? sq_length : cq_length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                  ring.fd, IORING_OFF_SQ_RING);
    check(queues != MAP_FAILED, "mmap");
    ring.sqes = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
    check(ring.sqes != MAP_FAILED, "mmap");
    ring.sq_tail = (unsigned *)(queues + params.sq_off.tail);
    ring.sq_mask = *(unsigned *)(queues + params.sq_off.ring_mask);
    ring.sq_array = (unsigned *)(queues + params.sq_off.array);
    ring.cq_head = (unsigned *)(queues + params.cq_off.head);
    ring.cq_tail = (unsigned *)(queues + params.cq_off.tail);
    ring.cq_mask = *(unsigned *)(queues + params.cq_off.ring_mask);
    ring.cqes = (struct io_uring_cqe *)(queues + params.cq_off.cqes);
}

static struct io_uring_sqe *fill(int opcode, int fd, void *data, unsigned length)
{
    unsigned tail = *ring.sq_tail, index = tail & ring.sq_mask;
    struct io_uring_sqe *sqe = &ring.sqes[index];
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = (uint8_t)opcode;
    sqe->fd = fd;
    sqe->addr = (uint64_t)(uintptr_t)data;
    sqe->len = length;
    ring.sq_array[index] = index;
    __atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring.filled++;
    return sqe;
}

/* Submits what is filled and takes this many completions. */
static void complete(unsigned count)
{
    unsigned head = *ring.cq_head, until = head + count;
    while (ring.filled > 0 || (int)(until - __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) > 0) {
        unsigned missing = until - __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
        calls++;
        int taken = (int)syscall(SYS_io_uring_enter, ring.fd, ring.filled, missing, IORING_ENTER_GETEVENTS, NULL, 0);
        check(taken >= 0 || errno == EINTR, "io_uring_enter");
        if (taken > 0)
            ring.filled -= (unsigned)taken;
    }
    for (; head != until; head++)
        if (ring.cqes[head & ring.cq_mask].res < 0) {
            errno = -ring.cqes[head & ring.cq_mask].res;
            check(0, "a request of the ring");
        }
    __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
}

/* Sockets: `near` is measured; another process sends back what comes to `far`. */
static int near, far, poll_fd;
static char data[BATCH][LENGTH];

static int open_socket(struct sockaddr_in *name)
{
    socklen_t length = sizeof(*name);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(fd >= 0 && bind(fd, (struct sockaddr *)name, sizeof(*name)) == 0, "socket");
    getsockname(fd, (struct sockaddr *)name, &length);
    return fd;
}

static void open_sockets(void)
{
    struct sockaddr_in near_name, far_name;
    struct epoll_event event = {.events = EPOLLIN};
    near = open_socket(&near_name);
    far = open_socket(&far_name);
    check(connect(near, (struct sockaddr *)&far_name, sizeof(far_name)) == 0, "connect");
    check(connect(far, (struct sockaddr *)&near_name, sizeof(near_name)) == 0, "connect");
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    check(epoll_ctl(poll_fd, EPOLL_CTL_ADD, near, &event) == 0, "epoll");
}

static pid_t start_echo(void)
{
    pid_t parent = getpid(), pid = fork();
    check(pid >= 0, "fork");
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (char packet[LENGTH]; getppid() == parent;) {
        ssize_t length = recv(far, packet, sizeof(packet), 0);
        if (length > 0)
            send(far, packet, (size_t)length, 0);
    }
    _exit(0);
}

static void trip_plain(void)
{
    struct epoll_event event;
    struct timespec patience = {.tv_sec = 5};
    calls += 3;
    check(send(near, data[0], LENGTH, 0) == LENGTH, "send");
    check(syscall(SYS_epoll_pwait2, poll_fd, &event, 1, &patience, NULL, 0) == 1, "no answer");
    check(recv(near, data[0], LENGTH, MSG_DONTWAIT) == LENGTH, "recv");
}

static void trip_ring(void)
{
    fill(IORING_OP_SEND, near, data[0], LENGTH);
    fill(IORING_OP_RECV, near, data[0], LENGTH);
    complete(2);
}

static void batch_plain(void)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    memset(messages, 0, sizeof(messages));
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){data[i], LENGTH};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    calls += 2;
    check(sendmmsg(near, messages, BATCH, 0) == BATCH, "sendmmsg");
    check(recvmmsg(far, messages, BATCH, MSG_DONTWAIT, NULL) == BATCH, "recvmmsg");
}

static void batch_ring(void)
{
    for (int i = 0; i < BATCH; i++)
        fill(IORING_OP_SEND, near, data[i], LENGTH);
    for (int i = 0; i < BATCH; i++)
        fill(IORING_OP_RECV, far, data[i], LENGTH);
    complete(2 * BATCH);
}

static int file;
static char block[WRITE_LENGTH];
static off_t write_offset;

static void write_plain(void)
{
    calls += 2;
    check(pwrite(file, block, WRITE_LENGTH, write_offset) == WRITE_LENGTH, "pwrite");
    check(fdatasync(file) == 0, "fdatasync");
    write_offset += WRITE_LENGTH;
}

static void write_ring(void)
{
    struct io_uring_sqe *sqe = fill(IORING_OP_WRITE, file, block, WRITE_LENGTH);
    sqe->off = (uint64_t)write_offset;
    sqe->flags = IOSQE_IO_LINK;
    fill(IORING_OP_FSYNC, file, NULL, 0)->fsync_flags = IORING_FSYNC_DATASYNC;
    complete(2);
    write_offset += WRITE_LENGTH;
}

static void measure(const char *name, const char *way, void (*turn)(void), long count, int parts)
{
    for (long i = 0; i < count / 10; i++)
        turn();
    calls = 0;
    int64_t wall = now_ns(CLOCK_MONOTONIC), spent = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (long i = 0; i < count; i++)
        turn();
    spent = now_ns(CLOCK_PROCESS_CPUTIME_ID) - spent;
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    double each = (double)count * parts;
    printf("%s\t%s\t%.0f\t%.0f\t%.2f\n", name, way, (double)wall / each, (double)spent / each, (double)calls / each);
}

int main(int argc, char **argv)
{
    check(argc == 4, "usage: rings FILE ROUNDS COUNT");
    long rounds = atol(argv[2]), count = atol(argv[3]);
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(file >= 0, argv[1]);
    open_ring();
    open_sockets();
    pid_t echo = 0;
    for (long round = 0; round < rounds; round++) {
        measure("datagrams", "plain", batch_plain, count / 4 + 1, 2 * BATCH);
        measure("datagrams", "io_uring", batch_ring, count / 4 + 1, 2 * BATCH);
    }
    echo = start_echo();
    for (long round = 0; round < rounds; round++) {
        measure("round trip", "plain", trip_plain, count, 1);
        measure("round trip", "io_uring", trip_ring, count, 1);
        measure("synced write", "plain", write_plain, count / 20 + 1, 1);
        measure("synced write", "io_uring", write_ring, count / 20 + 1, 1);
    }
    kill(echo, SIGKILL);
    return 0;
}
