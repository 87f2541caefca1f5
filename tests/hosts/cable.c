/*
 * Cables with a delay, for kernels without netem:
 *
 *   cable MICROSECONDS LOST SWITCH-PID HOST-PID...
 *
 * makes a device eth0 in the network of each host and a device to-h0, to-h1,
 * ... in that of the switch, and prints "ready". It carries what is sent into
 * one out of the other, so much later. Frames are passed on as they are, large
 * ones (offloaded to the "hardware") in one piece. Of a million LOST are lost,
 * by chance; if any are, they are small ones, as on a real cable.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HOSTS = 16, QUEUE = 128, FRAME = 66000 };

/* One direction: what has been read from one device for another. */
typedef struct lane {
    int from, to;
    unsigned first, count;
    struct {
        int64_t due;
        size_t size;
        char bytes[FRAME];
    } frame[QUEUE];
} lane;

static lane lanes[2 * MOST_HOSTS];
static uint32_t lost_of_million;

static void die(const char *what)
{
    fprintf(stderr, "cable: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* xorshift (Marsaglia): the same frames each time. */
static bool is_lost(void)
{
    static uint32_t x = 2463534242U;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x % 1000000 < lost_of_million;
}

static int device(const char *pid, const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%s/ns/net", pid);
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        die(path);
    close(space);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    const unsigned large = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0 ||
        ioctl(fd, TUNSETOFFLOAD, lost_of_million > 0 ? 0 : large) != 0)
        die(name);
    return fd;
}

static void read_frames(lane *l, int64_t delay)
{
    while (l->count < QUEUE) {
        const unsigned at = (l->first + l->count) % QUEUE;
        const ssize_t got = read(l->from, l->frame[at].bytes, FRAME);
        if (got <= 0)
            return;
        if (is_lost())
            continue;
        l->frame[at].due = now() + delay;
        l->frame[at].size = (size_t)got;
        l->count++;
    }
}

/* A device that is down takes nothing: then frames are lost, as on a cable. */
static void write_frames(lane *l)
{
    while (l->count > 0 && l->frame[l->first].due <= now()) {
        const ssize_t put =
            write(l->to, l->frame[l->first].bytes, l->frame[l->first].size);
        (void)put;
        l->first = (l->first + 1) % QUEUE;
        l->count--;
    }
}

static void wait_for(struct pollfd *polls, int n)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < n; i++) {
        lane *l = &lanes[i];
        /* -1 makes poll skip it. */
        polls[i] = (struct pollfd){l->count < QUEUE ? l->from : -1, POLLIN, 0};
        if (l->count > 0 && l->frame[l->first].due < due)
            due = l->frame[l->first].due;
    }
    int64_t left = due - now();
    left = left < 0 ? 0 : left;
    const struct timespec timeout = {left / 1000000000, left % 1000000000};
    ppoll(polls, (nfds_t)n, due == INT64_MAX ? NULL : &timeout, NULL);
}

int main(int argc, char **argv)
{
    const int hosts = argc - 4;
    if (hosts < 1 || hosts > MOST_HOSTS)
        return 2;
    const int64_t delay = atoll(argv[1]) * 1000;
    lost_of_million = (uint32_t)atol(argv[2]);
    for (int i = 0; i < hosts; i++) {
        char name[16];
        snprintf(name, sizeof(name), "to-h%d", i);
        lane *there = &lanes[2 * i], *back = &lanes[2 * i + 1];
        there->from = back->to = device(argv[4 + i], "eth0");
        there->to = back->from = device(argv[3], name);
    }
    /* To be on time matters more than anything that it carries. */
    const struct sched_param urgent = {.sched_priority = 60};
    sched_setscheduler(0, SCHED_FIFO, &urgent);
    prctl(PR_SET_TIMERSLACK, 1000);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd polls[2 * MOST_HOSTS];
        wait_for(polls, 2 * hosts);
        for (int i = 0; i < 2 * hosts; i++) {
            read_frames(&lanes[i], delay);
            write_frames(&lanes[i]);
        }
    }
}
