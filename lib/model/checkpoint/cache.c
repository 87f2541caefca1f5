#include "model/checkpoint/cache.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "model/checkpoint/folder.h"

enum { PLACES = 4096, TRIES = 32 };

/* Hashes, each at the place that it implies or soon after; 0: empty. */
static _Atomic uint64_t known[PLACES];

static bool has(uint64_t hash)
{
    for (unsigned i = 0; i < TRIES && hash != 0; i++)
        if (atomic_load(&known[(hash + i) % PLACES]) == hash)
            return true;
    return false;
}

/* Another hash is dropped only if all these places are occupied. */
static void add(uint64_t hash)
{
    for (unsigned i = 0; i < TRIES && hash != 0; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&known[(hash + i) % PLACES], &none,
                                           hash))
            return;
    }
    atomic_store(&known[hash % PLACES], hash);
}

static void drop(uint64_t hash)
{
    for (unsigned i = 0; i < TRIES && hash != 0; i++) {
        uint64_t expected = hash;
        atomic_compare_exchange_strong(&known[(hash + i) % PLACES], &expected,
                                       0);
    }
}

static uint64_t hash_text(const char *text)
{
    return lsi_hash(LSI_HASH_START, text, strlen(text));
}

/* Adds the identity of a file, which changes whenever the file does. */
static bool hash_file(uint64_t *hash, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return false;
    *hash = lsi_hash(*hash, &info.st_dev, sizeof info.st_dev);
    *hash = lsi_hash(*hash, &info.st_ino, sizeof info.st_ino);
    *hash = lsi_hash(*hash, &info.st_size, sizeof info.st_size);
    *hash = lsi_hash(*hash, &info.st_mtim, sizeof info.st_mtim);
    *hash = lsi_hash(*hash, &info.st_ctim, sizeof info.st_ctim);
    return true;
}

/* The hash of a step's folder and manifest; 0 if unknown. */
static uint64_t hash_step(const char *step_folder)
{
    uint64_t hash = hash_text(step_folder);
    const lsi_path manifest = lsi_path_in(step_folder, LSI_MANIFEST_FILE);
    return hash_file(&hash, step_folder) && hash_file(&hash, manifest.text)
               ? hash
               : 0;
}

void lsi_checkpoint_cache_add_intact(const char *step_folder)
{
    add(hash_step(step_folder));
}

bool lsi_checkpoint_cache_has_intact(const char *step_folder)
{
    return has(hash_step(step_folder));
}

static uint64_t hash_passed(const char *folder, int64_t step)
{
    char whole[PATH_MAX];
    const char *const path = realpath(folder, whole) != NULL ? whole : folder;
    const uint64_t hash = lsi_hash(hash_text(path), "passed over", 11);
    return lsi_hash(hash, &step, sizeof step);
}

void lsi_checkpoint_cache_set_passed(const char *folder, int64_t step,
                                     bool passed)
{
    const uint64_t hash = hash_passed(folder, step);
    if (!passed)
        drop(hash);
    else if (!has(hash))
        add(hash);
}

bool lsi_checkpoint_cache_was_passed(const char *folder, int64_t step)
{
    return has(hash_passed(folder, step));
}

bool lsi_checkpoint_cache_is_first(const char *kind)
{
    const uint64_t hash = hash_text(kind);
    if (has(hash))
        return false;
    add(hash);
    return true;
}
