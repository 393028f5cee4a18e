/* The geometry of the queries. Compiled as it is for the server and for domains. */
#include "polygons.h"

double poly_size(const struct sfi_point *p, size_t n)
{
    double sum = 0;

    for (size_t i = 0, j = n - 1; i < n; j = i++) sum += p[j].x * p[i].y - p[i].x * p[j].y;
    return sum < 0 ? -sum / 2 : sum / 2;
}

int poly_contains(const struct sfi_point *p, size_t n, const struct sfi_point *point)
{
    int inside = 0;

    for (size_t i = 0, j = n - 1; i < n; j = i++)
        if ((p[i].y > point->y) != (p[j].y > point->y) &&
            point->x < (p[j].x - p[i].x) * (point->y - p[i].y) / (p[j].y - p[i].y) + p[i].x)
            inside = !inside;
    return inside;
}

int poly_within(const struct sfi_point *p, size_t n, const struct sfi_point *center, double radius)
{
    for (size_t i = 0; i < n; i++) {
        double x = p[i].x - center->x, y = p[i].y - center->y;

        if (x * x + y * y > radius * radius) return 0;
    }
    return 1;
}

/* Says whether an edge has points in a box, by the method of Liang and Barsky. */
static int edge_meets(const struct sfi_point *a, const struct sfi_point *b, const double *box)
{
    double from = 0, to = 1, dx = b->x - a->x, dy = b->y - a->y;
    double step[4] = {-dx, dx, -dy, dy};
    double room[4] = {a->x - box[2], box[0] - a->x, a->y - box[3], box[1] - a->y};

    for (int i = 0; i < 4; i++) {
        if (step[i] == 0) {
            if (room[i] < 0) return 0;
        } else {
            double at = room[i] / step[i];

            if (step[i] < 0 && at > from) from = at;
            if (step[i] > 0 && at < to) to = at;
        }
    }
    return from <= to;
}

int poly_overlaps(const struct sfi_point *p, size_t n, const double *box)
{
    struct sfi_point corner = {box[2], box[3]};

    for (size_t i = 0, j = n - 1; i < n; j = i++)
        if (edge_meets(&p[j], &p[i], box)) return 1;
    return poly_contains(p, n, &corner);
}

const double *poly_square(const struct sfi_point *center, double side)
{
    static double box[4];

    box[0] = center->x + side / 2;
    box[1] = center->y + side / 2;
    box[2] = center->x - side / 2;
    box[3] = center->y - side / 2;
    return box;
}
