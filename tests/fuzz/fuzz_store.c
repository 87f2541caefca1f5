/*
 * Bytes at the endpoint of a job. The first byte says what reads them: the
 * server from a stranger, the server from somebody that it knows, who may also
 * wait for keys; a client in the handshake; the parsers of endpoints and of
 * lists of interfaces. Bytes come in pieces: one that says how long, and the
 * piece.
 */
#include <string.h>
#include <sys/socket.h>

#include "fuzz.h"

/* Its functions that hear. */
#include "comm/rendezvous/server.c"

#include "comm/rendezvous/interface.h"

static void hear(void *context, int number, const void *data, size_t bytes)
{
    lsi_store_server *const s = *(lsi_store_server **)context;
    fuzz_demand(bytes <= LSI_STORE_VALUE_BYTES);
    if (bytes > 0 && *(const unsigned char *)data == 'x')
        lsi_store_server_refuse(s, number, "not wanted");
    else
        lsi_store_server_send(s, number, data, bytes);
}

static void miss(void *context, int number, const char *why)
{
    (void)context;
    fuzz_demand(number >= 0 && why[0] != '\0');
}

static lsi_store_server *serve(lsi_store_server **context)
{
    const lsi_endpoint here = {"127.0.0.1", 0};
    const lsi_store_owner owner = {context, hear, miss};
    lsi_store_refusal why;
    fuzz_demand(lsi_store_serve(&here, "a secret that is long", 5, &owner,
                                context, &why) == LS_OK);
    return *context;
}

static void push(int fd, fuzz_input *in)
{
    const size_t wanted = fuzz_byte(in);
    const size_t n = wanted < in->size ? wanted : in->size;
    const ssize_t sent = send(fd, in->data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        in->size = 0;
    else {
        in->data += n;
        in->size -= n;
    }
}

static void be_server(fuzz_input *in, bool known)
{
    static lsi_store_server *context;
    int pairs[2][2];
    lsi_store_server *const s = serve(&context);
    for (int i = 0; i < 2; i++) {
        fuzz_demand(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) == 0);
        welcome(s, pairs[i][1]);
        fuzz_demand(s->peers[i] != NULL);
        if (known) {
            s->peers[i]->state = LSI_PEER_OPEN;
            s->peers[i]->until = 0;
            s->peers[i]->link.most = LSI_STORE_VALUE_BYTES;
        }
    }
    for (int i = 0; in->size > 0; i ^= 1) {
        push(pairs[i][0], in);
        lsi_store_server_step(s);
    }
    for (int i = 0; i < 2; i++)
        close(pairs[i][0]);
    lsi_store_server_step(s);
    lsi_store_server_step(s);
    for (int i = 0; i < s->n_peers; i++)
        fuzz_demand(s->peers[i] == NULL);
    lsi_store_server_close(s);
}

static void be_client(fuzz_input *in)
{
    int pair[2];
    bool got = true;
    ls_status status = LS_OK;
    lsi_link link;
    lsi_handshake shake;
    lsi_frame frame;
    fuzz_demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    lsi_link_open(&link, pair[1], 5);
    fuzz_demand(lsi_handshake_begin(&shake, false, "a secret that is long",
                                    &link) == LS_OK);
    while (in->size > 0 && status == LS_OK) {
        push(pair[0], in);
        status = lsi_link_receive(&link);
        got = true;
        while (got && status == LS_OK) {
            status = lsi_link_next(&link, &frame, &got);
            if (status == LS_OK && got)
                status = lsi_handshake_handle(&shake, &link, &frame);
        }
    }
    fuzz_ok(status);
    fuzz_demand(!shake.is_done); /* nobody guesses the proof */
    lsi_link_close(&link);
    close(pair[0]);
}

static void read_text(fuzz_input *in)
{
    lsi_endpoint e;
    char printed[LSI_ENDPOINT_BYTES];
    char *text = fuzz_line(in);
    char *list = fuzz_rest(in);
    if (fuzz_ok(lsi_endpoint_parse(text, &e))) {
        lsi_endpoint_print(&e, printed);
        lsi_endpoint again;
        fuzz_demand(e.port >= 0 && e.port <= 65535);
        if (e.port > 0) {
            fuzz_demand(lsi_endpoint_parse(printed, &again) == LS_OK);
            fuzz_demand(strcmp(again.host, e.host) == 0);
        }
    }
    (void)lsi_interface_matches(list, text);
    free(text);
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const uint8_t form = fuzz_byte(&in);
    if (form % 4 < 2)
        be_server(&in, form % 4 == 1);
    else if (form % 4 == 2)
        be_client(&in);
    else
        read_text(&in);
    return 0;
}
