/*
 * The standard input of a host of `lockstep run --hosts`, after a
 * first byte 0; else a list of hosts.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "launch/launch.h"
#include "launch/ssh_hosts.h"
#include "launch/ssh_message.h"

static void read_messages(const char *data, size_t bytes)
{
    lsi_ssh_message m;
    while (fuzz_ok(lsi_ssh_message_read(data, bytes, &m)) && m.used > 0) {
        fuzz_demand(m.used <= bytes && m.text >= data &&
                    m.text + m.bytes < data + m.used);
        data += m.used;
        bytes -= m.used;
    }
}

static void read_hosts(const char *text)
{
    lsi_ssh_hosts hosts;
    if (strchr(text, '/') != NULL || strlen(text) > 4096 ||
        !fuzz_ok(lsi_ssh_hosts_read(text, 1, &hosts)))
        return;
    fuzz_demand(hosts.n >= 1 && hosts.n <= LSI_SSH_MAX_HOSTS);
    for (int i = 0; i < hosts.n; i++)
        fuzz_demand(hosts.hosts[i].ranks >= 1 &&
                    hosts.hosts[i].ranks <= LSI_LAUNCH_MAX_RANKS &&
                    hosts.hosts[i].name[0] != '\0' &&
                    hosts.hosts[i].name[0] != '-');
    free(hosts.hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    if (fuzz_byte(&in) == 0) {
        read_messages((const char *)in.data, in.size);
        return 0;
    }
    char *text = fuzz_rest(&in);
    read_hosts(text);
    free(text);
    return 0;
}
