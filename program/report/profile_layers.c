#include "report/profile_layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "report/profile_steps.h"

/* ---- counting ------------------------------------------------------------ */

ls_status lsi_profile_layers_begin(lsi_profile_layers *layers,
                                   const lsi_timeline_process *process)
{
    layers->ids = LSI_PASSES * (process->n_names + 1);
    layers->known = calloc(layers->ids, sizeof(int32_t));
    return layers->known != NULL ? LS_OK : lsi_profile_no_memory();
}

void lsi_profile_layers_end(lsi_profile_layers *layers)
{
    free(layers->known);
    layers->known = NULL;
}

static bool is_same(const lsi_profile_layer *a, const lsi_profile_layer *b)
{
    return a->pass == b->pass && strcmp(a->name, b->name) == 0 &&
           strcmp(a->kernel, b->kernel) == 0;
}

/* The index of a layer's product in the profile's list; -1: no memory. */
static int32_t index_of(lsi_profile_layers *layers, lsi_profile *p,
                        const lsi_profile_layer *layer)
{
    for (size_t i = 0; i < p->n_layers; i++)
        if (is_same(&p->layer[i], layer))
            return (int32_t)i;
    if (!lsi_grow_array(&p->layer, p->n_layers, &layers->room,
                        sizeof(*p->layer)))
        return -1;
    p->layer[p->n_layers] = *layer;
    return (int32_t)p->n_layers++;
}

/* Ids of other versions may mean something else: these kernels have no layer.
 */
static bool read_id(const lsi_profile_layers *layers,
                    const lsi_timeline_process *process,
                    const lsi_timeline_span *s, lsi_profile_layer *out)
{
    if (s->id < LSI_PASSES || s->id >= layers->ids ||
        s->id % LSI_PASSES > LSI_PASS_WEIGHT)
        return false;
    out->name = process->names[s->id / LSI_PASSES - 1];
    out->pass = (lsi_layer_pass)(s->id % LSI_PASSES);
    return out->name != NULL;
}

ls_status lsi_profile_count_layer(lsi_profile_layers *layers,
                                  lsi_profile *profile,
                                  const lsi_timeline_process *process,
                                  const lsi_timeline_span *span,
                                  const char *kernel)
{
    lsi_profile_layer layer = {.kernel = kernel};
    if (!lsi_profile_is_product(kernel) ||
        !read_id(layers, process, span, &layer))
        return LS_OK;
    int32_t at = layers->known[span->id] - 1;
    if (at < 0 || strcmp(profile->layer[at].kernel, kernel) != 0)
        at = index_of(layers, profile, &layer);
    if (at < 0)
        return lsi_profile_no_memory();
    layers->known[span->id] = at + 1;
    lsi_profile_add(&profile->layer[at].sum, span);
    return LS_OK;
}

/* ---- rates --------------------------------------------------------------- */

double lsi_profile_of_product_rate(const lsi_profile_layer *layer,
                                   const lsi_profile_peaks *peaks)
{
    const double rate = lsi_profile_product_rate(layer->kernel, peaks);
    return rate > 0 && layer->sum.ns > 0
               ? (double)layer->sum.work / (double)layer->sum.ns * 1e9 / rate
               : 0;
}

static int by_gain(const void *a, const void *b)
{
    const lsi_profile_layer *const x = a, *const y = b;
    if (x->gain != y->gain)
        return x->gain < y->gain ? 1 : -1;
    return (x->sum.ns < y->sum.ns) - (x->sum.ns > y->sum.ns);
}

void lsi_profile_sort_layers(lsi_profile *profile,
                             const lsi_profile_peaks *peaks)
{
    for (size_t i = 0; i < profile->n_layers; i++) {
        lsi_profile_layer *const layer = &profile->layer[i];
        const double share = lsi_profile_of_product_rate(layer, peaks);
        layer->gain =
            share > 0 && share < 1 ? (1 - share) * (double)layer->sum.ns : 0;
    }
    if (profile->n_layers > 0)
        qsort(profile->layer, profile->n_layers, sizeof(*profile->layer),
              by_gain);
}
