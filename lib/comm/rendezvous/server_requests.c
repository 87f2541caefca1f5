/*
 * The requests of connected peers.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/suspending_clock.h"
#include "comm/rendezvous/server_state.h"

void lsi_store_peer_break(lsi_store_peer *p, const char *why)
{
    p->state = LSI_PEER_BROKEN;
    snprintf(p->why, sizeof(p->why), "%.*s", (int)sizeof(p->why) - 1, why);
}

/* A refused peer is sent the reason, and has a moment to read it. */
static void set_ending(lsi_store_peer *p)
{
    if (p->state == LSI_PEER_BROKEN)
        return;
    p->state = LSI_PEER_ENDING;
    p->is_owners = false;
    p->until = lsi_suspending_clock_seconds() + LSI_STRANGER_SECONDS;
    if (lsi_link_queued(&p->link) == 0)
        (void)shutdown(p->link.fd, SHUT_WR);
}

void lsi_store_peer_refuse(lsi_store_peer *p, const char *why)
{
    if (lsi_link_send(&p->link, LSI_FRAME_REFUSED, "", why, strlen(why)) !=
        LS_OK)
        lsi_store_peer_break(p, why);
    set_ending(p);
}

/* ---- requests --------------------------------------------------------- */

static void reply(lsi_store_peer *p, lsi_frame_kind kind, const void *data,
                  size_t bytes)
{
    if (lsi_link_send(&p->link, kind, "", data, bytes) != LS_OK)
        lsi_store_peer_break(p, ls_last_error());
}

static void set_value(lsi_store_server *s, lsi_store_peer *from,
                      const lsi_frame *frame)
{
    if (lsi_store_values_set(&s->values, frame->key, frame->data,
                             frame->bytes) != LS_OK) {
        lsi_store_peer_refuse(from, ls_last_error());
        return;
    }
    reply(from, LSI_FRAME_DONE, NULL, 0);
    const lsi_store_value *value = lsi_store_values_get(&s->values, frame->key);
    for (int i = 0; i < s->n_peers && value != NULL; i++) {
        lsi_store_peer *const p = s->peers[i];
        if (p == NULL || p->state != LSI_PEER_WAITING ||
            strcmp(p->key, frame->key) != 0)
            continue;
        p->state = LSI_PEER_OPEN;
        p->until = 0;
        p->is_answered = s->has_answered = true;
        reply(p, LSI_FRAME_VALUE, value->data, value->bytes);
        lsi_store_peer_watch(s, i);
    }
}

static void get_value(lsi_store_server *s, lsi_store_peer *p,
                      const lsi_frame *frame)
{
    if (frame->bytes != sizeof(uint64_t)) {
        lsi_store_peer_break(p, "received a malformed request");
        return;
    }
    const lsi_store_value *value = lsi_store_values_get(&s->values, frame->key);
    const double ms = (double)lsi_frame_get_number(frame->data);
    if (value != NULL) {
        reply(p, LSI_FRAME_VALUE, value->data, value->bytes);
        return;
    }
    assert(p->state == LSI_PEER_OPEN);
    p->state = LSI_PEER_WAITING;
    p->until = ms > 0 ? lsi_suspending_clock_seconds() + ms / 1e3 : 0;
    memcpy(p->key, frame->key, sizeof(p->key));
}

static void handle_frame(lsi_store_server *s, int number,
                         const lsi_frame *frame)
{
    lsi_store_peer *const p = s->peers[number];
    if (p->state == LSI_PEER_STRANGER) {
        if (lsi_handshake_handle(&p->shake, &p->link, frame) != LS_OK) {
            set_ending(p);
            return;
        }
        if (!p->shake.is_done)
            return;
        p->state = LSI_PEER_OPEN;
        p->until = 0;
    } else if (frame->kind == LSI_FRAME_SET) {
        set_value(s, p, frame);
    } else if (frame->kind == LSI_FRAME_GET) {
        get_value(s, p, frame);
    } else if (frame->kind == LSI_FRAME_MESSAGE && s->owner.message != NULL) {
        p->is_owners = s->owner.gone != NULL;
        s->owner.message(s->owner.context, number, frame->data, frame->bytes);
    } else {
        lsi_store_peer_break(p, "received an unexpected frame");
    }
}

void lsi_store_peer_handle(lsi_store_server *s, int number)
{
    lsi_frame frame;
    bool got = true;
    while (got) {
        lsi_store_peer *const p = s->peers[number];
        if (p->state == LSI_PEER_BROKEN || p->state == LSI_PEER_WAITING ||
            p->state == LSI_PEER_ENDING ||
            lsi_link_queued(&p->link) >= LSI_PEER_FULL_BYTES)
            return;
        if (lsi_link_next(&p->link, &frame, &got) != LS_OK) {
            const char *why = ls_last_error();
            if (p->state == LSI_PEER_STRANGER)
                lsi_store_peer_refuse(p, why);
            else
                lsi_store_peer_break(p, why);
            return;
        }
        if (got)
            handle_frame(s, number, &frame);
    }
}

/*
 * Serves answered peers later, not where they are answered: each may answer the
 * next, without end.
 */
void lsi_store_serve_answered(lsi_store_server *s)
{
    while (s->has_answered) {
        s->has_answered = false;
        for (int i = 0; i < s->n_peers; i++) {
            if (s->peers[i] == NULL || !s->peers[i]->is_answered)
                continue;
            s->peers[i]->is_answered = false;
            lsi_store_peer_handle(s, i);
            lsi_store_peer_watch(s, i);
        }
    }
}

void lsi_store_peer_late(lsi_store_server *server, int number)
{
    lsi_store_peer *const p = server->peers[number];
    assert(p->state == LSI_PEER_WAITING);
    p->state = LSI_PEER_OPEN;
    p->until = 0;
    reply(p, LSI_FRAME_LATE, NULL, 0);
    lsi_store_peer_handle(server, number);
    lsi_store_peer_watch(server, number);
}
