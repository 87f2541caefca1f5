#include "cli/commands/audit_flags.h"

#include <stdio.h>

#include "array/compute/threads.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/commands/keep_flags.h"
#include "comm/api/internode_swap.h"
#include "lockstep/version.h"

lsi_audit_run lsi_cli_audit_of(const lsi_invocation *call,
                               const lsi_audit_flags *flags)
{
    return (lsi_audit_run){
        .file = flags->file, .every = flags->every, .check = call->check};
}

/* Flags that change neither a bit nor the way to train again. */
static void drop_outputs(json_t *flags)
{
    static const char *const names[] = {
        "output-dir",  "save",    "no-save",       "quiet",       "markdown",
        "metrics",     "trace",   "tensorboard",   "trace-steps", "save-every",
        "keep",        "audit",   "record-memory", "prometheus",  "log-every",
        "audit-every", "threads", "ranks"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)json_object_del(flags, names[i]);
}

ls_status lsi_cli_audit_describe(const lsi_invocation *call, const void *used,
                                 const char *optimizer, const ls_group *group,
                                 lsi_audit_run *audit)
{
    lsi_isa isa = lsi_cpu_isa();
    if (audit->file == NULL || ls_group_rank(group) != 0)
        return LS_OK;
    LS_TRY(lsi_isa_from_env(&isa));
    json_t *const flags = lsi_cli_used_flags(call, used, optimizer);
    drop_outputs(flags);
    audit->run =
        json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:o}", "command",
                  call->argv[0], "ranks", ls_group_size(group), "nodes",
                  lsi_node_count(group), "threads", lsi_threads(), "isa",
                  lsi_isa_name(isa), "cpu", lsi_cpu_model(), "flags", flags);
    return audit->run != NULL
               ? LS_OK
               : lsi_fail(LS_ERR_MEMORY, "not enough memory for an audit");
}

void lsi_cli_print_audit(const lsi_audit_run *audit, bool is_first)
{
    if (is_first && audit->final[0] != '\0')
        printf("audit: '%s', final digest %s\n",
               lsi_printable_of(audit->file).text, audit->final);
}
