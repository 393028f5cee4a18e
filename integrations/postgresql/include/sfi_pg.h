/* For authors of functions in LANGUAGE sfi. A function is plain C: each SQL argument is one or two
 * C arguments, in order, and the SQL result is the C result. README.md has the table of types.
 *
 * A function gets a last argument of type `struct sfi_call *` if it is not STRICT, if it returns a
 * set, or if it returns something of variable length. It may leave that argument out. */
#ifndef SFI_PG_H
#define SFI_PG_H

#include <stddef.h>
#include <stdint.h>

struct sfi_call {
    uint64_t nulls;   /* bit i: SQL argument i is NULL; its C arguments are 0 */
    uint64_t is_null; /* set it to 1: the result is NULL */
    uint64_t length;  /* set it: bytes, elements or points of a result of variable length */
    uint64_t row;     /* of a set: the number of the row, from 0 */
    uint64_t done;    /* of a set: set it to 1, there is no such row */
    uint64_t state;   /* of a set: yours, 0 at first, kept from row to row */
    uint64_t closed;  /* of a path: set it to 1, it is closed */
    uint64_t rows;    /* of a set: set it to return many rows at once, see sfi_rows */
    const struct sfi_column *values;
};

/* A column of a row. A row is a value of a composite type, or what RETURNS TABLE and OUT parameters
 * declare. It is a pointer to its columns and their number. */
struct sfi_column {
    union {
        int64_t number;
        float single;
        double real;
        const void *at;
    };
    uint64_t length;  /* bytes, elements or points of something of variable length */
    uint32_t is_null;
    uint32_t closed;  /* of a path */
};

/* Of a function that returns a set: returns `count` rows at once, which costs one call for all. The
 * result of the function does not count then. `values` are the rows, and each is as many columns as
 * the row's type has, or one column if the set is not of rows. With `call->done` they are the last
 * ones. The next call has the number of the row after them. */
static inline void sfi_rows(struct sfi_call *call, const struct sfi_column *values, size_t count)
{
    call->values = values;
    call->rows = count;
}

/* Of an array argument of a function that is not STRICT: a byte for each element, 1 if it is NULL.
 * The element is 0 then. */
#define sfi_array_nulls(elements, count) ((const unsigned char *)((elements) + (count)))

/* Of the `consistent` function of a GiST operator class. */
struct sfi_gist {
    uint64_t leaf;    /* 1: the key is an indexed value, 0: the union of many */
    uint64_t recheck; /* 1 at first; set it to 0: the answer is exact */
};

struct sfi_point {
    double x, y;
};

/* For a library whose functions only read their arguments, and neither return them nor give them to
 * sfi_log and sfi_query: once, outside of functions. Numbers, types of fixed size, text, bytea and
 * polygons then come without a copy where that is possible. */
#define SFI_READS_IN_PLACE int sfi_reads_in_place(void) { return 1; }

/* Memory for a result: at least `size` bytes, which stay until the next call of sfi_result. A fault
 * if there is no memory. */
void *sfi_result(size_t size);

/* Writes a line to the client and the server's log. */
enum { SFI_DEBUG = 0, SFI_LOG = 1, SFI_INFO = 2, SFI_NOTICE = 3, SFI_WARNING = 4 };
int sfi_log(int level, const char *text, size_t length);

/* Runs a statement of SQL as the role that called the function. Its parameters $1, $2, ... are
 * texts (cast them: $1::int); one with bytes 0 is NULL. Returns the number of rows, or -1 within a
 * query of the same library. An error ends the call and is the error of the caller's statement.
 *
 * The owner of the library needs the right `spi` (sfi.grant), and `spi write` for statements that
 * change something. Functions that are STABLE or IMMUTABLE only read. */
struct sfi_text {
    const char *bytes;
    uint64_t length;
};
int64_t sfi_query(const char *sql, size_t length, const struct sfi_text *parameters, size_t count);
/* Copies a value of the last query's answer as text, at most `room` bytes and without a zero at the
 * end. Returns its whole length, -1 for NULL, -2 if there is no such row or column. They count from
 * 0. The answer lasts until the library's next query, at most to the end of the transaction. */
int64_t sfi_cell(uint64_t row, uint64_t column, char *buffer, size_t room);

/* The C runtime for domains. */
void *malloc(size_t size);
void *realloc(void *block, size_t size);
void free(void *block);
void *memcpy(void *to, const void *from, size_t length);
void *memset(void *to, int byte, size_t length);
int memcmp(const void *a, const void *b, size_t length);
size_t strlen(const char *text);
int snprintf(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
