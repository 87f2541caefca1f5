/*
 * config.json as Hugging Face's transformers write it beside weights: what all
 * kinds of models have in common.
 */
#ifndef LS_MODEL_NN_MODEL_JSON_H
#define LS_MODEL_NN_MODEL_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

struct json_t;

typedef struct lsi_model_json {
    char path[4096];
    struct json_t *json; /* an object; NULL: there is no such file */
} lsi_model_json;

/* That in the folder of `weights`. To be closed if it succeeds. */
ls_status lsi_model_json_open(lsi_model_json *file, const char *weights);
void lsi_model_json_close(lsi_model_json *file);

/* The value of a key; null is as good as nothing. */
const struct json_t *lsi_model_json_get(const struct json_t *json,
                                        const char *key);

/* LS_ERR_FORMAT: a key's value, or that it is missing, and what it should be.
 */
ls_status lsi_model_json_wrong(const lsi_model_json *file, const char *key,
                               const struct json_t *value, const char *wanted);

/* LS_ERR_UNSUPPORTED: a key's value, and what there is. */
ls_status lsi_model_json_unsupported(const lsi_model_json *file,
                                     const char *key,
                                     const struct json_t *value,
                                     const char *supported);

/* What a key must say if it is there; `other` is the same by another word. */
typedef struct lsi_json_wanted {
    const char *key, *wanted, *other;
} lsi_json_wanted;
ls_status lsi_model_json_check(const lsi_model_json *file,
                               const lsi_json_wanted *wanted, size_t n);

/* A positive int64_t, and where in *out it goes. */
typedef struct lsi_json_count {
    const char *key, *older; /* the older name, or NULL */
    size_t place;
    bool needed;
} lsi_json_count;
ls_status lsi_model_json_counts(const lsi_model_json *file,
                                const lsi_json_count *counts, size_t n,
                                void *out);

/*
 * Adds the keys of these lists with what they must say, and with the values at
 * their places; false: no memory. A key that must be empty is left out.
 */
bool lsi_model_json_add_wanted(struct json_t *json,
                               const lsi_json_wanted *wanted, size_t n);
bool lsi_model_json_add_counts(struct json_t *json,
                               const lsi_json_count *counts, size_t n,
                               const void *values);

/*
 * Writes a file of this name in the folder of `weights`; takes over the
 * reference. NULL is LS_ERR_MEMORY.
 */
#define LSI_MODEL_CONFIG "config.json"
ls_status lsi_model_json_write(const char *weights, const char *name,
                               struct json_t *json);

/* A positive number of an object; *out stays as it is if there is none. */
ls_status lsi_model_json_real(const lsi_model_json *file,
                              const struct json_t *object, const char *key,
                              double *out);

/* The epsilon of norms; *out stays as it is if there is none. */
ls_status lsi_model_json_eps(const lsi_model_json *file, const char *key,
                             double *out);

/* tie_word_embeddings; *untied stays as it is if there is none. */
ls_status lsi_model_json_untied(const lsi_model_json *file, bool *untied);

#endif
