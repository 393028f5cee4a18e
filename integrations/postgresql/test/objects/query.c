/* Functions that make queries. */
#include "sfi_pg.h"

/* Returns all values of an answer, with commas and semicolons. */
static const char *answer(int64_t rows, struct sfi_call *call)
{
    char *text = sfi_result(1 << 16);
    size_t length = 0;

    for (int64_t row = 0; row < rows; row++) {
        for (int column = 0;; column++) {
            int64_t size = sfi_cell(row, column, text + length + 1, 1000);

            if (size == -2) break;
            text[length++] = column ? ',' : ';';
            if (size >= 0) length += size < 1000 ? size : 1000;
            else text[length++] = '-';
        }
    }
    call->length = length;
    return text;
}

const char *ask(const char *sql, size_t length, struct sfi_call *call)
{
    return answer(sfi_query(sql, length, 0, 0), call);
}
const char *ask_too(const char *sql, size_t length, struct sfi_call *call) { return ask(sql, length, call); }

const char *ask_with(const char *sql, size_t length, const char *a, size_t an, const char *b, size_t bn, struct sfi_call *call)
{
    struct sfi_text parameters[2] = {{call->nulls & 2 ? 0 : a, an}, {call->nulls & 4 ? 0 : b, bn}};

    return answer(sfi_query(sql, length, parameters, 2), call);
}

int64_t rows(const char *sql, size_t length) { return sfi_query(sql, length, 0, 0); }

/* The answer of an earlier call. */
int64_t later(int row) { char buffer[8]; return sfi_cell(row, 0, buffer, sizeof buffer); }

int64_t lie(int how)
{
    static const char sql[] = "SELECT repeat('x', 100)";
    char buffer[8];

    switch (how) {
    case 0: return sfi_query((const char *)16, 10, 0, 0);
    case 1: return sfi_query(sql, 1ul << 40, 0, 0);
    case 2: return sfi_query(sql, sizeof sql - 1, (const struct sfi_text *)16, 1);
    case 3: return sfi_query(sql, sizeof sql - 1, (const struct sfi_text *)sql, 1ul << 60);
    case 4: return sfi_query("SELECT '\xff'", 10, 0, 0);
    case 5: return sfi_query("SELECT 1\0", 9, 0, 0);
    }
    sfi_query(sql, sizeof sql - 1, 0, 0);
    switch (how) {
    case 6: return sfi_cell(1ul << 63, 0, buffer, 8);
    case 7: return sfi_cell(0, 1ul << 32, buffer, 8);
    case 8: return sfi_cell(0, 0, (char *)16, 100);
    case 9: return sfi_cell(0, 0, buffer, 8);
    default: return sfi_cell(0, 0, 0, 0);
    }
}

/* Goes on asking after an error. */
int64_t stubborn(int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) sum += sfi_query("SELECT 1/0", 10, 0, 0);
    return sum;
}
