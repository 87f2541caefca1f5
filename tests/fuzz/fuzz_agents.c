/*
 * Messages of launchers on other nodes: the parser, which reads
 * again what it has read, and the coordinator that receives several of them.
 * The first byte chooses; for the coordinator each line is a message, and its
 * first letter who says it.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* Its functions that handle_message. */
#include "launch/coordinator.c"

static void read_again(const lsi_agent_message *message)
{
    char *text;
    size_t bytes;
    lsi_agent_message again;
    fuzz_demand(lsi_agent_message_write(message, &text, &bytes) == LS_OK);
    fuzz_demand(lsi_agent_message_read(text, bytes, &again) == LS_OK);
    fuzz_demand(again.word == message->word && again.node == message->node &&
                again.local == message->local &&
                again.verdict == message->verdict &&
                strcmp(again.text, message->text) == 0 &&
                strcmp(again.host, message->host) == 0 &&
                strcmp(again.cpus, message->cpus) == 0 &&
                again.threads == message->threads);
    free(text);
}

static void check(const lsi_coordinator *c)
{
    fuzz_demand(c->n <= c->terms.nodes->most);
    for (int i = 0; i < c->n; i++) {
        for (int k = 0; k < i; k++)
            fuzz_demand(c->members[i].peer != c->members[k].peer);
    }
    fuzz_demand(c->restart <= c->terms.limits->max_restarts);
}

static void coordinate(fuzz_input *in)
{
    const lsi_launch_nodes nodes = {.endpoint = "127.0.0.1:1",
                                    .least = 2,
                                    .most = 3,
                                    .monitor_interval = 0.1,
                                    .join_seconds = 1e6};
    const lsi_launch_limits limits = {.max_restarts = 2};
    const lsi_endpoint here = {"127.0.0.1", 0};
    lsi_store_refusal why;
    lsi_coordinator *const c = calloc(1, sizeof(*c));
    fuzz_demand(c != NULL);
    const lsi_store_owner owner = {c, handle_message, gone};
    c->terms = (lsi_job_terms){&nodes, &limits, NULL};
    strcpy(c->own, "own");
    fuzz_demand(lsi_store_serve(&here, NULL, 5, &owner, &c->server, &why) ==
                LS_OK);
    begin_meeting(c);
    while (in->size > 0) {
        char *const line = fuzz_line(in);
        const size_t length = strlen(line);
        const int peer = length > 0 ? line[0] & 7 : 0;
        if (length > 1)
            handle_message(c, peer, line + 1, length - 1);
        else
            gone(c, peer, "it is gone");
        check(c);
        free(line);
    }
    lsi_coordinator_step(c);
    lsi_coordinator_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    lsi_agent_message message;
    if (fuzz_byte(&in) % 2 != 0)
        coordinate(&in);
    else if (fuzz_ok(lsi_agent_message_read(in.data, in.size, &message)))
        read_again(&message);
    return 0;
}
