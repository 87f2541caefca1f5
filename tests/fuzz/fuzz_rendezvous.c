/*
 * Packets from strangers at the meeting of ranks, to rank 0 and from one that
 * claims to be it. The first byte says who listens and whether descriptors come
 * along; then packets: a byte that says how long, and the bytes.
 */
#include <string.h>
#include <sys/socket.h>

#include "fuzz.h"

/* Their functions that hear. */
#include "comm/bootstrap/rendezvous.c"
#include "comm/bootstrap/rendezvous_server.c"

enum { RANKS = 4, PACKETS = 6 };

static const lsi_world world = {.rank = 0, .size = RANKS, .local_size = RANKS};
static const lsi_world client = {.rank = 1, .size = RANKS, .local_size = RANKS};

/* A length, and whether what the parser looks at first is right. */
static bool send_packet(int fd, fuzz_input *in, bool descriptor)
{
    uint8_t packet[512];
    const uint64_t magic = LSI_RENDEZVOUS_MAGIC;
    static const size_t lengths[] = {sizeof(lsi_hello), sizeof(lsi_answer)};
    const uint8_t form = fuzz_byte(in);
    const size_t length = form < 128 ? lengths[form % 2] : form;
    const size_t have = in->size < length ? in->size : length;
    if (in->size == 0)
        return false;
    memset(packet, 0, sizeof(packet));
    memcpy(packet, in->data, have);
    if (form & 2)
        memcpy(packet, &magic, sizeof(magic));
    in->data += have;
    in->size -= have;
    fuzz_demand(lsi_send_packet(fd, packet, length, descriptor ? fd : -1) == 0);
    return true;
}

/* The sum of the three lowest numbers that are free. */
static int free_descriptors(void)
{
    const int a = dup(0), b = dup(0), c = dup(0);
    close(a);
    close(b);
    close(c);
    return a + b + c;
}

/* ---- rank 0 -------------------------------------------------------------- */

static void be_host(fuzz_input *in, bool descriptor)
{
    server_state server = {.world = &world,
                           .deadline = lsi_deadline_in(10),
                           .listener = -1,
                           .arrived = 1,
                           .memfd = -1};
    int pairs[PACKETS][2], n = 0;
    ls_status status = LS_OK;
    for (int r = 0; r < RANKS; r++)
        server.clients[r] = -1;
    for (; n < PACKETS; n++) {
        fuzz_demand(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
                               pairs[n]) == 0);
        server.strangers[server.n_strangers++] = pairs[n][1];
        const bool sent = send_packet(pairs[n][0], in, descriptor);
        send_packet(pairs[n][0], in, false); /* that the group is open */
        shutdown(pairs[n][0], SHUT_WR);
        if (fuzz_ok(status))
            status = greet(&server, server.n_strangers - 1);
        if (!sent) {
            n++;
            break;
        }
    }
    fuzz_demand(server.arrived >= 1 && server.arrived <= RANKS);
    if (fuzz_ok(status) && server.arrived == RANKS)
        status = await_ready(&server);
    fuzz_ok(status);
    send_answers(&server, status, -1);
    clean_up(&server);
    for (int i = 0; i < n; i++)
        close(pairs[i][0]);
}

/* ---- another rank -------------------------------------------------------- */

static void be_client(fuzz_input *in, bool descriptor)
{
    int pair[2];
    int memfd = -1;
    fuzz_demand(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ==
                0);
    send_packet(pair[0], in, descriptor);
    shutdown(pair[0], SHUT_WR);
    fuzz_ok(send_hello(&client, pair[1], LS_OK));
    if (fuzz_ok(
            receive_memory(&client, pair[1], lsi_deadline_in(10), &memfd))) {
        fuzz_demand(memfd >= 0); /* or there is nothing to share */
        close(memfd);
    }
    close(pair[0]);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int before = free_descriptors();
    const uint8_t form = fuzz_byte(&in);
    if (form % 2 == 0)
        be_host(&in, form & 2);
    else
        be_client(&in, form & 2);
    fuzz_demand(free_descriptors() == before);
    return 0;
}
