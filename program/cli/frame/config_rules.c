/* The rules are one table; names are those of flags, separated by blanks. */
#include "cli/frame/config_rules.h"

#include <stdint.h>
#include <string.h>

typedef struct rule {
    const char *changes; /* on the command line: one of these flags */
    const char *to;      /* one of these values; NULL: any */
    const char *drops;
    bool chosen; /* only values that a run had chosen */
} rule;

#define SHAPE "layers d-model heads d-ff vocab-size untied-head"

static const rule rules[] = {
    /* Flags that exclude each other. */
    {"no-save", "true", "output-dir save", false},
    {"output-dir save", NULL, "no-save", false},
    {"accumulate", NULL, "tokens-per-step", false},
    {"tokens-per-step", NULL, "accumulate", false},
    {"strategy", "naive flat overlap owners", "bucket-mb", false},
    {"weights", NULL, "init " SHAPE, false},
    {"init " SHAPE, NULL, "weights", false},
    {"resume", "false", "new-schedule", false},
    /* Choices that follow from other flags. */
    {"ranks", NULL, "threads", true},
    {"size", NULL, "layers d-model heads d-ff vocab-size", true},
    {"data format tokenizer", NULL, "vocab-size", true},
    {"weights", NULL, "context", true},
    {"optimizer", NULL, "lr weight-decay", true},
    {"steps schedule", NULL, "warmup-steps", true},
    {"strategy", NULL, "bucket-mb", true},
};

/* Whether a list, separated by blanks, has a name. */
static bool has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    while (*list != '\0') {
        const size_t word = strcspn(list, " ");
        if (word == length && strncmp(list, name, length) == 0)
            return true;
        list += word;
        list += strspn(list, " ");
    }
    return false;
}

/* Values of a rule are choices or switches. */
static bool is_value(const rule *r, const json_t *value)
{
    const char *const text = json_is_boolean(value)
                                 ? json_is_true(value) ? "true" : "false"
                                 : json_string_value(value);
    return r->to == NULL || (text != NULL && has(r->to, text));
}

/* Whether the command line changes a flag of the rule to such a value. */
static bool holds(const rule *r, const json_t *file, const json_t *both)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)both, name, value)
    {
        if (has(r->changes, name) && is_value(r, value) &&
            !json_equal(json_object_get(file, name), value))
            return true;
    }
    return false;
}

static bool is_chosen(const json_t *chosen, const char *name)
{
    for (size_t i = 0; i < json_array_size(chosen); i++)
        if (strcmp(json_string_value(json_array_get(chosen, i)), name) == 0)
            return true;
    return false;
}

static bool drop(const rule *r, const json_t *chosen, json_t *flags)
{
    const char *name;
    json_t *value;
    void *next;
    bool dropped = false;
    json_object_foreach_safe(flags, next, name, value)
    {
        if (has(r->drops, name) && (!r->chosen || is_chosen(chosen, name)))
            dropped |= json_object_del(flags, name) == 0;
    }
    return dropped;
}

bool lsi_config_rules_apply(const json_t *file, const json_t *both,
                            const json_t *chosen, json_t *flags)
{
    bool dropped = false;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (holds(&rules[i], file, both))
            dropped |= drop(&rules[i], chosen, flags);
    return dropped;
}
