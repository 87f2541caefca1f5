/*
 * config.json as Hugging Face's transformers write it next to weights: the
 * parts common to all kinds of models.
 */
#ifndef LS_MODEL_NN_MODEL_JSON_H
#define LS_MODEL_NN_MODEL_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

struct json_t;

typedef struct lsi_model_json {
    char path[4096];
    struct json_t *json; /* an object; NULL: the file does not exist */
} lsi_model_json;

/* Opens config.json in the folder of `weights`. To be closed after success. */
ls_status lsi_model_json_open(lsi_model_json *file, const char *weights);
void lsi_model_json_close(lsi_model_json *file);

/* The value of a key; null counts as missing. */
const struct json_t *lsi_model_json_get(const struct json_t *json,
                                        const char *key);

/*
 * LS_ERR_FORMAT with a key's value, or that it is missing, and the right value.
 */
ls_status lsi_model_json_wrong(const lsi_model_json *file, const char *key,
                               const struct json_t *value, const char *wanted);

/* LS_ERR_UNSUPPORTED with a key's value and the supported values. */
ls_status lsi_model_json_unsupported(const lsi_model_json *file,
                                     const char *key,
                                     const struct json_t *value,
                                     const char *supported);

/* The required value of a key, if present; `other` is an equivalent value. */
typedef struct lsi_json_wanted {
    const char *key, *wanted, *other;
} lsi_json_wanted;
ls_status lsi_model_json_check(const lsi_model_json *file,
                               const lsi_json_wanted *wanted, size_t n);

/* A positive int64_t, and its place in *out. */
typedef struct lsi_json_count {
    const char *key, *older; /* the older name, or NULL */
    size_t place;
    bool needed;
} lsi_json_count;
ls_status lsi_model_json_counts(const lsi_model_json *file,
                                const lsi_json_count *counts, size_t n,
                                void *out);

/*
 * Adds the keys of these lists with their required values, and with the values
 * at their places; false: no memory. A key that must be empty is omitted.
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

/* A positive number of an object; *out is unchanged if it is missing. */
ls_status lsi_model_json_real(const lsi_model_json *file,
                              const struct json_t *object, const char *key,
                              double *out);

/* The epsilon of norms; *out is unchanged if it is missing. */
ls_status lsi_model_json_eps(const lsi_model_json *file, const char *key,
                             double *out);

/* tie_word_embeddings; *untied is unchanged if it is missing. */
ls_status lsi_model_json_untied(const lsi_model_json *file, bool *untied);

#endif
