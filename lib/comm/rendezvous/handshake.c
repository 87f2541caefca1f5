#include "comm/rendezvous/handshake.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "comm/rendezvous/endpoint.h"
#include "comm/rendezvous/same_user.h"
#include "comm/rendezvous/secret.h"

static void prove(const lsi_handshake *shake, const char *side,
                  unsigned char out[LSI_HMAC_BYTES])
{
    const lsi_hmac_piece pieces[] = {
        {side, strlen(side) + 1},
        {shake->client, sizeof(shake->client)},
        {shake->server, sizeof(shake->server)},
    };
    memset(out, 0, LSI_HMAC_BYTES);
    if (shake->secret != NULL)
        lsi_hmac(shake->secret, pieces, sizeof(pieces) / sizeof(pieces[0]),
                 out);
}

static bool proves(const lsi_handshake *shake, const char *side,
                   const unsigned char proof[LSI_HMAC_BYTES])
{
    unsigned char right[LSI_HMAC_BYTES];
    prove(shake, side, right);
    return shake->secret == NULL || lsi_hmac_equal(right, proof);
}

static ls_status draw(unsigned char out[LSI_HMAC_BYTES])
{
    if (getrandom(out, LSI_HMAC_BYTES, 0) != LSI_HMAC_BYTES)
        return lsi_fail_errno(LS_ERR_SYSTEM,
                              "cannot get random numbers for the rendezvous");
    return LS_OK;
}

/* A refusal: sent to the client, and an error here. */
static ls_status refuse(lsi_link *link, const char *why)
{
    (void)lsi_link_send(link, LSI_FRAME_REFUSED, "", why, strlen(why));
    return lsi_fail(LS_ERR_MISMATCH, "%s", why);
}

static ls_status refuse_error(lsi_link *link)
{
    char why[LSI_FRAME_REFUSAL_BYTES + 1];
    snprintf(why, sizeof(why), "%s", ls_last_error());
    return refuse(link, why);
}

/* ---- the server's side ------------------------------------------------ */

static ls_status challenge(lsi_handshake *shake, lsi_link *link,
                           const lsi_frame *frame)
{
    unsigned char data[1 + LSI_HMAC_BYTES];
    if (shake->secret == NULL && !lsi_socket_is_loopback(link->fd))
        return refuse(link,
                      "the endpoint has no secret and accepts connections from "
                      "its own machine only: " LSI_SECRET_HOW);
    if (shake->secret == NULL && lsi_same_user_check(link->fd) != LS_OK)
        return refuse_error(link);
    memcpy(shake->client, frame->data, LSI_HMAC_BYTES);
    LS_TRY(draw(shake->server));
    data[0] = shake->secret != NULL;
    memcpy(data + 1, shake->server, LSI_HMAC_BYTES);
    return lsi_link_send(link, LSI_FRAME_CHALLENGE, "", data, sizeof(data));
}

static ls_status judge(lsi_handshake *shake, lsi_link *link,
                       const lsi_frame *frame)
{
    unsigned char proof[LSI_HMAC_BYTES];
    if (!proves(shake, "client", frame->data))
        return refuse(
            link,
            "authentication failed: the secrets differ. Set the same secret on "
            "all hosts (LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE)");
    prove(shake, "server", proof);
    shake->is_done = true;
    link->most = LSI_STORE_VALUE_BYTES;
    return lsi_link_send(link, LSI_FRAME_WELCOME, "", proof, sizeof(proof));
}

/* ---- the client's side ------------------------------------------------ */

static ls_status answer(lsi_handshake *shake, lsi_link *link,
                        const lsi_frame *frame)
{
    unsigned char proof[LSI_HMAC_BYTES];
    const bool wants_secret = frame->data[0] != 0;
    if (wants_secret && shake->secret == NULL)
        return lsi_fail(LS_ERR_MISMATCH,
                        "the endpoint asks for a secret: " LSI_SECRET_HOW);
    if (!wants_secret && shake->secret != NULL)
        return lsi_fail(LS_ERR_MISMATCH,
                        "this process has a secret, but the endpoint does not. "
                        "Set the same secret on all hosts (LOCKSTEP_SECRET or "
                        "LOCKSTEP_SECRET_FILE)");
    if (!wants_secret)
        LS_TRY(lsi_same_user_check(link->fd));
    memcpy(shake->server, frame->data + 1, LSI_HMAC_BYTES);
    prove(shake, "client", proof);
    return lsi_link_send(link, LSI_FRAME_PROOF, "", proof, sizeof(proof));
}

static ls_status be_welcome(lsi_handshake *shake, lsi_link *link,
                            const lsi_frame *frame)
{
    if (!proves(shake, "server", frame->data))
        return lsi_fail(LS_ERR_MISMATCH,
                        "authentication failed: the endpoint does not know the "
                        "secret of this host. Set the same secret on all hosts "
                        "(LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE)");
    shake->is_done = true;
    link->most = LSI_STORE_VALUE_BYTES;
    return LS_OK;
}

/* ---- both ------------------------------------------------------------- */

typedef struct row {
    lsi_frame_kind kind;
    size_t bytes;
    ls_status (*handle)(lsi_handshake *, lsi_link *, const lsi_frame *);
} row;

ls_status lsi_handshake_begin(lsi_handshake *shake, bool is_server,
                              const char *secret, lsi_link *link)
{
    *shake = (lsi_handshake){.is_server = is_server, .secret = secret};
    if (is_server)
        return LS_OK;
    LS_TRY(draw(shake->client));
    return lsi_link_send(link, LSI_FRAME_HELLO, "", shake->client,
                         LSI_HMAC_BYTES);
}

ls_status lsi_handshake_handle(lsi_handshake *shake, lsi_link *link,
                               const lsi_frame *frame)
{
    static const row rows[2][2] = {
        {{LSI_FRAME_CHALLENGE, 1 + LSI_HMAC_BYTES, answer},
         {LSI_FRAME_WELCOME, LSI_HMAC_BYTES, be_welcome}},
        {{LSI_FRAME_HELLO, LSI_HMAC_BYTES, challenge},
         {LSI_FRAME_PROOF, LSI_HMAC_BYTES, judge}},
    };
    char why[LSI_FRAME_REFUSAL_BYTES + 1];
    if (frame->kind == LSI_FRAME_REFUSED && !shake->is_server) {
        lsi_frame_refusal(frame, why);
        return lsi_fail(LS_ERR_MISMATCH, "%s", why);
    }
    const row *const next = &rows[shake->is_server][shake->step];
    if (shake->is_done || frame->kind != next->kind ||
        frame->bytes != next->bytes)
        return lsi_fail(
            LS_ERR_FORMAT,
            "the received data does not follow Lockstep's protocol");
    shake->step++;
    assert(shake->step <= 2);
    return next->handle(shake, link, frame);
}
