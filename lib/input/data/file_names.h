/*
 * Lists of names, such as those of the images in a folder.
 */
#ifndef LS_INPUT_DATA_FILE_NAMES_H
#define LS_INPUT_DATA_FILE_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* One after the other; at[i] is where name i begins. */
typedef struct lsi_file_names {
    char *text;
    size_t bytes, room;
    size_t *at;
    int64_t count, most;
} lsi_file_names;

ls_status lsi_file_names_add(lsi_file_names *all, const char *name);
void lsi_file_names_free(lsi_file_names *all);

/* Valid until the next one is added. */
const char *lsi_file_names_at(const lsi_file_names *all, int64_t index);

/* Sorts those from `begin` on. */
void lsi_file_names_sort(lsi_file_names *all, int64_t begin);

/* Lists a folder: calls `fn` with each name, except hidden ones. */
typedef ls_status (*lsi_file_name_fn)(lsi_file_names *out, const char *path,
                                      const char *name);
ls_status lsi_file_names_list(const char *path, lsi_file_names *out,
                              lsi_file_name_fn fn);

/*
 * Adds a name that ends as one of an image that is read. Other files are
 * ignored, except images that would be missed: LS_ERR_FORMAT.
 */
ls_status lsi_file_names_add_if_image(lsi_file_names *out, const char *path,
                                      const char *name);

/*
 * Adds the path of a file of any name, or of all images in a folder and in the
 * folders inside it. Images are in the order of their paths, and may be of
 * kinds that are not read. LS_ERR_FORMAT if none is found.
 */
ls_status lsi_file_names_add_images(lsi_file_names *out, const char *path);

#endif
