/*
 * How a process shows that it is alive to the processes that share memory with
 * it.
 *
 * A dedicated thread writes its number into a word of the shared memory and has
 * the word on its list of robust futexes. Any end of the process (exit, a
 * signal, exec) ends the thread, and then the kernel marks the word. Other
 * processes just read the word.
 *
 * Other things that the kernel drops when a process ends do not serve:
 *
 *   a record lock               goes as soon as the process closes any
 *                               descriptor of the file, be it one that a
 *                               debugger or a backup has opened
 *   a lock of a description,    is shared with children, which may live on
 *   the end of a socket
 *   a process descriptor        is one for each peer in each rank, and the
 *                               program may close it; outlives exec; is missing
 *                               before Linux 5.3
 *   a thread of the program's   may end before the process does
 *
 * A zombie is dead, a process that has lost its first thread is not, and one
 * that writes a core dump dies when that is written. No descriptor, permission,
 * /proc or pid namespace matters.
 */
#ifndef LS_COMM_NODE_LIFE_H
#define LS_COMM_NODE_LIFE_H

#include <linux/futex.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * In shared memory, all zero at first. The list belongs to the owner. It is
 * stored here as well because of processes that the kernel kills for want of
 * memory: the kernel may take their private memory before it reads the list.
 */
typedef struct lsi_life {
    alignas(64) _Atomic uint32_t owner; /* a thread; 0: none */
    struct robust_list_head list;
    struct robust_list entry;
} lsi_life;

typedef struct lsi_keeper lsi_keeper;

/* Keeps the word of this process; false if the system has no means for it. */
bool lsi_life_begin(lsi_life *life, lsi_keeper **out);

/* The word then has no owner. In a child process the word stays unchanged. */
void lsi_life_end(lsi_keeper *keeper);

/* Whether the owner is alive. */
static inline bool lsi_life_shows(const lsi_life *life)
{
    return (atomic_load(&life->owner) & FUTEX_TID_MASK) != 0;
}

#endif
