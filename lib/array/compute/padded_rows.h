/* Rows of images with zeros around them, and memory for them. */
#ifndef LS_ARRAY_COMPUTE_PADDED_ROWS_H
#define LS_ARRAY_COMPUTE_PADDED_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Images are (h, w, c). */
typedef struct lsi_padded {
    int64_t h, w, c;
    int64_t top, left;  /* zeros before the image; below 0: pixels left out */
    int64_t tall, wide; /* rows, and pixels of a row */
} lsi_padded;

/* Whether no pixel is a zero, so that rows can be read where they are. */
static inline bool lsi_padded_is_bare(const lsi_padded *p)
{
    return p->top <= 0 && p->left <= 0 && p->tall - p->top <= p->h &&
           p->wide - p->left <= p->w;
}

/* The pixel (0, 0) of rows without zeros. */
static inline const float *lsi_padded_bare(const lsi_padded *p,
                                           const float *image)
{
    return image - (p->top * p->w + p->left) * p->c;
}

static inline void lsi_padded_row(const lsi_padded *p, float *to,
                                  const float *image, int64_t row)
{
    const int64_t y = row - p->top;
    int64_t begin = p->left > 0 ? p->left : 0, end = p->left + p->w;
    if (end > p->wide)
        end = p->wide;
    if (y < 0 || y >= p->h || begin >= end)
        begin = end = p->wide;
    const size_t pixel = (size_t)p->c * sizeof(float);
    memset(to, 0, (size_t)begin * pixel);
    if (begin < end)
        memcpy(to + begin * p->c, image + (y * p->w + begin - p->left) * p->c,
               (size_t)(end - begin) * pixel);
    memset(to + end * p->c, 0, (size_t)(p->wide - end) * pixel);
}

/* Bytes that lsi_carve takes. */
static inline size_t lsi_carved(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Takes memory of a block, 64-byte aligned, from *next on. */
static inline void *lsi_carve(char **next, size_t bytes)
{
    void *const at = *next;
    *next += lsi_carved(bytes);
    return at;
}

#endif
