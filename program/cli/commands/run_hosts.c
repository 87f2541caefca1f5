#include "cli/commands/run_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *read_count(const char *text, int *out)
{
    char *end;
    const long value = strtol(text, &end, 10);
    const bool good = end != text && *text >= '0' && *text <= '9' &&
                      value >= 1 && value <= LSI_LAUNCH_MAX_NODES;
    *out = good ? (int)value : 0;
    return end;
}

static ls_status read_nodes(const char *text, lsi_run_hosts *out)
{
    const char *rest = read_count(text, &out->nodes.least);
    out->nodes.most = out->nodes.least;
    if (*rest == ':')
        rest = read_count(rest + 1, &out->nodes.most);
    if (*rest != '\0' || out->nodes.least == 0 ||
        out->nodes.most < out->nodes.least)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--nnodes '%s' is not valid; give a number of hosts "
                        "from 1 to %d, or MIN:MAX",
                        text, LSI_LAUNCH_MAX_NODES);
    out->several = out->nodes.most > 1;
    return LS_OK;
}

/* "join_timeout=60,last_call_timeout=5" */
static ls_status read_conf(const char *text, lsi_launch_nodes *out)
{
    const struct {
        const char *name;
        double *to;
    } keys[] = {{"join_timeout=", &out->join_seconds},
                {"last_call_timeout=", &out->last_call_seconds}};
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        bool found = false;
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            const size_t name = strlen(keys[i].name);
            char *end;
            if (strncmp(text, keys[i].name, name) != 0)
                continue;
            *keys[i].to = strtod(text + name, &end);
            found = end == text + length && length > name && *keys[i].to >= 0 &&
                    *keys[i].to <= 1e9;
        }
        if (!found)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "--rdzv-conf '%.*s' is not supported; use "
                            "join_timeout=SECONDS or last_call_timeout=SECONDS",
                            (int)length, text);
        text += length;
        text += *text == ',';
    }
    return LS_OK;
}

/* --rdzv-endpoint, or torchrun's older --master-addr and --master-port. */
static ls_status read_meeting_point(lsi_run_hosts_flags *a, lsi_run_hosts *out)
{
    enum { USUAL_PORT = 29400 };
    lsi_endpoint parsed;
    char text[LSI_ENDPOINT_BYTES];
    if (a->endpoint == NULL && a->master_port == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--nnodes %s needs --rdzv-endpoint HOST:PORT, the "
                        "address of one of the hosts",
                        a->nodes);
    if (a->endpoint == NULL) {
        snprintf(text, sizeof(text), "%.250s:%lld", a->master_address,
                 (long long)a->master_port);
        a->master_port = 0;
    } else
        snprintf(text, sizeof(text), "%.290s", a->endpoint);
    if (lsi_endpoint_parse(text, &parsed) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "--rdzv-endpoint: %s",
                        ls_last_error());
    if (parsed.port == 0)
        parsed.port = USUAL_PORT;
    lsi_endpoint_print(&parsed, out->endpoint);
    out->nodes.endpoint = out->endpoint;
    return LS_OK;
}

ls_status lsi_run_hosts_read(lsi_run_hosts_flags *a, lsi_run_hosts *out)
{
    lsi_launch_nodes *const nodes = &out->nodes;
    const bool is_static =
        a->backend != NULL && strcmp(a->backend, "static") == 0;
    *out = (lsi_run_hosts){.nodes = {.node = (int)a->node_rank,
                                     .monitor_interval = a->monitor_interval,
                                     .join_seconds = 600,
                                     .last_call_seconds = 30}};
    LS_TRY(read_nodes(a->nodes, out));
    if (a->conf != NULL)
        LS_TRY(read_conf(a->conf, nodes));
    if (!out->several)
        return LS_OK;
    if (a->standalone)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--standalone means one host, but --nnodes is %s; "
                        "leave --standalone or --nnodes out",
                        a->nodes);
    if (nodes->node >= nodes->most)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--node-rank %d is out of range: with --nnodes %s it "
                        "must be 0 to %d",
                        nodes->node, a->nodes, nodes->most - 1);
    if (is_static && nodes->node < 0)
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "--rdzv-backend static needs a --node-rank on each host, 0 to %d",
            nodes->most - 1);
    return read_meeting_point(a, out);
}
