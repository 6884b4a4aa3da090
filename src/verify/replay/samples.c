/* How many samples a step has twice. */
#include "verify/replay/samples.h"

#include "base/buf.h"
#include "data/shuffle.h"

#include <stdlib.h>

int rp_samples_are_distinct(const struct rp_recipe *r)
{
    if (r->workload == RP_MODEL_resnet50)
        return r->data_augment != RP_AUGMENT_none;
    return r->model_hidden_dropout_prob > 0 || r->model_attention_probs_dropout_prob > 0 ||
           (r->workload == RP_MODEL_gpt && r->model_embedding_dropout_prob > 0);
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int64_t rp_samples_repeated(const struct rp_recipe *r, int64_t step, int64_t n, int64_t records)
{
    const int64_t first = step * n;
    int64_t same = 0;
    if (n > records)
        return n - records;
    if (first / records == (first + n - 1) / records ||
        (r->workload == RP_MODEL_gpt && r->data_order != RP_DATA_ORDER_philox))
        return 0;
    RP_FREE int64_t *at = rp_alloc((size_t)n * sizeof *at);
    for (int64_t i = 0; i < n; i++)
        at[i] = rp_sample_record(first + i, records, (int)r->data_shuffle, (uint64_t)r->seed_data);
    qsort(at, (size_t)n, sizeof *at, by_number);
    for (int64_t i = 1; i < n; i++)
        same += at[i] == at[i - 1];
    return same;
}
