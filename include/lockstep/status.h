/*
 * Status codes and the message that goes with them.
 *
 * Every function of the library that can fail returns an ls_status. 0 is
 * success, positive values mean "not finished yet", negative values are
 * errors. The library never exits, never aborts on bad input and prints nothing
 * but warnings, to stderr unless ls_set_log (log.h) gives them to a function.
 * The function that detects an error records one sentence that says what is
 * wrong, where, and what would be right; ls_last_error() returns it.
 *
 * NULL where something is required is such an error, too:
 *
 *   - A function that returns a status returns LS_ERR_ARGUMENT, and the message
 *     names the function and the argument. If a tensor is missing because an
 *     operation on a tape of this thread has failed, the function returns the
 *     error of that tape instead.
 *   - An operation on a tape returns NULL, and the tape keeps its first error.
 *   - A function that returns a property of NULL returns 0, NULL or false; -1
 *     for a rank, a label or a step, and SIZE_MAX for an offset, as 0 is valid.
 *   - A setter without a status does nothing.
 *   - Functions that free or close accept NULL and a pointer to NULL.
 *
 * Compilers warn about a call whose status is not used (LS_MUST_CHECK). Where
 * the status does not matter, write ls_ignore(call).
 *
 * In the examples of these headers and of docs/, check() is a function of the
 * program that ends it, with ls_last_error(), unless the status is LS_OK
 * (examples/mlp.c).
 */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define LS_API __attribute__((visibility("default")))
#else
#    define LS_API
#endif

/*
 * Marks functions that a minor release may change or remove even after 1.0;
 * docs/reference/experimental.md lists them and says why. Define
 * LS_WARN_EXPERIMENTAL to get a warning where a program calls one.
 */
#if defined(LS_WARN_EXPERIMENTAL) && defined(__GNUC__)
#    define LS_EXPERIMENTAL __attribute__((deprecated("is experimental")))
#else
#    define LS_EXPERIMENTAL
#endif

/*
 * Marks functions that return a status: gcc and clang warn where a program does
 * not use the result. A cast to void does not silence gcc; ls_ignore does.
 */
#if defined(__GNUC__)
#    define LS_MUST_CHECK __attribute__((warn_unused_result))
#else
#    define LS_MUST_CHECK
#endif

/* Values are part of the binary interface. */
typedef enum ls_status {
    LS_OK = 0,               /* success */
    LS_IN_PROGRESS = 1,      /* not finished yet */
    LS_ERR_ARGUMENT = -1,    /* invalid argument */
    LS_ERR_SHAPE = -2,       /* shapes do not match */
    LS_ERR_DTYPE = -3,       /* unsupported or mismatched type */
    LS_ERR_MEMORY = -4,      /* out of memory */
    LS_ERR_BUDGET = -5,      /* over the memory budget */
    LS_ERR_IO = -6,          /* input or output failed */
    LS_ERR_FORMAT = -7,      /* malformed data */
    LS_ERR_UNSUPPORTED = -8, /* not supported here */
    LS_ERR_STATE = -9,       /* called in the wrong state */
    LS_ERR_SYSTEM = -10,     /* a system call failed */
    LS_ERR_PEER_DEAD = -11,  /* a peer died */
    LS_ERR_TIMEOUT = -12,    /* a peer did not arrive in time */
    LS_ERR_MISMATCH = -13,   /* ranks disagree about a collective call */
    LS_ERR_NOT_FOUND = -14,  /* nothing found yet */
    LS_ERR_ABORTED = -15,    /* a rank has aborted the group */
    LS_ERR_CORRUPT = -16     /* copies of the same data differ */
} ls_status;

/*
 * For a call whose failure changes nothing, such as a record written on the way
 * out: ls_ignore(ls_group_dump(group, path));
 */
static inline void ls_ignore(ls_status status)
{
    (void)status;
}

/* "LS_ERR_SHAPE" for LS_ERR_SHAPE; "LS_UNKNOWN" for anything else. Static. */
LS_API const char *ls_status_name(ls_status status);

/* A short English text for a status. Static storage, never NULL. */
LS_API const char *ls_status_text(ls_status status);

/*
 * The sentence recorded by the last call of this thread that failed, or "" if
 * none has. It stays valid until this thread's next failing call. Successful
 * calls do not clear it.
 */
LS_API const char *ls_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
