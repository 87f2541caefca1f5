/*
 * Serves the store at which ranks meet, as `lockstep run` does: store ENDPOINT.
 * Says "ready", and ends when it is killed.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/rendezvous/server.h"

static void take(void *context, int peer, const void *data, size_t bytes)
{
    (void)context, (void)peer, (void)data, (void)bytes;
}

static void miss(void *context, int peer, const char *why)
{
    (void)context, (void)peer, (void)why;
}

int main(int argc, char **argv)
{
    const lsi_store_owner owner = {.message = take, .gone = miss};
    lsi_endpoint endpoint;
    lsi_store_server *server = NULL;
    lsi_store_refusal why;
    if (argc != 2)
        return 2;
    if (lsi_endpoint_parse(argv[1], &endpoint) != LS_OK ||
        lsi_store_serve(&endpoint, getenv("LOCKSTEP_SECRET"), 60, &owner,
                        &server, &why) != LS_OK) {
        fprintf(stderr, "store: %s\n", ls_last_error());
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd ready = {.fd = lsi_store_server_fd(server),
                               .events = POLLIN};
        (void)poll(&ready, 1, -1);
        lsi_store_server_step(server);
    }
}
