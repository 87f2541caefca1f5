#include "plan/communication.h"

#include <math.h>

#include "base/error.h"

/*
 * Bytes of f32 weight, gradient and two AdamW moments; of a factor of a
 * product.
 */
enum { STATE_BYTES = 16, HALF_BYTES = 2 };

lsi_communication_plan lsi_communication_defaults(void)
{
    return (lsi_communication_plan){
        .d_model = 16384,
        .d_ff = 53248,
        .blocks = 126,
        .device_bytes = 80e9,
        .sharded_bytes = 95e9,
        .flops = 4.6e14,
        .link_bytes = 1.8e11,
        .data_ranks = 16,
        .tensor_ranks = 4,
        .data_links = 2,
        .tensor_links = 1,
    };
}

static ls_status check(const lsi_communication_plan *p)
{
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"d_model", p->d_model},
        {"d_ff", p->d_ff},
        {"blocks", p->blocks},
        {"device memory", p->device_bytes},
        {"memory", p->sharded_bytes},
        {"FLOP/s", p->flops},
        {"link bandwidth", p->link_bytes},
        {"data ranks", p->data_ranks},
        {"tensor ranks", p->tensor_ranks},
        {"data links", p->data_links},
        {"tensor links", p->tensor_links},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (!(all[i].value > 0))
            return lsi_fail(
                LS_ERR_ARGUMENT,
                "cannot plan: the value of %s is %g; it must be above 0",
                all[i].name, all[i].value);
    return LS_OK;
}

static void given(const lsi_communication_plan *p, lsi_facts *out)
{
    lsi_facts_whole(out, "", "d_model", p->d_model, "", "given: d");
    lsi_facts_whole(out, "", "d_ff", p->d_ff, "", "given: F");
    lsi_facts_whole(out, "", "blocks", p->blocks, "", "given: L");
    lsi_facts_real(out, "", "device_flops", p->flops, "FLOP/s", "given: C");
    lsi_facts_real(out, "", "link_bytes_per_second", p->link_bytes, "B/s",
                   "given: W");
    lsi_facts_whole(out, "", "data_ranks", p->data_ranks, "", "given: X");
    lsi_facts_whole(out, "", "tensor_ranks", p->tensor_ranks, "", "given: Y");
    lsi_facts_whole(out, "", "data_links", p->data_links, "", "given: M_X");
    lsi_facts_whole(out, "", "tensor_links", p->tensor_links, "", "given: M_Y");
}

static double saved_bytes(const lsi_communication_plan *p)
{
    return p->blocks * (p->d_model + p->d_ff) * HALF_BYTES;
}

/* a: the complete state on one device. */
static void one_copy(const lsi_communication_plan *p, lsi_facts *out)
{
    const double parameters = p->blocks * 2 * p->d_model * p->d_ff;
    const double state = parameters * STATE_BYTES;
    const double saved = saved_bytes(p);
    const double devices = (state + saved * p->tokens) / p->device_bytes;
    lsi_facts_whole(out, "a", "parameters", parameters, "", "P = 2 L d F");
    lsi_facts_whole(out, "a", "state_bytes", state, "B",
                    "16 P: weight, gradient, two moments");
    lsi_facts_real(out, "a", "state_gb", state / 1e9, "GB", "16 P / 10^9");
    lsi_facts_real(out, "a", "state_gib", state / 0x1p30, "GiB", "16 P / 2^30");
    lsi_facts_whole(out, "a", "saved_bytes_per_token", saved, "B",
                    "2 L (d + F)");
    lsi_facts_whole(out, "a", "tokens", p->tokens, "",
                    "given: T; A = 2 L T (d + F)");
    lsi_facts_real(out, "a", "device_memory_gb", p->device_bytes / 1e9, "GB",
                   "given");
    lsi_facts_real(out, "a", "devices_exact", devices, "",
                   "(16 P + T 2 L (d + F)) / memory");
    lsi_facts_whole(out, "a", "devices", ceil(devices), "", "rounded up");
}

/* b: state and half of the activations divided among all devices. */
static void divided(const lsi_communication_plan *p, lsi_facts *out)
{
    const double state = lsi_facts_get(out, "state_bytes");
    const double saved = saved_bytes(p) * p->tokens;
    const double room = p->sharded_bytes - saved / 2;
    const double devices = (state + saved / 2) / room;
    lsi_facts_real(out, "b", "sharded_memory_gb", p->sharded_bytes / 1e9, "GB",
                   "given");
    if (room <= 0)
        return; /* half of the activations do not fit, even on many devices */
    lsi_facts_real(out, "b", "sharded_devices_exact", devices, "",
                   "N in 16 P/N + A/2 + A/(2N) = memory");
    /* More than that many: a whole number of devices would leave no room. */
    lsi_facts_whole(out, "b", "sharded_devices", floor(devices) + 1, "",
                    "next whole number above N");
}

/*
 * c: computation bounds a step if, for a layer and B tokens in all, 4 B d F /
 * (X Y C) exceeds two communication times:
 * - 4 d F / (Y W M_X), the weights of FSDP
 * - 4 B d / (X W M_Y), the activations of tensor parallelism
 */
static void bound(const lsi_communication_plan *p, lsi_facts *out)
{
    const double ranks = p->data_ranks * p->tensor_ranks;
    const double alpha = p->flops / p->link_bytes;
    const double per_data_rank = alpha / p->data_links;
    const double tokens = per_data_rank * p->data_ranks;
    const double tensor = p->d_ff / p->tensor_ranks;
    const double tensor_part = alpha / p->tensor_links / tensor;
    lsi_facts_real(out, "c", "alpha", alpha, "FLOP/B", "C / W");
    lsi_facts_real(out, "c", "fsdp_tokens_per_data_rank", per_data_rank, "",
                   "B/X > alpha / M_X");
    lsi_facts_real(out, "c", "tokens_per_device", tokens / ranks, "",
                   "B/(XY) > alpha / (M_X Y)");
    lsi_facts_real(out, "c", "tokens_overall", tokens, "", "B > X alpha / M_X");
    lsi_facts_real(out, "c", "tensor_width", tensor, "", "F / Y");
    lsi_facts_whole(out, "c", "tensor_holds", tensor_part < 1, "",
                    "1 if F/Y > alpha / M_Y");
    /* The case that the two kinds of traffic cannot overlap. */
    if (tensor_part < 1) {
        const double serial = tokens / (1 - tensor_part);
        lsi_facts_real(out, "c", "tokens_per_device_serial", serial / ranks, "",
                       "tokens_overall_serial / (X Y)");
        lsi_facts_real(out, "c", "tokens_overall_serial", serial, "",
                       "X alpha/M_X / (1 - alpha Y/(M_Y F))");
    }
    lsi_facts_real(out, "d", "tokens_at_best_split",
                   alpha * alpha / (p->data_links * p->tensor_links * p->d_ff),
                   "", "alpha^2 / (M_X M_Y F)");
}

ls_status lsi_communication_account(const lsi_communication_plan *plan,
                                    lsi_facts *out)
{
    LS_TRY(check(plan));
    out->n = 0;
    given(plan, out);
    one_copy(plan, out);
    divided(plan, out);
    bound(plan, out);
    return LS_OK;
}
