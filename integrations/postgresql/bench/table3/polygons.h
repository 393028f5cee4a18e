/* Geometry over polygons. A box is its upper right corner and then its lower left one. */
#ifndef POLYGONS_H
#define POLYGONS_H

#include <stddef.h>

struct sfi_point {
    double x, y;
};

double poly_size(const struct sfi_point *p, size_t n);
int poly_contains(const struct sfi_point *p, size_t n, const struct sfi_point *point);
int poly_within(const struct sfi_point *p, size_t n, const struct sfi_point *center, double radius);
int poly_overlaps(const struct sfi_point *p, size_t n, const double *box);
const double *poly_square(const struct sfi_point *center, double side);

#endif
