/*
 * Text files of any size as blocks that threads and ranks process in turn.
 */
#ifndef LS_INPUT_TEXT_CORPUS_H
#define LS_INPUT_TEXT_CORPUS_H

#include "input/data/dataset.h"
#include "input/text/encode.h"
#include "lockstep/group.h"

typedef struct lsi_text_file {
    const char *path; /* the caller's */
    lsi_records mapped;
    lsi_text text;
    size_t first_block; /* of those of all files */
} lsi_text_file;

typedef struct lsi_corpus {
    lsi_text_file *files;
    size_t n, blocks, bytes;
} lsi_corpus;

/* A part of a file. It is empty if the part before it extends past its end. */
typedef struct lsi_corpus_part {
    lsi_text text;
    size_t offset; /* in the file */
    const char *path;
    bool first, last; /* of its file */
} lsi_corpus_part;

/*
 * Maps the files, which must not change while they are open, or unpacks those
 * that are packed (input/data/unpack.h). A file of a known kind that is not
 * text is LS_ERR_FORMAT, and one that is not the same on all ranks
 * LS_ERR_MISMATCH. Closed by lsi_corpus_close, also after an error. Collective.
 */
ls_status lsi_corpus_open(lsi_corpus *out, ls_group *group,
                          const char *const *paths, size_t n);
void lsi_corpus_close(lsi_corpus *corpus);

/*
 * Block `index` of corpus->blocks, divided where the tokenizer's words end;
 * LS_ERR_FORMAT with file and place if it is not UTF-8. A function of the files
 * alone. Local.
 */
ls_status lsi_corpus_read_block(const lsi_corpus *corpus,
                                const struct ls_tokenizer *t, size_t index,
                                lsi_corpus_part *out);

#endif
