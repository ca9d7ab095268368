/* Float functions on eight numbers at once (256 bits), or on sixteen (512 bits). */
#pragma once
#include "kernels.h"
#include <immintrin.h>

/* e^x for x <= 0, accurate to a few units in the last place: 2^n times a polynomial. In this order
 * of max NaN stays NaN. */
#define DEFINE_EXP(NAME, TARGET, BITS, ROUND, SCALE_BY_2_TO)                                       \
    TARGET static inline __m##BITS NAME(__m##BITS x) {                                             \
        static const float COEFFICIENTS[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, \
                                             1.6666665459e-1f, 5.0000001201e-1f};                  \
        x = _mm##BITS##_max_ps(_mm##BITS##_set1_ps(-87.3f), x);                                    \
        const __m##BITS n = ROUND(_mm##BITS##_mul_ps(x, _mm##BITS##_set1_ps(1.44269504f)),         \
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);                  \
        __m##BITS r = _mm##BITS##_fnmadd_ps(n, _mm##BITS##_set1_ps(0.693359375f), x);              \
        r = _mm##BITS##_fnmadd_ps(n, _mm##BITS##_set1_ps(-2.12194440e-4f), r);                     \
        __m##BITS y = _mm##BITS##_set1_ps(1.9875691500e-4f);                                       \
        for (int i = 0; i < 5; i++)                                                                \
            y = _mm##BITS##_fmadd_ps(y, r, _mm##BITS##_set1_ps(COEFFICIENTS[i]));                  \
        y = _mm##BITS##_fmadd_ps(y, _mm##BITS##_mul_ps(r, r),                                      \
                                 _mm##BITS##_add_ps(r, _mm##BITS##_set1_ps(1.0f)));                \
        return SCALE_BY_2_TO(y, n);                                                                \
    }

/* y * 2^n for a whole number n */
AVX2 static inline __m256 scale_by_2_to(__m256 y, __m256 n) {
    const __m256i shift =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(y, _mm256_castsi256_ps(shift));
}

DEFINE_EXP(exp_256, AVX2, 256, _mm256_round_ps, scale_by_2_to)
DEFINE_EXP(exp_512, AVX512, 512, _mm512_roundscale_ps, _mm512_scalef_ps)

/* The sum of the two halves. */
AVX512 ALWAYS_INLINE __m256 fold_512(__m512 x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x),
                         _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
}

/* The sum of all lanes. */
AVX2 static inline float hsum_256(__m256 x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

AVX512 static inline float hsum_512(__m512 x) { return hsum_256(fold_512(x)); }
