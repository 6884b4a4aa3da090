/* How recipe keys agree with each other. One check is one statement; it blames the key that a user would change. */
#include "base/text.h"
#include "recipe/keys.h"

#include <string.h>

#define REFUSE(field, ...) return (*key = RP_KEY_##field, rp_fail(err, RP_USAGE, __VA_ARGS__))

static int check_model(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    if (r->model_hidden_size % r->model_num_attention_heads != 0)
        REFUSE(model_num_attention_heads, "model.hidden_size %lld is not divisible by model.num_attention_heads %lld",
               (long long)r->model_hidden_size, (long long)r->model_num_attention_heads);
    if (r->task_seq_length > r->model_max_position_embeddings)
        REFUSE(task_seq_length, "task.seq_length %lld is more than model.max_position_embeddings %lld", (long long)r->task_seq_length,
               (long long)r->model_max_position_embeddings);
    if (r->task_max_predictions > r->task_seq_length)
        REFUSE(task_max_predictions, "task.max_predictions_per_seq %lld is more than task.seq_length %lld",
               (long long)r->task_max_predictions, (long long)r->task_seq_length);
    return 0;
}

/* Whether a recipe's own numbers agree; a run that was told otherwise on the command line or by its backend's section keeps the
 * global batch on record as what the schedule was written for. */
static int global_batch_is_own(const struct rp_recipe *r)
{
    return r->train_batch_size != RP_BATCH_MAX && r->origin[RP_KEY_train_batch_size] < RP_FROM_BACKEND &&
           r->origin[RP_KEY_train_accumulation_steps] < RP_FROM_BACKEND && r->origin[RP_KEY_train_global_batch_size] < RP_FROM_BACKEND;
}

static int check_training(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    int64_t product = r->train_batch_size * r->train_accumulation_steps * r->parallel_data;
    if (r->train_global_batch_size && global_batch_is_own(r) && r->train_global_batch_size != product)
        REFUSE(train_global_batch_size,
               "train.global_batch_size %lld is not train.batch_size %lld * train.accumulation_steps %lld * parallel.data %lld = %lld",
               (long long)r->train_global_batch_size, (long long)r->train_batch_size, (long long)r->train_accumulation_steps,
               (long long)r->parallel_data, (long long)product);
    if (!r->train_global_batch_size && r->origin[RP_KEY_train_accumulation_steps] == RP_FROM_BACKEND)
        REFUSE(train_accumulation_steps, "train.accumulation_steps in a backend section needs train.global_batch_size, so that the batch "
                                         "the schedule is written for stays on record");
    if (r->schedule_warmup_steps > r->schedule_total_steps)
        REFUSE(schedule_warmup_steps, "schedule.warmup_steps %lld is more than schedule.total_steps %lld",
               (long long)r->schedule_warmup_steps, (long long)r->schedule_total_steps);
    return 0;
}

static int check_device(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    const char *d = r->run_device;
    if (d && *d && strncmp(d, "GPU-", 4) != 0 && strncmp(d, "MIG-", 4) != 0 && d[strspn(d, "0123456789")])
        REFUSE(run_device, "run.device '%.64s': a number from 0 or a UUID as nvidia-smi -L prints it (GPU-...) is meant", d);
    return 0;
}

static int check_data(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    const char *sha = r->data_sha256;
    if (sha && !rp_is_sha256(sha))
        REFUSE(data_sha256, "data.sha256: expected 64 lower-case hex digits, as sha256sum prints them");
    if (r->data_archive && r->data_path)
        REFUSE(data_path,
               "data.path and data.archive exclude each other: data.archive is pinned by its digest, data.path is the user's own");
    if (r->data_archive && !sha)
        REFUSE(data_archive, "data.archive needs data.sha256: an archive is pinned by its digest (sha256sum FILE)");
    if (sha && !r->data_archive)
        REFUSE(data_sha256, "data.sha256 is the digest of data.archive, which is not set");
    if (r->data_archive && strchr(r->data_archive, '/'))
        REFUSE(data_archive, "data.archive: expected a file name without directories; the archive lies beside the recipe or is embedded");
    return 0;
}

int rp_recipe_check(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    if (check_model(r, key, err) < 0 || check_training(r, key, err) < 0)
        return -1;
    return check_device(r, key, err) < 0 ? -1 : check_data(r, key, err);
}
