#include "comm/rendezvous/same_user.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/rendezvous/secret.h"

enum { ADDRESS_CHARACTERS = 4 * 8 + 5 };

/* "0100007F:1F90", as a table of that family has it; v4 in v6 if wanted. */
static void write_address(const struct sockaddr_storage *address, bool in_v6,
                          char out[ADDRESS_CHARACTERS + 1])
{
    unsigned words[4] = {0, 0, htonl(0xffff), 0};
    unsigned port = 0;
    int n = 4;
    if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        memcpy(words, &v6.sin6_addr, sizeof(words));
        port = ntohs(v6.sin6_port);
    } else {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        words[3] = v4.sin_addr.s_addr;
        port = ntohs(v4.sin_port);
        n = in_v6 ? 4 : 1;
    }
    for (int i = 4 - n; i < 4; i++)
        out += snprintf(out, 9, "%08X", words[i]);
    snprintf(out, 6, ":%04X", port);
}

typedef struct ends {
    bool sees_own;
    long user; /* of the other end; -1: not found */
} ends;

/*
 * Looks for both ends of a connection. An end that has been closed has no user
 * any more and would pass for root's: only established ones count.
 */
static void search_table(const char *table, const char *own, const char *other,
                         ends *out)
{
    static const char established[] = "01";
    char line[512], local[64], remote[64], state[8], user[16];
    FILE *const file = fopen(table, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, " %*[^:]: %63s %63s %7s %*s %*s %*s %15s", local,
                   remote, state, user) != 4)
            continue;
        if (strcmp(local, own) == 0 && strcmp(remote, other) == 0)
            out->sees_own = true;
        else if (strcmp(local, other) == 0 && strcmp(remote, own) == 0 &&
                 strcmp(state, established) == 0)
            out->user = strtol(user, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
}

ls_status lsi_same_user_check(int fd)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);
    char here[ADDRESS_CHARACTERS + 1], there[ADDRESS_CHARACTERS + 1];
    ends found = {.user = -1};
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&other, &other_bytes) != 0)
        return LS_OK; /* it has ended */
    for (int in_v6 = 0; in_v6 < 2 && found.user < 0; in_v6++) {
        write_address(&own, in_v6 != 0, here);
        write_address(&other, in_v6 != 0, there);
        search_table(tables[in_v6], here, there, &found);
    }
    if (found.user == 0 || found.user == (long)geteuid() ||
        (found.user < 0 && !found.sees_own))
        return LS_OK;
    if (found.user < 0)
        return lsi_fail(LS_ERR_PEER_DEAD,
                        "the other end has closed the connection");
    return lsi_fail(LS_ERR_MISMATCH,
                    "the other process belongs to user %ld, but this job "
                    "belongs to user %ld. An endpoint without a secret serves "
                    "one user only. To connect both users, " LSI_SECRET_HOW,
                    found.user, (long)geteuid());
}
