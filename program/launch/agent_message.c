#include "launch/agent_message.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/cpuset.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

static const char *const words[LSI_AGENT_WORDS] = {
    [LSI_AGENT_JOIN] = "join",     [LSI_AGENT_FAILED] = "failed",
    [LSI_AGENT_DONE] = "done",     [LSI_AGENT_ASKED] = "asked",
    [LSI_AGENT_SAY] = "say",       [LSI_AGENT_START] = "start",
    [LSI_AGENT_END] = "end",       [LSI_AGENT_SIGNAL] = "signal",
    [LSI_AGENT_FINISH] = "finish", [LSI_AGENT_PING] = "ping",
};

#define IN(word) (1u << LSI_AGENT_##word)

typedef struct text_row {
    const char *name;
    unsigned in; /* bits of the words that have it */
    size_t offset, bytes;
} text_row;

#define TEXT(name, in)                                                         \
    {                                                                          \
#        name, in, offsetof(lsi_agent_message, name),                          \
            sizeof(((lsi_agent_message *)NULL)->name)                          \
    }

static const text_row texts[] = {
    TEXT(text, IN(FAILED) | IN(SAY) | IN(END) | IN(FINISH)),
    TEXT(agent, IN(JOIN)),
    TEXT(host, IN(JOIN)),
    TEXT(run, IN(JOIN) | IN(START)),
    TEXT(past, IN(JOIN)),
    TEXT(job, IN(START)),
    TEXT(machine, IN(JOIN)),
    TEXT(quota_of, IN(JOIN)),
    TEXT(cpus, IN(JOIN)),
};

typedef struct number_row {
    const char *name;
    unsigned in;
    size_t offset;
    int min, max;
} number_row;

#define NUMBER(name, in, min, max)                                             \
    {                                                                          \
#        name, in, offsetof(lsi_agent_message, name), min, max                 \
    }

static const number_row numbers[] = {
    NUMBER(least, IN(JOIN), 1, LSI_AGENT_MOST_NODES),
    NUMBER(most, IN(JOIN), 1, LSI_AGENT_MOST_NODES),
    NUMBER(node, IN(JOIN), -1, LSI_AGENT_MOST_NODES - 1),
    NUMBER(local, IN(JOIN), 1, LSI_LAUNCH_MAX_RANKS),
    NUMBER(port, IN(JOIN) | IN(START), 0, 65535),
    NUMBER(quota, IN(JOIN), 0, 1000 * LSI_CPUSET_MAX),
    NUMBER(threads, IN(START), 0, LSI_MAX_THREADS),
    NUMBER(group, IN(START), 0, LSI_AGENT_MOST_NODES - 1),
    NUMBER(groups, IN(START), 1, LSI_AGENT_MOST_NODES),
    NUMBER(offset, IN(START), 0, LSI_AGENT_MOST_RANKS),
    NUMBER(world, IN(START), 1, LSI_AGENT_MOST_RANKS),
    NUMBER(restart, IN(JOIN) | IN(START), 0, 1000001),
    NUMBER(restarts, IN(START), 0, 1000000),
    NUMBER(verdict, IN(FAILED) | IN(DONE) | IN(END) | IN(FINISH), 0, 255),
    NUMBER(strength, IN(FAILED), LSI_AGENT_WEAK, LSI_AGENT_FINAL),
    NUMBER(number, IN(ASKED) | IN(SIGNAL), 1, 64),
};

enum {
    N_TEXTS = sizeof(texts) / sizeof(texts[0]),
    N_NUMBERS = sizeof(numbers) / sizeof(numbers[0])
};

static bool has(unsigned in, lsi_agent_word word)
{
    return (in & 1u << word) != 0;
}

/* ---- writing ---------------------------------------------------------- */

static bool fill(json_t *json, const lsi_agent_message *message)
{
    const char *const base = (const char *)message;
    bool good = json_object_set_new(json, "word",
                                    json_string(words[message->word])) == 0;
    for (size_t i = 0; i < N_TEXTS && good; i++) {
        char text[sizeof(lsi_agent_message)];
        lsi_printable(text, texts[i].bytes, base + texts[i].offset);
        if (has(texts[i].in, message->word))
            good = json_object_set_new(json, texts[i].name,
                                       json_string(text)) == 0;
    }
    for (size_t i = 0; i < N_NUMBERS && good; i++) {
        int value;
        memcpy(&value, base + numbers[i].offset, sizeof(value));
        if (has(numbers[i].in, message->word))
            good = json_object_set_new(json, numbers[i].name,
                                       json_integer(value)) == 0;
    }
    return good;
}

ls_status lsi_agent_message_write(const lsi_agent_message *message, char **out,
                                  size_t *bytes)
{
    json_t *json = json_object();
    char *text = NULL;
    if (json != NULL && fill(json, message))
        text = lsi_json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (text == NULL)
        return lsi_fail(LS_ERR_MEMORY,
                        "not enough memory for a message to another node");
    *out = text;
    *bytes = strlen(text);
    return LS_OK;
}

/* ---- reading ---------------------------------------------------------- */

/* A run name as in a folder of logs; an agent may not know its run yet. */
static bool is_run(const char *text, lsi_agent_word word)
{
    return text[0] != '.' && strchr(text, '/') == NULL &&
           (text[0] != '\0' || word != LSI_AGENT_START);
}

static ls_status read_text(const json_t *json, const text_row *row,
                           lsi_agent_message *out)
{
    const char *text = json_string_value(json_object_get(json, row->name));
    char *const to = (char *)out + row->offset;
    if (text == NULL || strlen(text) >= row->bytes)
        return lsi_fail(
            LS_ERR_FORMAT,
            "'%s' is missing or not a string of less than %zu bytes", row->name,
            row->bytes);
    if ((row->offset == offsetof(lsi_agent_message, run) ||
         row->offset == offsetof(lsi_agent_message, past)) &&
        !is_run(text, out->word))
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is not a valid run name; it must not contain / "
                        "or begin with a dot",
                        text);
    memcpy(to, text, strlen(text) + 1);
    for (char *at = to; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
    }
    return LS_OK;
}

static ls_status read_number(const json_t *json, const number_row *row,
                             char *base)
{
    const json_t *number = json_object_get(json, row->name);
    const json_int_t value = json_integer_value(number);
    if (!json_is_integer(number) || value < row->min || value > row->max)
        return lsi_fail(LS_ERR_FORMAT,
                        "'%s' is missing or not an integer from %d to %d",
                        row->name, row->min, row->max);
    const int kept = (int)value;
    memcpy(base + row->offset, &kept, sizeof(kept));
    return LS_OK;
}

static ls_status read_fields(const json_t *json, lsi_agent_message *out)
{
    const char *name = json_string_value(json_object_get(json, "word"));
    int word = 0;
    while (word < LSI_AGENT_WORDS &&
           (name == NULL || strcmp(name, words[word]) != 0))
        word++;
    if (word == LSI_AGENT_WORDS)
        return lsi_fail(LS_ERR_FORMAT, "'word' is missing or unknown");
    *out = (lsi_agent_message){.word = (lsi_agent_word)word};
    for (size_t i = 0; i < N_TEXTS; i++) {
        if (has(texts[i].in, out->word))
            LS_TRY(read_text(json, &texts[i], out));
    }
    for (size_t i = 0; i < N_NUMBERS; i++) {
        if (has(numbers[i].in, out->word))
            LS_TRY(read_number(json, &numbers[i], (char *)out));
    }
    return LS_OK;
}

ls_status lsi_agent_message_read(const void *data, size_t bytes,
                                 lsi_agent_message *out)
{
    json_t *json;
    json_error_t error;
    ls_status status = lsi_json_loadb(data, bytes, 0, &json, &error);
    if (status == LS_ERR_FORMAT)
        return lsi_fail(LS_ERR_FORMAT, "it is not valid JSON: %s", error.text);
    LS_TRY(status);
    lsi_agent_message read;
    status = read_fields(json, &read);
    json_decref(json);
    if (status == LS_OK)
        *out = read;
    return status;
}

/* ---- the CPUs of a host ------------------------------------------------ */

/* Reports no CPUs for a machine whose CPUs do not fit into the text. */
void lsi_agent_message_set_cpus(lsi_agent_message *join,
                                const lsi_cpu_claim *claim)
{
    lsi_cpuset back;
    const double quota = claim->quota * 1000;
    lsi_cpuset_text(&claim->cpus, join->cpus, sizeof(join->cpus));
    const bool fits = lsi_cpuset_parse(join->cpus, &back) &&
                      memcmp(&back, &claim->cpus, sizeof(back)) == 0;
    if (!fits)
        join->cpus[0] = '\0';
    snprintf(join->machine, sizeof(join->machine), "%" PRIx64,
             fits ? claim->machine : 0);
    snprintf(join->quota_of, sizeof(join->quota_of), "%" PRIx64,
             claim->quota_of);
    join->quota =
        quota > 0 && quota < 1000.0 * LSI_CPUSET_MAX ? (int)ceil(quota) : 0;
}

void lsi_agent_message_cpus(const lsi_agent_message *join, lsi_cpu_claim *out)
{
    *out = (lsi_cpu_claim){.machine = strtoull(join->machine, NULL, 16),
                           .quota_of = strtoull(join->quota_of, NULL, 16),
                           .quota = join->quota / 1000.0,
                           .ranks = join->local};
    if (!lsi_cpuset_parse(join->cpus, &out->cpus))
        out->machine = 0;
}
