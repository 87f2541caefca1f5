/*
 * The hosts of a job over ssh while it runs: ssh.c starts and ends them,
 * ssh_lines.c reads their output.
 */
#ifndef LS_LAUNCH_SSH_STATE_H
#define LS_LAUNCH_SSH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/output.h"
#include "launch/ssh.h"

enum { LSI_SSH_LINE = 8192 };

typedef struct lsi_ssh_line {
    int fd; /* -1: at its end */
    size_t used;
    char text[LSI_SSH_LINE];
} lsi_ssh_line;

/*
 * Counts of the most recent lines: the launchers of all hosts report a failure
 * in the same words, which are shown once.
 */
typedef struct lsi_ssh_line_counts {
    struct {
        uint64_t hash;
        unsigned times;
    } lines[32];
    size_t next;
} lsi_ssh_line_counts;

typedef struct lsi_ssh_node {
    const char *name;
    lsi_ssh_line_counts own;    /* lines of this host */
    lsi_ssh_line_counts *shown; /* lines shown so far, of all hosts */
    int ranks;
    pid_t pid;    /* agent on this machine; 0: it has ended */
    int in;       /* its standard input; -1: closed */
    int status;   /* after its end, as from waitpid */
    bool greeted; /* the host has this version of lockstep */
    bool refused; /* the problem was reported */
    int port;     /* a free port on the host */
    char address[64];
    lsi_ssh_line lines[2]; /* of stdout and stderr */
    char last[256]; /* last stderr line before the greeting, without \n */
} lsi_ssh_node;

/* Whether output has room for more from a host. */
bool lsi_ssh_can_read(const lsi_output *output, int stream);

/*
 * Reads available data from a stream of a host and passes on complete lines.
 * Lines before the greeting are kept from the console. At the end the remainder
 * is passed on.
 */
void lsi_ssh_read_lines(lsi_ssh_node *node, const lsi_output *output,
                        int stream);

/*
 * Waits until all output is written. A stalled reader may take any time, until
 * a signal asks for the end: from then on `seconds`.
 */
void lsi_ssh_write_rest(const lsi_output *output, int signals, double seconds);

#endif
