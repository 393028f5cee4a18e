#include "bench.h"
#include <sqlite3.h>
static int row(void *sum, int count, char **values, char **names) {
    (void)names;
    for (int i = 0; i < count; i++)
        for (const char *c = values[i] ? values[i] : "NULL"; *c; c++) *(unsigned long *)sum = *(unsigned long *)sum * 33 + *c;
    return 0;
}
unsigned long work(void) {
    sqlite3 *db;
    unsigned long sum = 0;
    static const char *const script[] = {
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL); CREATE INDEX i ON t(b)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 6000) INSERT INTO t SELECT x, printf('%05d', x * 7919 % 10007), x / 7.0 FROM n",
        "UPDATE t SET c = c * 2 WHERE b LIKE '%7%'; DELETE FROM t WHERE a % 11 = 0",
        "SELECT substr(b, 1, 2), count(*), round(sum(c), 3) FROM t GROUP BY 1 ORDER BY 2, 1",
        "SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.b WHERE x.a % 50 = 1 ORDER BY y.c LIMIT 100",
        "SELECT a, rank() OVER (PARTITION BY a % 5 ORDER BY b) FROM t LIMIT 300",
    };
    if (sqlite3_open(":memory:", &db)) abort();
    for (unsigned i = 0; i < sizeof script / sizeof *script; i++)
        if (sqlite3_exec(db, script[i], row, &sum, 0)) puts(sqlite3_errmsg(db)), exit(1);
    sqlite3_close(db);
    return sum;
}
