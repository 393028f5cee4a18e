/* The conditions that SfiBatch takes. */
#ifndef PGSFI_BATCHPLAN_H
#define PGSFI_BATCHPLAN_H

#include "nodes/primnodes.h"

#pragma GCC visibility push(hidden)

/* Takes a condition apart: a call of `function`, or a comparison of one. *test becomes the
 * comparison, with a CaseTestExpr in place of the call, or NULL.
 * Returns false for all other conditions. */
extern bool pgsfi_batch_condition(Expr *condition, Oid function, List **arguments, Expr **test);
/* Returns the column that an argument is, or NULL. */
extern const Var *pgsfi_batch_column(const Expr *argument);

#pragma GCC visibility pop

#endif
