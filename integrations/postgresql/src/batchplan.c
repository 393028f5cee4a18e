/* The pass over finished plans that puts SfiBatch in place of scans of tables, and of nested loops,
 * whose conditions call functions in LANGUAGE sfi.
 *
 * The node reads rows ahead. An error must come only if its row is reached (LIMIT). So what runs
 * ahead cannot fail: scans without conditions or with leakproof ones, arguments that are columns.
 * The order of conditions stays, and with it the one of security levels. Plans that lock or change
 * the rows that they read are left alone, and so are cursors that can go back. */
#include "pgsfi.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "commands/proclang.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "batchplan.h"

static planner_hook_type previous;

/* The plan in progress. */
typedef struct Pass {
    Oid language;
    int next_id; /* of plan nodes */
} Pass;

/* New nodes get identifiers from here on: no plan has as many nodes. */
#define FIRST_ID 1000000

/* Says whether calls of a function may be put together. */
static bool is_suitable(Oid oid, Oid language)
{
    HeapTuple tuple;
    Form_pg_proc form;
    bool suitable;

    if (oid < FirstNormalObjectId) return false;
    tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
    if (!HeapTupleIsValid(tuple)) return false;
    form = (Form_pg_proc) GETSTRUCT(tuple);
    suitable = form->prolang == language && form->proisstrict && !form->proretset && form->provolatile != PROVOLATILE_VOLATILE &&
               form->prokind == PROKIND_FUNCTION && !form->prosecdef && heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL) &&
               form->pronargs <= MAX_WORDS && get_typbyval(form->prorettype);
    ReleaseSysCache(tuple);
    return suitable && !FmgrHookIsNeeded(oid);
}

static bool is_call(Expr *expression, Oid *function, List **arguments)
{
    if (IsA(expression, FuncExpr)) {
        *function = ((FuncExpr *) expression)->funcid;
        *arguments = ((FuncExpr *) expression)->args;
        return true;
    }
    if (IsA(expression, OpExpr)) {
        *function = ((OpExpr *) expression)->opfuncid;
        *arguments = ((OpExpr *) expression)->args;
        return true;
    }
    return false;
}

/* Finds the call in a condition: in the place of the result, or on a side of a comparison. */
static Expr *find_call(Expr *condition, bool (*wanted)(Oid function, Oid which), Oid which, int *side)
{
    Oid function;
    List *arguments, *inner;

    *side = -1;
    if (!is_call(condition, &function, &arguments)) return NULL;
    if (wanted(function, which)) return condition;
    /* A comparison that cannot fail. */
    if (!IsA(condition, OpExpr) || list_length(arguments) != 2 || !get_func_leakproof(function)) return NULL;
    for (int i = 0; i < 2; i++) {
        Expr *call = list_nth(arguments, i), *other = list_nth(arguments, 1 - i);

        *side = i;
        if ((IsA(other, Const) || IsA(other, Param)) && is_call(call, &function, &inner) && wanted(function, which)) return call;
    }
    return NULL;
}

static bool is_this(Oid function, Oid which)
{
    return function == which;
}

bool pgsfi_batch_condition(Expr *condition, Oid function, List **arguments, Expr **test)
{
    int side;
    Expr *call = find_call(condition, is_this, function, &side);

    if (!call || !is_call(call, &function, arguments)) return false;
    *test = NULL;
    if (side >= 0) {
        CaseTestExpr *result = makeNode(CaseTestExpr);

        result->typeId = exprType((Node *) call);
        result->typeMod = exprTypmod((Node *) call);
        result->collation = exprCollation((Node *) call);
        *test = copyObject(condition);
        lfirst(list_nth_cell(((OpExpr *) *test)->args, side)) = result;
    }
    return true;
}

const Var *pgsfi_batch_column(const Expr *argument)
{
    while (IsA(argument, RelabelType)) argument = ((const RelabelType *) argument)->arg;
    return IsA(argument, Var) ? (const Var *) argument : NULL;
}

static bool has_var_of(Node *node, int *side)
{
    if (!node) return false;
    if (IsA(node, Var)) return ((Var *) node)->varno == *side;
    return expression_tree_walker(node, has_var_of, side);
}

static bool is_subplan(Node *node, void *unused)
{
    if (!node) return false;
    if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan)) return true;
    return expression_tree_walker(node, is_subplan, unused);
}

/* Returns the function of a condition that a batch can evaluate, or InvalidOid. `side` has the rows
 * of the batch. */
static Oid stage_function(Expr *condition, const Pass *pass, int side)
{
    int place;
    Oid function;
    List *arguments;
    ListCell *cell;
    Expr *call = find_call(condition, is_suitable, pass->language, &place);

    if (!call || !is_call(call, &function, &arguments)) return InvalidOid;
    if (!has_var_of((Node *) arguments, &side)) return InvalidOid;
    foreach(cell, arguments) {
        Node *argument = lfirst(cell);
        const Var *column = pgsfi_batch_column((Expr *) argument);

        if (column ? column->varattno <= 0
                   : has_var_of(argument, &side) || contain_volatile_functions(argument) || is_subplan(argument, NULL))
            return InvalidOid;
    }
    return function;
}

/* Says whether a condition can run ahead: it does not fail, and has no effects. */
static bool is_quiet(Node *condition)
{
    return !contain_leaked_vars(condition) && !contain_volatile_functions(condition) && !is_subplan(condition, NULL);
}

static bool are_columns(List *targets)
{
    ListCell *cell;

    foreach(cell, targets) {
        Var *column = (Var *) lfirst_node(TargetEntry, cell)->expr;

        if (!IsA(column, Var) || column->varattno <= 0) return false;
    }
    return true;
}

/* Says whether a plan is a scan that can run ahead. */
static bool is_quiet_scan(Plan *plan)
{
    ListCell *cell;

    if (!plan || !IsA(plan, SeqScan) || plan->initPlan || !are_columns(plan->targetlist)) return false;
    foreach(cell, plan->qual)
        if (!is_quiet(lfirst(cell))) return false;
    return true;
}

/* The columns of the new node's scan tuple. */
typedef struct Columns {
    int outer, inner; /* the sides in the old expressions; 0: none */
    List *targets;
    List *numbers; /* in the rows of the sides; negative: of the outer one */
    List *scanned; /* the targets of an inner scan, whose columns lead to those of its table */
    bool failed;
} Columns;

static Node *move(Node *node, Columns *columns)
{
    if (!node) return NULL;
    if (IsA(node, Var)) {
        Var *var = (Var *) node, *moved = copyObject(var);
        int at = 0, number = var->varattno;
        ListCell *cell;

        if (number <= 0 || (var->varno != columns->outer && var->varno != columns->inner)) {
            columns->failed = true;
            return node;
        }
        if (var->varno == columns->outer) number = -number;
        else if (columns->scanned)
            number = ((Var *) list_nth_node(TargetEntry, columns->scanned, number - 1)->expr)->varattno;
        moved->varno = INDEX_VAR;
        foreach(cell, columns->targets) {
            Var *known = (Var *) lfirst_node(TargetEntry, cell)->expr;

            at++;
            if (known->varno == var->varno && known->varattno == var->varattno) {
                moved->varattno = at;
                return (Node *) moved;
            }
        }
        columns->targets = lappend(columns->targets, makeTargetEntry(copyObject((Expr *) var), at + 1, NULL, false));
        columns->numbers = lappend_int(columns->numbers, number);
        moved->varattno = at + 1;
        return (Node *) moved;
    }
    return expression_tree_mutator(node, move, columns);
}

/* Makes the new node from the old one's head. */
static Plan *make(const Plan *old, List *conditions, List *functions, Columns *columns, Plan *outer, Plan *inner)
{
    CustomScan *scan = makeNode(CustomScan);
    Plan *plan = &scan->scan.plan;
    NodeTag tag = plan->type;

    *plan = *old;
    plan->type = tag;
    plan->parallel_aware = plan->async_capable = false;
    plan->qual = (List *) move((Node *) conditions, columns);
    plan->targetlist = (List *) move((Node *) old->targetlist, columns);
    plan->lefttree = outer;
    plan->righttree = inner;
    if (columns->failed) return NULL;
    scan->custom_scan_tlist = columns->targets;
    scan->custom_private = list_make2(columns->numbers, functions);
    scan->methods = &pgsfi_batch_methods;
    return plan;
}

/* Returns the functions of the first conditions from `from` on, as many as a batch can evaluate. */
static List *stages(List *conditions, int from, const Pass *pass, int side)
{
    List *functions = NIL;

    for (int i = from; i < list_length(conditions); i++) {
        Oid function = stage_function(list_nth(conditions, i), pass, side);

        if (!OidIsValid(function)) break;
        functions = lappend_oid(functions, function);
    }
    return functions;
}

static Plan *replace_scan(SeqScan *old, Pass *pass)
{
    Columns columns = {0, old->scan.scanrelid, NIL, NIL, NIL, false};
    List *conditions = old->scan.plan.qual, *functions;
    SeqScan *scan;
    Plan *plan;
    int first = 0;

    while (first < list_length(conditions) && is_quiet(list_nth(conditions, first))) first++;
    functions = stages(conditions, first, pass, old->scan.scanrelid);
    if (!functions) return NULL;
    scan = copyObject(old);
    scan->scan.plan.qual = list_truncate(scan->scan.plan.qual, first);
    scan->scan.plan.initPlan = NIL;
    plan = make(&old->scan.plan, list_copy_tail(conditions, first), functions, &columns, &scan->scan.plan, NULL);
    if (!plan) return NULL;
    scan->scan.plan.targetlist = copyObject(columns.targets);
    plan->plan_node_id = pass->next_id++;
    return plan;
}

static Plan *replace_loop(NestLoop *old, Pass *pass)
{
    Plan *inner = innerPlan(old);
    bool kept = IsA(inner, Material);
    Columns columns = {OUTER_VAR, INNER_VAR, NIL, NIL, kept ? NIL : inner->targetlist, false};
    List *conditions = list_concat_copy(old->join.joinqual, old->join.plan.qual), *functions;

    if (old->join.jointype != JOIN_INNER || old->join.inner_unique || old->nestParams) return NULL;
    if (kept ? inner->initPlan || !is_quiet_scan(outerPlan(inner)) : !is_quiet_scan(inner)) return NULL;
    functions = stages(conditions, 0, pass, INNER_VAR);
    if (!functions) return NULL;
    return make(&old->join.plan, conditions, functions, &columns, outerPlan(old), inner);
}

static void walk(Plan **plan, Pass *pass);

static void walk_list(List *plans, Pass *pass)
{
    ListCell *cell;

    foreach(cell, plans) walk((Plan **) &lfirst(cell), pass);
}

static void walk(Plan **place, Pass *pass)
{
    Plan *plan = *place, *other = NULL;

    if (!plan) return;
    check_stack_depth();
    if (IsA(plan, NestLoop)) other = replace_loop((NestLoop *) plan, pass);
    if (IsA(plan, SeqScan)) other = replace_scan((SeqScan *) plan, pass);
    if (other) {
        *place = other;
        /* The inner side, or the only one, has nothing more to replace. */
        if (innerPlan(other)) walk(&outerPlan(other), pass);
        return;
    }
    walk(&outerPlan(plan), pass);
    walk(&innerPlan(plan), pass);
    if (IsA(plan, Append)) walk_list(((Append *) plan)->appendplans, pass);
    if (IsA(plan, MergeAppend)) walk_list(((MergeAppend *) plan)->mergeplans, pass);
    if (IsA(plan, SubqueryScan)) walk(&((SubqueryScan *) plan)->subplan, pass);
}

static PlannedStmt *plan_batches(Query *query, const char *text, int options, ParamListInfo parameters)
{
    PlannedStmt *statement = previous ? previous(query, text, options, parameters) : standard_planner(query, text, options, parameters);
    bool goes_back = (options & CURSOR_OPT_SCROLL) || ((options & CURSOR_OPT_FAST_PLAN) && !(options & CURSOR_OPT_NO_SCROLL));
    Pass pass = {InvalidOid, FIRST_ID};

    if (pgsfi_batch < 2 || goes_back || statement->rowMarks || statement->hasModifyingCTE) return statement;
    if (statement->commandType != CMD_SELECT && statement->commandType != CMD_INSERT) return statement;
    pass.language = get_language_oid("sfi", true);
    if (!OidIsValid(pass.language)) return statement;
    walk(&statement->planTree, &pass);
    walk_list(statement->subplans, &pass);
    return statement;
}

void pgsfi_batch_init(void)
{
    RegisterCustomScanMethods(&pgsfi_batch_methods);
    previous = planner_hook;
    planner_hook = plan_batches;
}
