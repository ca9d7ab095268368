/* Shared by linear.c, int8.c and shortlist.c. */
#pragma once
#include "kernels.h"

enum { INPUT_MAX = 127 }; /* the largest quantised input */

/* x = (q - zero_point) * scale */
struct QParams {
    float scale;
    int32_t zero_point;
};

/* Outputs in a panel of packed int8 weights. */
int int8_panel_width(int isa);

/* Quantises a row to 0..INPUT_MAX. */
QParams quantise(const float *x, long width, uint8_t *q);

/* y of the panels start..end, for quantised rows */
void int8_outputs(const Linear *layer, const uint8_t *q, const QParams *qparams, long rows,
                  long start, long end, int relu, float *y);
