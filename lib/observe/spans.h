/*
 * The time of a program as spans, each with a beginning and an end. The library
 * and its users record them while tracing is on. Off, a span costs one relaxed
 * load and a branch.
 *
 * Each thread has a separate buffer, to which no other thread writes. When it
 * is full, and once a second at the end of a step or of a collective, its
 * thread writes it to the file of the process (span_file.h); so nothing is lost
 * in long runs, and a process that is killed loses a second at most.
 */
#ifndef LS_OBSERVE_SPANS_H
#define LS_OBSERVE_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "lockstep/status.h"

/*
 * X(NAME, name, bytes, work, id): what there is, and what its numbers say.
 * These are written to each file; new kinds come at the end.
 */
#define LSI_SPAN_KIND_LIST(X)                                                  \
    X(RANGE, "range", "bytes moved", "floating-point operations", "")          \
    X(STEP, "step", "", "", "number of the step")                              \
    X(PHASE, "phase", "", "", "")                                              \
    X(OPERATION, "operation", "", "", "")                                      \
    X(KERNEL, "kernel", "bytes moved", "floating-point operations",            \
      "4 x (1 + name of the layer) + pass; 0: not the product of a layer")     \
    X(WAIT, "wait", "", "", "")                                                \
    X(GATHERING, "gathering", "bytes of a rank", "group", "sequence number")   \
    X(TRANSFER, "transfer", "bytes of a rank", "group", "sequence number")     \
    X(MESSAGE, "message", "bytes", "group", "peer")                            \
    X(MEMORY, "memory", "live bytes", "", "")                                  \
    X(GATHER, "gather", "bytes", "", "node")                                   \
    X(RELEASE, "release", "bytes", "", "node")                                 \
    X(AWAIT, "wait for weights", "bytes", "lsi_weight_need", "node")           \
    X(ANSWER, "answer", "bytes", "", "node that has asked")

typedef enum lsi_span_kind {
#define X(NAME, name, bytes, work, id) LSI_SPAN_##NAME,
    LSI_SPAN_KIND_LIST(X)
#undef X
        LSI_SPAN_KINDS
} lsi_span_kind;

/*
 * The four last kinds are of weights that are divided over nodes. Their name is
 * that of the layer, and a node is its lowest rank of the group. This is how a
 * layer was needed that a rank waits for. Written to each file.
 */
typedef enum lsi_weight_need {
    LSI_NEED_ON,    /* in the course of a pass */
    LSI_NEED_FIRST, /* the first layer of a step */
    LSI_NEED_NEW    /* not asked for before */
} lsi_weight_need;

/* One that is over. Times are ticks. */
typedef struct lsi_span {
    uint64_t begin, end;
    uint64_t bytes, work, id; /* as the list above says */
    uint32_t name;
    uint32_t kind;
} lsi_span;

/*
 * Readers of spans: a file and readers of live.h's page; for phases and ranges
 * also memory_record.h.
 */
enum { LSI_SPAN_TO_FILE = 1, LSI_SPAN_TO_LIVE = 2, LSI_SPAN_TO_MEMORY = 4 };
extern _Atomic unsigned lsi_span_wanted;

static inline bool lsi_span_is_on(void)
{
    return atomic_load_explicit(&lsi_span_wanted, memory_order_relaxed) != 0;
}

/* Whether spans go to a file. */
static inline bool lsi_span_is_written(void)
{
    return (atomic_load_explicit(&lsi_span_wanted, memory_order_relaxed) &
            LSI_SPAN_TO_FILE) != 0;
}

void lsi_span_want(unsigned by, bool wanted);

/* The time of a beginning; 0: nobody wants to know. */
static inline uint64_t lsi_span_begin(void)
{
    return lsi_span_is_on() ? lsi_ticks() : 0;
}

/*
 * Records a span that began then and ends now; nothing if `begin` is 0. The
 * name is copied.
 */
void lsi_span_end(lsi_span_kind kind, const char *name, uint64_t begin,
                  uint64_t bytes, uint64_t work, uint64_t id);

/* The same of one that has ended before. */
void lsi_span_put(lsi_span_kind kind, const char *name, lsi_span span);

/* One that ends with the block of the caller. */
typedef struct lsi_span_scope {
    uint64_t begin; /* 0: nothing is recorded */
    uint64_t bytes, work;
    const char *name;
    lsi_span_kind kind;
    uint32_t outer; /* of a phase: the one around it (memory_record.h) */
    uint64_t id;    /* of a kernel: its layer and pass */
} lsi_span_scope;

lsi_span_scope lsi_span_enter(lsi_span_kind kind, const char *name,
                              uint64_t bytes, uint64_t work);
void lsi_span_leave_now(const lsi_span_scope *scope);

static inline void lsi_span_leave(const lsi_span_scope *scope)
{
    if (scope->begin != 0)
        lsi_span_leave_now(scope);
}

/*
 * From here to the end of the block is a span. bytes and work are computed
 * only if it is recorded; the name stays where it is.
 */
#define LSI_SPAN(kind, name, bytes, work)                                      \
    __attribute__((cleanup(lsi_span_leave), unused))                           \
    const lsi_span_scope lsi_span_here =                                       \
        lsi_span_is_on() ? lsi_span_enter(LSI_SPAN_##kind, name,               \
                                          (uint64_t)(bytes), (uint64_t)(work)) \
                         : (lsi_span_scope)                                    \
    {                                                                          \
        .begin = 0                                                             \
    }

/*
 * An operation of the tape that has begun then, or when a range or a phase of
 * this thread was last entered or left, so that spans nest. Its name is both
 * parts together. Also looks at the memory in use.
 */
void lsi_span_operation(const char *name, const char *suffix, uint64_t begin);

/*
 * The products of a layer: its result, the gradient of its input, and the
 * gradient of its weight. Written to each file.
 */
typedef enum lsi_layer_pass {
    LSI_PASS_FORWARD,
    LSI_PASS_DATA,
    LSI_PASS_WEIGHT,
    LSI_PASSES = 4 /* with room for another */
} lsi_layer_pass;

/* The id of a kernel: the number of its layer's name, and its pass. */
static inline uint64_t lsi_layer_id(uint32_t name, lsi_layer_pass pass)
{
    return LSI_PASSES * ((uint64_t)name + 1) + pass;
}

/*
 * Kernels of this thread belong to a layer until lsi_span_leave_layer. The name
 * is the shape of the layer's weight, a space, and a text: "64x3x7x7 conv1".
 * It is copied.
 */
void lsi_span_enter_layer(const char *name, lsi_layer_pass pass);
void lsi_span_leave_layer(void);

/* A step of a training or a benchmark is over: a good time to write. */
void lsi_span_step(uint64_t begin, uint64_t number);

/* ---- for span_file.c ----------------------------------------------------- */

/* The buffer of a thread. */
typedef struct lsi_span_buffer lsi_span_buffer;

/* Watches for forks and for the ends of threads; called before a file opens. */
void lsi_span_prepare(void);

/* Writes what threads have recorded. Under the lock of the recorder. */
void lsi_span_flush_all(void);

#endif
