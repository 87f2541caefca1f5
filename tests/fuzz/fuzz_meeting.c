/* The cards that ranks of other machines send in the rendezvous, one per rank.
 */
#include <string.h>

#include "fuzz.h"

#include "comm/bootstrap/nodes.c" /* its functions that read cards */

enum { RANKS = 6 };

static fuzz_input messages;

/* The others' cards are what the input says; ours is ours. */
static ls_status gather_cards(void *context, const void *send, size_t bytes,
                              void *recv, double seconds)
{
    (void)context, (void)seconds;
    for (size_t r = 0; r < RANKS * bytes; r++)
        ((uint8_t *)recv)[r] = fuzz_byte(&messages);
    memcpy((uint8_t *)recv + bytes, send, bytes);
    return fuzz_byte(&messages) == 7 ? lsi_fail(LS_ERR_TIMEOUT, "late") : LS_OK;
}

static const lsi_reach reach = {.gather = gather_cards};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const lsi_world world = {.rank = 1, .size = RANKS, .local_size = 1};
    const card own = {.place = 1, .job = 2, .id = 3};
    card cards[RANKS];
    outcome outcomes[RANKS];
    int places[RANKS];
    messages = (fuzz_input){data, size};
    if (fuzz_ok(reach.gather(NULL, &own, sizeof(own), cards, 1))) {
        const lsi_world local = local_world(&world, cards);
        fuzz_demand(local.size >= 1 && local.size <= RANKS);
        fuzz_demand(local.rank >= 0 && local.rank < local.size);
        number_places(&world, cards, places);
        for (int r = 0; r < RANKS; r++)
            fuzz_demand(places[r] >= 0 && places[r] <= r);
        fuzz_demand(strlen(address_of_another(&world, cards)) < 64);
    }
    fuzz_ok(agree(&reach, &world, (outcome){.status = LS_OK}, 1, outcomes));
    size_t most = 0;
    if (fuzz_ok(find_longest(&world, outcomes, &most)))
        fuzz_demand(most > 0 && most <= MOST_ADDRESS_BYTES);
    return 0;
}
