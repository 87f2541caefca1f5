#include "base/variables.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An environment that was published; never freed. */
typedef struct block {
    struct block *next;
    char *strings[];
} block;

static _Atomic(block *) blocks; /* so that they are known to be in use */

static size_t count(char *const *strings)
{
    size_t n = 0;
    while (strings != NULL && strings[n] != NULL)
        n++;
    return n;
}

static bool is_of(const char *string, const lsi_variable *v)
{
    const size_t length = strlen(v->name);
    return strncmp(string, v->name, length) == 0 && string[length] == '=';
}

/* Room for this number of strings, a NULL after them, and some text. */
static block *make(size_t strings, size_t text)
{
    return calloc(1, sizeof(block) + (strings + 1) * sizeof(char *) + text);
}

/* False, and the block is gone, if somebody else has changed it meanwhile. */
static bool publish(block *made, char **expected)
{
    if (!__atomic_compare_exchange_n(&environ, &expected, made->strings, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(made);
        return false;
    }
    made->next = atomic_load(&blocks);
    while (!atomic_compare_exchange_weak(&blocks, &made->next, made)) {
    }
    return true;
}

static bool try_add(lsi_variable *variables, int n, char **now)
{
    size_t length = count(now), text = 0;
    for (int i = 0; i < n; i++) {
        const lsi_variable *v = &variables[i];
        variables[i].added = true;
        for (size_t k = 0; k < length && variables[i].added; k++)
            variables[i].added = !is_of(now[k], v);
        if (variables[i].added)
            text += strlen(v->name) + strlen(v->value) + 2;
    }
    if (text == 0)
        return true;
    block *const made = make(length + (size_t)n, text);
    for (int i = 0; i < n && made == NULL; i++)
        variables[i].added = false;
    if (made == NULL)
        return true;
    char *at = (char *)&made->strings[length + (size_t)n + 1];
    if (length > 0)
        memcpy(made->strings, now, length * sizeof(char *));
    for (int i = 0; i < n; i++) {
        if (!variables[i].added)
            continue;
        made->strings[length++] = at;
        at = stpcpy(stpcpy(stpcpy(at, variables[i].name), "="),
                    variables[i].value) +
             1;
    }
    return publish(made, now);
}

static bool try_remove(const lsi_variable *variables, int n, char **now)
{
    const size_t length = count(now);
    block *const made = make(length, 0);
    size_t kept = 0;
    if (made == NULL)
        return true;
    for (size_t k = 0; k < length; k++) {
        bool stays = true;
        for (int i = 0; i < n && stays; i++)
            stays = !variables[i].added || !is_of(now[k], &variables[i]);
        if (stays)
            made->strings[kept++] = now[k];
    }
    return publish(made, now);
}

void lsi_variables_add(lsi_variable *variables, int n)
{
    while (
        !try_add(variables, n, __atomic_load_n(&environ, __ATOMIC_ACQUIRE))) {
    }
}

void lsi_variables_remove(lsi_variable *variables, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++)
        any = any || variables[i].added;
    while (any && !try_remove(variables, n,
                              __atomic_load_n(&environ, __ATOMIC_ACQUIRE))) {
    }
    for (int i = 0; i < n; i++)
        variables[i].added = false;
}
