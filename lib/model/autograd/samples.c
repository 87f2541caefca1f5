/* Which samples the rows of a tape are; see lockstep/autograd.h. */
#include <inttypes.h>

#include "base/error.h"
#include "base/structs.h"
#include "model/autograd/node.h"
#include "model/autograd/params.h"

static ls_status check(const ls_tape_samples *s)
{
    if (s->count < 0 || s->place < 0 || s->place >= s->places)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "ls_tape_set_samples: count is %" PRId64
                        ", place is %d and places is %d; count must be at "
                        "least 0, and place from 0 to places - 1",
                        s->count, s->place, s->places);
    if (s->slices >= 1 && s->slices <= LSI_MAX_SLICES)
        return LS_OK;
    return lsi_fail(LS_ERR_ARGUMENT,
                    "ls_tape_set_samples: slices is %d; it must be from 1 to "
                    "%d",
                    s->slices, LSI_MAX_SLICES);
}

ls_status ls_tape_set_samples(ls_tape *tape, const ls_tape_samples *samples)
{
    ls_tape_samples own;
    LS_NEED(tape);
    if (samples == NULL) {
        tape->samples = (ls_tape_samples){0};
        return LS_OK;
    }
    LS_TRY(LSI_STRUCT_READ(&own, samples, ls_tape_samples, slices));
    own.places = own.places != 0 ? own.places : 1;
    own.slices = own.slices != 0 ? own.slices : 1;
    LS_TRY(check(&own));
    own.struct_size = sizeof own;
    tape->samples = own;
    return LS_OK;
}

/* The first slices have one sample more where they do not divide the count. */
int64_t ls_tape_sample(const ls_tape_samples *samples, int64_t position)
{
    const ls_tape_samples *const s = samples;
    if (s == NULL || position < 0 || position >= s->count)
        return -1;
    const int64_t slices = s->slices > 0 ? s->slices : 1;
    const int64_t each = s->count / slices;
    const int64_t larger = s->count % slices * (each + 1);
    const bool in_larger = position < larger;
    const int64_t at = in_larger ? position : position - larger;
    const int64_t size = in_larger ? each + 1 : each;
    const int64_t slice = at / size + (in_larger ? 0 : s->count % slices);
    return s->place +
           (s->places > 0 ? s->places : 1) * (slice + at % size * slices);
}

static ls_status fail_rows(const ls_tape *tape, const ls_function *function,
                           int64_t rows)
{
    return lsi_fail(LS_ERR_SHAPE,
                    "%s: the first dimension has %" PRId64
                    " rows; it must be a multiple of the %" PRId64
                    " samples of ls_tape_set_samples",
                    function->name, rows, tape->samples.count);
}

bool lsi_rows_of_samples(ls_tape *tape, const ls_function *function,
                         int64_t rows, size_t *each)
{
    const int64_t n = tape->samples.count;
    *each = n > 0 ? (size_t)(rows / n) : 0;
    if ((int64_t)*each * n == rows)
        return true;
    lsi_tape_stop(tape, fail_rows(tape, function, rows));
    return false;
}

bool lsi_slicing_of(ls_tape *tape, const ls_function *function,
                    const ls_tensor *param, int64_t rows, lsi_slicing *out)
{
    const bool sliced = param != NULL && param->param != NULL &&
                        (tape->training || lsi_tape_knows_samples(tape));
    *out =
        (lsi_slicing){.samples = (size_t)rows,
                      .each = 1,
                      .slices = sliced ? param->param->set->storage.slices : 1};
    if (!sliced || !lsi_tape_knows_samples(tape) || out->slices == 1)
        return true;
    if (tape->samples.slices != out->slices)
        return ls_tape_fail(tape, LS_ERR_ARGUMENT,
                            "%s: ls_tape_set_samples has %d slices, but "
                            "ls_params_set_slices of '%s' has %d; the two must "
                            "be equal",
                            function->name, tape->samples.slices,
                            param->param->name, out->slices) != NULL;
    out->samples = (size_t)tape->samples.count;
    return lsi_rows_of_samples(tape, function, rows, &out->each);
}

/* ---- losses -------------------------------------------------------------- */

static double fold(const double *numbers, int n, int first, int stride)
{
    return first + stride >= n
               ? numbers[first]
               : fold(numbers, n, first, 2 * stride) +
                     fold(numbers, n, first + stride, 2 * stride);
}

double lsi_slices_fold(const double *numbers, int slices)
{
    return fold(numbers, slices, 0, 1);
}

ls_status lsi_tape_add_loss(const ls_tape *tape, const ls_tensor *loss,
                            double weight, double *sums)
{
    double mean;
    if (loss != NULL && loss == tape->loss) {
        for (int j = 0; j < tape->samples.slices; j++)
            sums[j] += tape->loss_sums[j];
        return LS_OK;
    }
    LS_TRY(ls_tensor_item(loss, &mean));
    sums[0] += mean * weight;
    return LS_OK;
}
