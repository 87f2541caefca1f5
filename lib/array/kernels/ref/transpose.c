/* The transpose of a matrix. */
#include <string.h>

#include "array/kernels/ref/ref.h"

/* By memcpy: the elements may be no floats. */
void lsi_ref_transpose(float *y, size_t ldy, const float *x, size_t ldx,
                       size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c++)
        for (size_t r = 0; r < rows; r++)
            memcpy(y + c * ldy + r, x + r * ldx + c, sizeof *y);
}
