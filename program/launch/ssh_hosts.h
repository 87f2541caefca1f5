/*
 * The hosts of a job that is started over ssh, and the ranks on each.
 */
#ifndef LS_LAUNCH_SSH_HOSTS_H
#define LS_LAUNCH_SSH_HOSTS_H

#include "lockstep/status.h"

enum { LSI_SSH_MAX_HOSTS = 1024 };

typedef struct lsi_ssh_host {
    char name[256]; /* in the syntax of ssh: "h0", "user@h0" */
    int ranks;
} lsi_ssh_host;

typedef struct lsi_ssh_hosts {
    lsi_ssh_host *hosts; /* freed by the caller with free() */
    int n;
} lsi_ssh_hosts;

/*
 * "a:2,b:2,c"; or, if the text is the name of a file, its lines "name slots=2"
 * (or "name:2", or "name"; # begins a comment). A host without a number has
 * `ranks`. Errors name the entry or the line.
 */
ls_status lsi_ssh_hosts_read(const char *text, int ranks, lsi_ssh_hosts *out);

#endif
