/*
 * The user's cache folder for Lockstep: $XDG_CACHE_HOME/lockstep, by default
 * ~/.cache/lockstep (XDG Base Directory Specification). A relative
 * XDG_CACHE_HOME counts as not set.
 */
#ifndef LS_BASE_CACHE_PATH_H
#define LS_BASE_CACHE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The reason if neither variable leads to a folder. */
#define LSI_NO_CACHE_PATH "neither XDG_CACHE_HOME nor HOME is an absolute path"

/* The path of a file there. False without such a folder, or if it is too long.
 */
bool lsi_cache_path(const char *name, char *out, size_t bytes);

#endif
