/*
 * The flags of `lockstep run` that say on which hosts a job runs.
 */
#ifndef LS_CLI_COMMANDS_RUN_HOSTS_H
#define LS_CLI_COMMANDS_RUN_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/rendezvous/endpoint.h"
#include "launch/launch.h"

typedef struct lsi_run_hosts_flags {
    const char *nodes;    /* --nnodes: "2", "2:4" */
    const char *endpoint; /* --rdzv-endpoint, or NULL */
    const char *backend;  /* --rdzv-backend, or NULL */
    const char *conf;     /* --rdzv-conf, or NULL */
    const char *master_address;
    int64_t master_port; /* 0: none; taken, if it is part of the endpoint */
    int64_t node_rank;   /* -1: none */
    double monitor_interval;
    bool standalone;
} lsi_run_hosts_flags;

typedef struct lsi_run_hosts {
    lsi_launch_nodes nodes; /* for the launcher, if there are several */
    bool several;
    char endpoint[LSI_ENDPOINT_BYTES]; /* that of `nodes` */
} lsi_run_hosts;

/*
 * The message of LS_ERR_ARGUMENT names the wrong flag and a right value. The
 * caller must not move `out`.
 */
ls_status lsi_run_hosts_read(lsi_run_hosts_flags *a, lsi_run_hosts *out);

#endif
