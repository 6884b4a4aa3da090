/* Columns of tables that training scripts write, by their names.
 *
 * What:    what a column is for, whatever program wrote the table: scripts, TensorBoard, Lightning, Weights & Biases.
 * Flow:    name -> rp_columns_add() -> rp_columns_settle() after the last name -> the use of each column.
 * Owner:   struct rp_columns owns nothing.
 * Extend:  a name is a row of `names` in csv_columns.c.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define RP_COLUMNS_MAX 256

enum rp_column_use {
    RP_COLUMN_UNUSED,
    RP_COLUMN_STEP,
    RP_COLUMN_DURATION, /* seconds of the step */
    RP_COLUMN_DURATION_MS,
    RP_COLUMN_TIME, /* at the end of the step: seconds since any moment, or a date */
    RP_COLUMN_RATE,
    RP_COLUMN_FACT,
    RP_COLUMN_LEAST, /* least and most of what an export made one value of */
    RP_COLUMN_MOST,
    /* of Lightning's ThroughputMonitor: so far, of one device */
    RP_COLUMN_SECONDS,
    RP_COLUMN_BATCHES,
    RP_COLUMN_SAMPLES,
    RP_COLUMN_DEVICE_RATE,
};

struct rp_column {
    enum rp_column_use use;
    int vague;              /* of a duration: scripts also give this name to the time since the start */
    int rank;               /* of several columns of one use the least counts, and the first of these */
    const char *fact;       /* of a FACT */
    char name[64], run[64]; /* as given, cut; of the run in an export of W&B, or "" */
};

struct rp_columns {
    int n;
    struct rp_column column[RP_COLUMNS_MAX];
    const char *vague; /* the name of the durations, if it is vague; else NULL */
};

/* The column of that use; NULL: there is none. */
const struct rp_column *rp_columns_find(const struct rp_columns *c, enum rp_column_use use);
/* What a column of that name would be for. Adds it to the columns, if it is for anything or `all`. Its index, or -1. */
int rp_columns_add(struct rp_columns *c, const char *name, int all);
/* Uses of columns that need others. RP_MALFORMED: two runs, or nothing that tells a speed. where: of messages. */
int rp_columns_settle(struct rp_columns *c, const char *where, struct rp_err *err) rp_must_check;
/* Steps are counted by W&B: calls of wandb.log, one for each step of the training or several. */
int rp_columns_count_calls(const struct rp_columns *c);
