/*
 * The hosts of a job over ssh while it runs: ssh.c starts and ends them,
 * ssh_lines.c reads what they write.
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
 * How often each of the last lines has been said: the launchers of all hosts
 * report a failure in the same words, which are shown once.
 */
typedef struct lsi_ssh_said {
    struct {
        uint64_t hash;
        unsigned times;
    } lines[32];
    size_t next;
} lsi_ssh_said;

typedef struct lsi_ssh_node {
    const char *name;
    lsi_ssh_said said;
    lsi_ssh_said *shown; /* of all hosts */
    int ranks;
    pid_t pid;    /* of the agent here; 0: it has ended */
    int in;       /* its standard input; -1: closed */
    int status;   /* once it has ended, as from waitpid */
    bool greeted; /* a lockstep of this version is there */
    bool refused; /* what is wrong has been said */
    int port;     /* one that is free on the host */
    char address[64];
    lsi_ssh_line lines[2]; /* of stdout and stderr */
    char last[256]; /* line of its stderr before the greeting, without \n */
} lsi_ssh_node;

/* Whether there is room for what a host writes. */
bool lsi_ssh_can_read(const lsi_output *output, int stream);

/*
 * Reads what has come on a stream of a host and passes on the lines that are
 * complete; before the greeting they are kept from the console. At the end it
 * passes on the rest.
 */
void lsi_ssh_read_lines(lsi_ssh_node *node, const lsi_output *output,
                        int stream);

/*
 * Waits until all output is written. A reader that stands still may take as
 * long as it likes, until a signal asks for the end: then so many seconds.
 */
void lsi_ssh_write_rest(const lsi_output *output, int signals, double seconds);

#endif
