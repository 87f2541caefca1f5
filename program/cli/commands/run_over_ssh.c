#include "cli/commands/run_over_ssh.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/launch.h"
#include "launch/ssh.h"

/* Variables that hosts get without being asked for; docs/how-to/clusters.md. */
static const char *const passed[] = {
    "PATH",     "LD_LIBRARY_PATH", "VIRTUAL_ENV", "LANG",       "LC_*",
    "TZ",       "NO_COLOR",        "PYTHON*",     "LOCKSTEP_*", "OMP_*",
    "GOMP_*",   "KMP_*",           "MKL_*",       "OPENBLAS_*", "DNNL_*",
    "ONEDNN_*", "UCX_*",           "GLOO_*",      "NCCL_*",     "TORCH_*",
};

/* Of these, the variables that describe another job, or only this host. */
static const char *const kept[] = {
    "LOCKSTEP_JOB",    "LOCKSTEP_RUN",         "LOCKSTEP_RESTART",
    "LOCKSTEP_SECRET", "LOCKSTEP_SECRET_FILE", "LOCKSTEP_RENDEZVOUS",
    "LOCKSTEP_HOSTS",  "LOCKSTEP_HOSTID",      "LOCKSTEP_SSH",
};

typedef struct words {
    char **flags;     /* for the hosts; of `call` */
    char **variables; /* NAME=VALUE, of environ or `call` */
    size_t n_flags, n_variables;
    const char *ranks, *endpoint, *grace;
} words;

static bool matches(const char *entry, const char *const *names, size_t n)
{
    char name[256];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "="), entry);
    for (size_t i = 0; i < n; i++) {
        if (fnmatch(names[i], name, 0) == 0)
            return true;
    }
    return false;
}

static void add_usual_variables(words *w)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        if (matches(*entry, passed, sizeof(passed) / sizeof(passed[0])) &&
            !matches(*entry, kept, sizeof(kept) / sizeof(kept[0])))
            w->variables[w->n_variables++] = *entry;
    }
}

/* NAME=VALUE, or NAME of a variable that is set here. */
static ls_status add_variable(words *w, char *text)
{
    if (strchr(text, '=') == NULL) {
        const size_t length = strlen(text);
        char **entry = environ;
        while (*entry != NULL &&
               (strncmp(*entry, text, length) != 0 || (*entry)[length] != '='))
            entry++;
        if (*entry == NULL)
            return lsi_fail(LS_ERR_ARGUMENT,
                            "-x %s: this variable is not set on this host; "
                            "give its value with -x %s=VALUE",
                            text, text);
        text = *entry;
    }
    w->variables[w->n_variables++] = text;
    return LS_OK;
}

static const lsi_option *row_of(const char *word, const lsi_option *rows,
                                size_t n)
{
    const size_t length = word[1] == '-' ? strcspn(word + 2, "=") : 0;
    for (size_t i = 0; i < n; i++) {
        if (word[1] == '-' ? strlen(rows[i].name) == length &&
                                 strncmp(rows[i].name, word + 2, length) == 0
                           : rows[i].letter != 0 && rows[i].letter == word[1])
            return &rows[i];
    }
    return NULL;
}

/* The value of a flag: in the word itself, or the next one. */
static char *value_of(char *word, char *next, bool *takes_next)
{
    char *const equals = word[1] == '-' ? strchr(word, '=') : NULL;
    *takes_next = equals == NULL && (word[1] == '-' || word[2] == '\0');
    if (equals != NULL)
        return equals + 1;
    return *takes_next ? next : word + 2;
}

/* Whether the flag is for this process; notes its value. */
static ls_status parse_flag(words *w, const lsi_option *row, char *value,
                            bool *own)
{
    const struct {
        const char *name;
        const char **to;
    } ours[] = {{"ranks", &w->ranks},
                {"nproc-per-node", &w->ranks},
                {"rdzv-endpoint", &w->endpoint},
                {"hosts", NULL},
                {"ssh", NULL}};
    *own = true;
    if (strcmp(row->name, "nnodes") == 0 || strcmp(row->name, "node-rank") == 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "--hosts sets the hosts; leave --%s out", row->name);
    if (strcmp(row->name, "export") == 0)
        return add_variable(w, value);
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (strcmp(row->name, ours[i].name) != 0)
            continue;
        if (ours[i].to != NULL)
            *ours[i].to = value;
        return LS_OK;
    }
    *own = false;
    if (strcmp(row->name, "grace") == 0)
        w->grace = value;
    return LS_OK;
}

static ls_status sort_words(words *w, const lsi_invocation *call, int rest,
                            const lsi_option *rows, size_t n_rows)
{
    for (int i = 1; i < rest && strcmp(call->argv[i], "--") != 0; i++) {
        char *const word = call->argv[i];
        const lsi_option *const row = row_of(word, rows, n_rows);
        bool takes_next = false, own = false;
        if (row != NULL && !lsi_option_stands_alone(row)) {
            char *const value = value_of(word, call->argv[i + 1], &takes_next);
            LS_TRY(parse_flag(w, row, value, &own));
        }
        if (!own)
            w->flags[w->n_flags++] = word;
        if (takes_next && !own)
            w->flags[w->n_flags++] = call->argv[i + 1];
        i += takes_next;
    }
    return LS_OK;
}

static ls_status read_ranks(const char *text, int *out)
{
    char *end;
    const long value = text != NULL ? strtol(text, &end, 10) : 1;
    if (text != NULL && (end == text || *end != '\0' || value < 1 ||
                         value > LSI_LAUNCH_MAX_RANKS))
        return lsi_fail(
            LS_ERR_ARGUMENT,
            "-n %s: with --hosts, give a number from 1 to %d. It sets the "
            "number of ranks for each host of the list without a number",
            text, LSI_LAUNCH_MAX_RANKS);
    *out = (int)value;
    return LS_OK;
}

static ls_status launch_over_ssh(const lsi_over_ssh_flags *flags, words *w,
                                 char *const *program, int *exit_status)
{
    const char *const variable = getenv("LOCKSTEP_SSH");
    const char *const agent =
        variable != NULL && *variable != '\0' ? variable : NULL;
    lsi_ssh_config config = {
        .agent = flags->agent != NULL ? flags->agent : agent,
        .endpoint = w->endpoint,
        .flags = w->flags,
        .program = program,
        .variables = w->variables,
        .grace = w->grace != NULL ? strtod(w->grace, NULL) : 3,
    };
    int ranks;
    LS_TRY(read_ranks(w->ranks, &ranks));
    if (lsi_ssh_hosts_read(flags->hosts, ranks, &config.hosts) != LS_OK)
        return lsi_fail(LS_ERR_ARGUMENT, "--hosts: %s", ls_last_error());
    const ls_status status = lsi_ssh_launch(&config, exit_status);
    free(config.hosts.hosts);
    return status;
}

int lsi_run_over_ssh(const lsi_over_ssh_flags *flags,
                     const lsi_invocation *call, int rest,
                     const lsi_option *rows, size_t n_rows)
{
    size_t inherited = 0;
    int exit_status = 1;
    while (environ[inherited] != NULL)
        inherited++;
    words w = {.flags = calloc((size_t)call->argc + 1, sizeof(char *)),
               .variables =
                   calloc(inherited + (size_t)call->argc + 1, sizeof(char *))};
    ls_status status = LS_OK;
    if (w.flags == NULL || w.variables == NULL)
        status =
            lsi_fail(LS_ERR_MEMORY, "not enough memory for the command line");
    if (status == LS_OK) {
        add_usual_variables(&w);
        status = sort_words(&w, call, rest, rows, n_rows);
    }
    if (status == LS_OK)
        status = launch_over_ssh(flags, &w, call->argv + rest, &exit_status);
    free(w.flags);
    free(w.variables);
    if (status == LS_ERR_ARGUMENT)
        return lsi_cli_usage("%s", ls_last_error());
    return status == LS_OK ? exit_status : lsi_cli_error();
}
