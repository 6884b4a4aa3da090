/* Checks of recipe keys against each other. Each blames the key that a user would change. */
#include "base/text.h"
#include "recipe/keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REFUSE(field, ...) return (*key = RP_KEY_##field, rp_fail(err, RP_USAGE, __VA_ARGS__))

/* Relations between two whole numbers of a recipe, by model. MULTIPLE_OF blames the second, AT_MOST the first. */
enum relation { MULTIPLE_OF, AT_MOST };
static const struct rule {
    unsigned models;
    int a;
    enum relation relation;
    int b;
} rules[] = {
#define RULE(models, a, relation, b) {models, RP_KEY_##a, relation, RP_KEY_##b}
    RULE(FOR(bert) | FOR(gpt), model_hidden_size, MULTIPLE_OF, model_num_attention_heads),
    RULE(FOR(bert) | FOR(gpt), task_seq_length, AT_MOST, model_max_position_embeddings),
    RULE(FOR(bert), task_max_predictions, AT_MOST, task_seq_length),
    RULE(FOR(gpt), model_vocab_size, AT_MOST, model_padded_vocab_size),
    RULE(FOR(gpt), model_num_attention_heads, MULTIPLE_OF, parallel_tensor),
    RULE(FOR(gpt), model_intermediate_size, MULTIPLE_OF, parallel_tensor),
    RULE(FOR(gpt), model_padded_vocab_size, MULTIPLE_OF, parallel_tensor),
    RULE(FOR(gpt), parallel_pipeline, AT_MOST, model_num_hidden_layers),
    RULE(FOR(resnet50), task_image_size, AT_MOST, data_short_side),
    RULE(ALL, schedule_warmup_steps, AT_MOST, schedule_total_steps),
    RULE(FOR(resnet50), schedule_steps_per_epoch, AT_MOST, schedule_total_steps),
};

static int check_rule(const struct rp_recipe *r, const struct rule *u, int *key, struct rp_err *err)
{
    const long long a = rp_key_int(r, u->a), b = rp_key_int(r, u->b);
    const int multiple = u->relation == MULTIPLE_OF;
    if (!(u->models & 1u << r->workload) || (multiple ? a % b == 0 : a <= b))
        return 0;
    *key = multiple ? u->b : u->a;
    return rp_fail(err, RP_USAGE, "%s %lld is %s %s %lld", rp_key_at(u->a)->name, a,
                   multiple ? "not divisible by" : "more than", rp_key_at(u->b)->name, b);
}

/* Whether all three numbers are the recipe's own. If the command line or the backend section changed one,
 * train.global_batch_size remains the batch that the schedule was written for. */
static int global_batch_is_own(const struct rp_recipe *r)
{
    return r->train_batch_size != RP_BATCH_MAX && r->origin[RP_KEY_train_batch_size] < RP_FROM_BACKEND &&
           r->origin[RP_KEY_train_accumulation_steps] < RP_FROM_BACKEND &&
           r->origin[RP_KEY_train_global_batch_size] < RP_FROM_BACKEND;
}

static int check_vocabulary(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    const int is_used = r->task_eod_mask_loss || r->task_reset_position_ids || r->task_reset_attention_mask;
    if (r->workload == RP_MODEL_gpt && is_used && r->task_eod_token >= r->model_vocab_size)
        REFUSE(task_eod_token, "task.eod_token %lld is not a token: model.vocab_size is %lld",
               (long long)r->task_eod_token, (long long)r->model_vocab_size);
    return 0;
}

/* Degrees are part of the arithmetic, and one rank computes them all. */
static int check_parallel(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    if (r->workload == RP_MODEL_gpt)
        return 0;
    if (r->parallel_tensor > 1)
        REFUSE(parallel_tensor, "parallel.tensor %lld: only gpt is divided over tensor-parallel ranks",
               (long long)r->parallel_tensor);
    if (r->parallel_pipeline > 1)
        REFUSE(parallel_pipeline, "parallel.pipeline %lld: only gpt is divided into stages",
               (long long)r->parallel_pipeline);
    return 0;
}

static int check_training(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    int64_t batch = r->train_batch_size * rp_recipe_micro_batches(r);
    if (r->train_global_batch_size && global_batch_is_own(r) && r->train_global_batch_size != batch)
        REFUSE(train_global_batch_size,
               "train.global_batch_size %lld is not train.batch_size %lld * train.accumulation_steps %lld * "
               "parallel.data %lld = %lld",
               (long long)r->train_global_batch_size, (long long)r->train_batch_size,
               (long long)r->train_accumulation_steps, (long long)r->parallel_data, (long long)batch);
    if (!r->train_global_batch_size && r->origin[RP_KEY_train_accumulation_steps] == RP_FROM_BACKEND)
        REFUSE(train_accumulation_steps,
               "train.accumulation_steps in a backend section needs train.global_batch_size, so that the batch "
               "of the schedule stays on record");
    return 0;
}

static int check_device(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    const char *d = r->run_device;
    if (d && *d && strncmp(d, "GPU-", 4) != 0 && strncmp(d, "MIG-", 4) != 0 && d[strspn(d, "0123456789")])
        REFUSE(run_device,
               "run.device '%.64s': expected a number from 0 or a UUID as nvidia-smi -L prints it (GPU-...)", d);
    return 0;
}

static int check_data(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    const char *sha = r->data_sha256;
    if (sha && !rp_is_sha256(sha))
        REFUSE(data_sha256, "data.sha256: expected 64 lower-case hex digits, as sha256sum prints them");
    if (r->data_archive && r->data_path)
        REFUSE(data_path, "data.path and data.archive exclude each other: data.archive is pinned by its digest, "
                          "data.path is the user's own");
    if (r->data_archive && !sha)
        REFUSE(data_archive, "data.archive needs data.sha256: an archive is pinned by its digest (sha256sum FILE)");
    if (sha && !r->data_archive)
        REFUSE(data_sha256, "data.sha256 is the digest of data.archive, which is not set");
    if (r->data_archive && strchr(r->data_archive, '/'))
        REFUSE(data_archive,
               "data.archive: expected a file name without directories; the archive is next to the recipe or embedded");
    return 0;
}

static int check_tokens(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    if (r->data_token_bytes == 3)
        REFUSE(data_token_bytes, "data.token_bytes 3: expected 2 or 4");
    if (r->data_split && r->data_format != RP_DATA_FORMAT_megatron)
        REFUSE(data_split, "data.split is for data.format megatron; of other formats all tokens are used");
    const char *order = rp_choice_name(RP_DATA_ORDERS, r->data_order);
    if (r->data_order == RP_DATA_ORDER_philox)
        return 0;
    if (r->data_format != RP_DATA_FORMAT_megatron)
        REFUSE(data_order, "data.order %s is for data.format megatron", order);
    if (!r->data_shuffle)
        REFUSE(data_shuffle, "data.order %s always shuffles: set data.shuffle to true, or data.order to philox", order);
    if (r->seed_data > UINT32_MAX)
        REFUSE(seed_data, "data.order %s: numpy's seeds end at %lld, seed.data is %lld", order, (long long)UINT32_MAX,
               (long long)r->seed_data);
    return 0;
}

/* Whether the text is n numbers from `low` to `most`, joined with ','; `whole` ones by request. */
static int is_list(const char *text, int n, double low, double most, int whole)
{
    for (int i = 0; i < n; i++) {
        char *end;
        double x = text && (*text == '.' || (*text >= '0' && *text <= '9')) ? strtod(text, &end) : -1;
        if (!(x >= low && x <= most) || (whole && x != (double)(long)x) ||
            (whole && strspn(text, "0123456789") != (size_t)(end - text)) || *end != (i + 1 < n ? ',' : '\0'))
            return 0;
        text = end + 1;
    }
    return 1;
}

#define BLOCKS_MOST 200

static int check_images(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    if (r->workload != RP_MODEL_resnet50) {
        if (r->optimizer_name == RP_OPTIMIZER_sgd || r->optimizer_name == RP_OPTIMIZER_lars)
            REFUSE(optimizer_name, "optimizer.name %s: only resnet50 is trained with it",
                   rp_choice_name(RP_OPTIMIZERS, r->optimizer_name));
        if (r->schedule_decay == RP_DECAY_step)
            REFUSE(schedule_decay, "schedule.decay step: only resnet50 has the keys of its epochs");
        return 0;
    }
    if (!is_list(r->model_blocks, 4, 1, BLOCKS_MOST, 1))
        REFUSE(model_blocks, "model.blocks: expected four whole numbers from 1 to %d, as 3,4,6,3", BLOCKS_MOST);
    if (!is_list(r->model_pixel_mean, 3, 0, 255, 0))
        REFUSE(model_pixel_mean, "model.pixel_mean: expected three numbers from 0 to 255, as 123.675,116.28,103.53");
    if (!is_list(r->model_pixel_std, 3, 1, 255, 0))
        REFUSE(model_pixel_std, "model.pixel_std: expected three numbers from 1 to 255, as 58.395,57.12,57.375");
    if (r->train_recompute == RP_RECOMPUTE_full)
        REFUSE(train_recompute, "train.recompute full: resnet50 has none and selective");
    const int epochs = r->schedule_whole_epochs || r->schedule_decay == RP_DECAY_step;
    if (epochs && !r->schedule_steps_per_epoch)
        REFUSE(schedule_steps_per_epoch, "schedule.steps_per_epoch is needed by %s",
               r->schedule_whole_epochs ? "schedule.whole_epochs" : "schedule.decay step");
    if (r->schedule_whole_epochs && r->schedule_warmup_steps % r->schedule_steps_per_epoch)
        REFUSE(schedule_warmup_steps, "schedule.warmup_steps %lld is not a number of whole epochs of %lld steps",
               (long long)r->schedule_warmup_steps, (long long)r->schedule_steps_per_epoch);
    if (r->schedule_whole_epochs && r->schedule_total_steps % r->schedule_steps_per_epoch)
        REFUSE(schedule_total_steps, "schedule.total_steps %lld is not a number of whole epochs of %lld steps",
               (long long)r->schedule_total_steps, (long long)r->schedule_steps_per_epoch);
    if (r->data_crop_area_min > r->data_crop_area_max)
        REFUSE(data_crop_area_min, "data.crop_area_min %g is more than data.crop_area_max %g", r->data_crop_area_min,
               r->data_crop_area_max);
    if (r->data_crop_ratio_min > r->data_crop_ratio_max)
        REFUSE(data_crop_ratio_min, "data.crop_ratio_min %g is more than data.crop_ratio_max %g",
               r->data_crop_ratio_min, r->data_crop_ratio_max);
    return 0;
}

static int is_power_of_two(double x)
{
    int exponent;
    return frexp(x, &exponent) == 0.5;
}

/* A loss that is not scaled has no keys of its scale, and a fixed scale has its first value alone. They are refused
 * where train.loss_scale is set, or later: an option may still take the dynamic scale out of a recipe. */
static int check_scaling(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    static const int dynamic[] = {RP_KEY_train_loss_scale_window, RP_KEY_train_loss_scale_hysteresis,
                                  RP_KEY_train_loss_scale_minimum, RP_KEY_train_loss_scale_growth_form,
                                  RP_KEY_optimizer_on_overflow, RP_KEY_train_loss_scale_initial};
    const size_t all = sizeof dynamic / sizeof *dynamic, n = r->train_loss_scale == RP_LOSS_SCALE_fixed ? all - 1 : all;
    for (size_t i = 0; r->train_loss_scale != RP_LOSS_SCALE_dynamic && i < n; i++)
        if (r->origin[dynamic[i]] != RP_FROM_DEFAULT && r->origin[dynamic[i]] >= r->origin[RP_KEY_train_loss_scale]) {
            *key = dynamic[i];
            return rp_fail(err, RP_USAGE, "%s has no effect with train.loss_scale %s", rp_key_at(dynamic[i])->name,
                           rp_choice_name(RP_LOSS_SCALES, r->train_loss_scale));
        }
    return 0;
}

/* Keys of mixed precision are refused in other recipes, where they have no effect. */
static int check_precision(const struct rp_recipe *r, int *key, struct rp_err *err)
{
    static const int scaling[] = {RP_KEY_train_loss_scale,         RP_KEY_train_loss_scale_initial,
                                  RP_KEY_train_loss_scale_window,  RP_KEY_train_loss_scale_hysteresis,
                                  RP_KEY_train_loss_scale_minimum, RP_KEY_train_loss_scale_growth_form,
                                  RP_KEY_optimizer_on_overflow};
    const char *precision = rp_choice_name(RP_PRECISIONS, r->train_precision);
    if (r->train_precision == RP_PRECISION_fp32 && r->train_tensor_core != RP_TENSOR_CORE_auto)
        REFUSE(train_tensor_core,
               "train.tensor_core %s: strict fp32 has no tensor cores; set train.precision to fp16 or bf16",
               rp_choice_name(RP_TENSOR_CORES, r->train_tensor_core));
    if (r->train_precision == RP_PRECISION_bf16 && r->train_tensor_core == RP_TENSOR_CORE_tc4)
        REFUSE(train_tensor_core,
               "train.tensor_core tc4: those tensor cores have no bf16; choose tc8, tc16 or train.precision fp16");
    for (size_t i = 0; r->train_precision != RP_PRECISION_fp16 && i < sizeof scaling / sizeof *scaling; i++)
        if (r->origin[scaling[i]] != RP_FROM_DEFAULT) {
            *key = scaling[i];
            return rp_fail(err, RP_USAGE, "%s is for train.precision fp16; with %s no loss is scaled",
                           rp_key_at(scaling[i])->name, precision);
        }
    if (check_scaling(r, key, err) < 0)
        return -1;
    if (!is_power_of_two(r->train_loss_scale_initial))
        REFUSE(train_loss_scale_initial, "train.loss_scale_initial %g is not a power of two, as 65536",
               r->train_loss_scale_initial);
    if (!is_power_of_two(r->train_loss_scale_minimum))
        REFUSE(train_loss_scale_minimum, "train.loss_scale_minimum %g is not a power of two, as 1",
               r->train_loss_scale_minimum);
    if (r->train_loss_scale_minimum > r->train_loss_scale_initial)
        REFUSE(train_loss_scale_minimum, "train.loss_scale_minimum %g is more than train.loss_scale_initial %g",
               r->train_loss_scale_minimum, r->train_loss_scale_initial);
    return 0;
}

int rp_recipe_check(const struct rp_recipe *r, int check, int *key, struct rp_err *err)
{
    static int (*const checks[])(const struct rp_recipe *, int *,
                                 struct rp_err *) = {check_vocabulary, check_parallel, check_training, check_precision,
                                                     check_images,     check_device,   check_data,     check_tokens};
    const int n_rules = sizeof rules / sizeof *rules, n = sizeof checks / sizeof *checks;
    if (check < n_rules)
        return check_rule(r, &rules[check], key, err);
    return check < n_rules + n ? checks[check - n_rules](r, key, err) : 1;
}
