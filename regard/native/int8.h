/* Between linear.c and int8.c. */
#pragma once
#include "kernels.h"

/* outputs in a panel */
int panel(int at_level);

/* A row as bytes of 1..255, 128 for nothing, and what one of them is worth. */
float quantise(const float *x, long width, uint8_t *q);

/* y of the panels start..end, of rows that were quantised */
void int8_outputs(const Part *part, const uint8_t *q, const float *worth, long rows, long start, long end, int relu, float *y);
