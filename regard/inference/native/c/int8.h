/* Between linear.c and int8.c. */
#pragma once
#include "kernels.h"

enum { MOST = 127 }; /* of a row's bytes */

/* what a row's bytes mean: (byte - zero) x one */
struct Worth {
    float one;
    int32_t zero;
};

/* outputs in a panel */
int panel(int at_level);

/* A row as bytes from 0 to MOST. */
Worth quantise(const float *x, long width, uint8_t *q);

/* y of the panels start..end, of rows that were quantised */
void int8_outputs(const Part *part, const uint8_t *q, const Worth *worth, long rows, long start, long end, int relu, float *y);
