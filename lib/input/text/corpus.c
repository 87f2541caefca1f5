#include "input/text/corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/api/outcome.h"
#include "comm/api/same.h"
#include "input/data/unpack.h"

enum { BLOCK = 1 << 22 };

static ls_status check_kind(const char *path, lsi_text text)
{
    const lsi_magic magic = lsi_magic_of(text.at, text.n);
    if (magic == LSI_MAGIC_NONE)
        return LS_OK;
    return lsi_fail(LS_ERR_FORMAT,
                    "'%s' is %s, not text; a tokenizer needs UTF-8 text", path,
                    lsi_magic_name(magic));
}

static ls_status open_file(lsi_text_file *file)
{
    struct stat info;
    /* Nothing can be mapped of an empty file, and it may be one of many. */
    if (stat(file->path, &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_size == 0)
        return LS_OK;
    LS_TRY(lsi_records_load(&file->mapped, file->path));
    file->text = (lsi_text){file->mapped.data, file->mapped.bytes};
    return check_kind(file->path, file->text);
}

static ls_status open_all(lsi_corpus *c, const char *const *paths, size_t n)
{
    LS_TRY(lsi_alloc_zeroed(&c->files, n * sizeof(lsi_text_file),
                            LS_MEMORY_DATA, "a list of files"));
    while (c->n < n) {
        lsi_text_file *const file = &c->files[c->n];
        *file =
            (lsi_text_file){.path = paths[c->n++], .first_block = c->blocks};
        LS_TRY(open_file(file));
        c->blocks += file->text.n / BLOCK + 1;
        c->bytes += file->text.n;
    }
    return LS_OK;
}

static void write_line(const void *list, size_t i, char text[LSI_LINE_BYTES])
{
    const lsi_text_file *const file = &((const lsi_text_file *)list)[i];
    snprintf(text, LSI_LINE_BYTES, "text '%.200s' of %zu bytes", file->path,
             file->text.n);
}

ls_status lsi_corpus_open(lsi_corpus *out, ls_group *group,
                          const char *const *paths, size_t n)
{
    bool agreed = false;
    *out = (lsi_corpus){.n = 0};
    LS_TRY(lsi_share_outcome(group, open_all(out, paths, n), &agreed));
    return lsi_same_listing(group, &(lsi_listing){.list = out->files,
                                                  .n = out->n,
                                                  .line = write_line,
                                                  .what = "data"});
}

void lsi_corpus_close(lsi_corpus *corpus)
{
    for (size_t i = 0; i < corpus->n; i++)
        lsi_records_release(&corpus->files[i].mapped);
    lsi_free(corpus->files);
    *corpus = (lsi_corpus){.n = 0};
}

/* Where block `index` of a file begins. */
static size_t block_begin(const struct ls_tokenizer *t, lsi_text text,
                          size_t index)
{
    if (index == 0)
        return 0;
    return index * BLOCK < text.n ? lsi_text_cut(t, text, index * BLOCK)
                                  : text.n;
}

ls_status lsi_corpus_read_block(const lsi_corpus *corpus,
                                const struct ls_tokenizer *t, size_t index,
                                lsi_corpus_part *out)
{
    size_t i = corpus->n - 1;
    char name[512];
    while (corpus->files[i].first_block > index)
        i--;
    const lsi_text_file *const file = &corpus->files[i];
    const size_t own = index - file->first_block;
    const size_t begin = block_begin(t, file->text, own);
    const size_t end = block_begin(t, file->text, own + 1);
    *out = (lsi_corpus_part){.text = {file->text.at + begin, end - begin},
                             .offset = begin,
                             .path = file->path,
                             .first = own == 0,
                             .last = own == file->text.n / BLOCK};
    snprintf(name, sizeof name, "'%s'", file->path);
    return lsi_text_check(out->text, begin, name);
}
