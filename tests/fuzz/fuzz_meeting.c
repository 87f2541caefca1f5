/* What ranks of other machines tell when they meet by MPI: a card of each. */
#include <string.h>

#include "fuzz.h"

#include "comm/bootstrap/by_mpi.c" /* its functions that read cards */

enum { RANKS = 6 };

static fuzz_input messages;

/* The others' cards are what the input says; ours is ours. */
static int gather_cards(const void *send, size_t bytes, void *recv,
                        double seconds)
{
    (void)seconds;
    for (size_t r = 0; r < RANKS * bytes; r++)
        ((uint8_t *)recv)[r] = fuzz_byte(&messages);
    memcpy((uint8_t *)recv + bytes, send, bytes);
    return fuzz_byte(&messages) == 7 ? LSI_WIRE_LATE : 0;
}

static const char *say_error(void)
{
    return "an error";
}

static const lsi_wire wire = {.version = LSI_WIRE_VERSION,
                              .library = "fuzz",
                              .highest_tag = 1 << 15,
                              .gather = gather_cards,
                              .error = say_error};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const lsi_world world = {.rank = 1, .size = RANKS, .local_size = 1};
    const card own = {.place = 1, .job = 2, .id = 3};
    card cards[RANKS];
    int places[RANKS];
    messages = (fuzz_input){data, size};
    if (fuzz_ok(gather(&wire, &own, 1, cards))) {
        const lsi_world local = local_world(&world, cards);
        fuzz_demand(local.size >= 1 && local.size <= RANKS);
        fuzz_demand(local.rank >= 0 && local.rank < local.size);
        number_places(&world, cards, places);
        for (int r = 0; r < RANKS; r++)
            fuzz_demand(places[r] >= 0 && places[r] <= r);
    }
    fuzz_ok(agree(&wire, &world, LS_OK, 1, cards));
    return 0;
}
