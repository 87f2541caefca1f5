/* The cpus that this process may run on, as a text such as "0-3,8". */
#ifndef LS_CLI_AFFINITY_H
#define LS_CLI_AFFINITY_H

#include <stddef.h>

void lsi_affinity_text(char *out, size_t bytes);

#endif
