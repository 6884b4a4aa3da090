/* The recipe of a run: the file, the command line, and what they imply: micro-batches for all ranks, a title that stays
 * true, and notes about what a user may not expect. */
#include "backend/cpu/limits.h"
#include "cli/run_session.h"
#include "recipe/keys.h"
#include "worker/worker.h"

#include <ctype.h>
#include <inttypes.h>

#define PROBE_NS 150000000 /* of GEMM for the estimate: a run of seconds must not wait for it */

/* ---- layouts ---- */

/* "2x4x1": data, tensor, pipeline. */
int rp_run_parse_layout(struct rp_degrees *d, const char *text, struct rp_err *err)
{
    char end;
    char shown[72];
    if (sscanf(text, "%4dx%4dx%4d%c", &d->data, &d->tensor, &d->pipeline, &end) == 3 && d->data > 0 && d->tensor > 0 &&
        d->pipeline > 0 && d->data <= RP_BUNDLE_RANKS_MAX && d->tensor <= RP_BUNDLE_RANKS_MAX &&
        d->pipeline <= RP_BUNDLE_RANKS_MAX && (int64_t)d->data * d->tensor * d->pipeline <= RP_BUNDLE_RANKS_MAX)
        return 0;
    return rp_fail(err, RP_USAGE,
                   "--layout '%s': expected DATAxTENSORxPIPELINE, such as 2x4x1, of at most %d ranks in all",
                   rp_excerpt(shown, text), RP_BUNDLE_RANKS_MAX);
}

/* Without --layout the ranks divide tensors and layers as the recipe does, if their number allows it, and else
 * micro-batches alone. */
struct rp_degrees rp_run_default_layout(const struct rp_recipe *r, int n)
{
    const int tensor = (int)r->parallel_tensor, pipeline = (int)r->parallel_pipeline;
    if (n % (tensor * pipeline) == 0)
        return (struct rp_degrees){n / tensor / pipeline, tensor, pipeline};
    if (n % tensor == 0)
        return (struct rp_degrees){n / tensor, tensor, 1};
    if (n % pipeline == 0)
        return (struct rp_degrees){n / pipeline, 1, pipeline};
    return (struct rp_degrees){n, 1, 1};
}

/* ---- settings that follow from others ---- */

static void add_setting(struct rp_run_session *r, char *text)
{
    struct rp_opt_list *set = &r->own.set;
    const char **item = rp_alloc((size_t)(set->n + 1) * sizeof *item);
    for (int i = 0; i < set->n; i++)
        item[i] = set->item[i];
    item[set->n] = text;
    free(r->own_set);
    r->own_set = set->item = item;
    set->n++;
    r->implied[r->implied_n++] = text;
}

/* Ranks that divide the micro-batches of a step: those of --ranks or --layout. */
static int data_ranks(const struct rp_run_session *r)
{
    struct rp_degrees d = {1, 1, 1};
    struct rp_err ignored;
    if (r->o->layout)
        return rp_run_parse_layout(&d, r->o->layout, &ignored) < 0 ? 1 : d.data;
    return r->o->ranks > 1 ? rp_run_default_layout(&r->recipe, (int)r->o->ranks).data : 1;
}

/* A recipe with fewer micro-batches than ranks: each rank gets those of one, as with other launchers. */
static void imply_micro_batches(struct rp_run_session *r)
{
    const int ranks = data_ranks(r);
    const int64_t is = rp_recipe_micro_batches(&r->recipe), wanted = r->recipe.train_accumulation_steps * ranks;
    if (ranks <= is || r->recipe.origin[RP_KEY_train_accumulation_steps] == RP_FROM_COMMAND_LINE)
        return;
    add_setting(r, rp_asprintf("train.accumulation_steps=%" PRId64, wanted));
    rp_progress_note(&r->progress,
                     "%d ranks: the batch of each stays, and a step has %" PRId64 " micro-batches instead of %" PRId64
                     " (train.accumulation_steps=%" PRId64 ")",
                     ranks, wanted * r->recipe.parallel_data, is, wanted);
}

/* A GPU computes with the sums of its own tensor cores, which the recipe names. */
static void imply_tensor_core(struct rp_run_session *r)
{
    const struct rp_device_opts o = rp_job_device(&r->recipe);
    if (rp_is_mixed(o.numerics) && o.any_tensor_core && r->backend == &rp_worker_cuda && rp_worker_gpu_tensor_core(&o))
        add_setting(r, rp_asprintf("train.tensor_core=tc%d", rp_worker_gpu_tensor_core(&o)));
}

/* Replaces a whole word of the title. */
static void replace_word(char **title, const char *word, const char *by)
{
    const size_t n = strlen(word);
    for (char *at = strstr(*title, word); at; at = strstr(at + 1, word)) {
        if ((at > *title && isalnum((unsigned char)at[-1])) || isalnum((unsigned char)at[n]))
            continue;
        char *changed = rp_asprintf("%.*s%s%s", (int)(at - *title), *title, by, at + n);
        free(*title);
        *title = changed;
        return;
    }
}

static void batch_text(char out[32], const struct rp_recipe *r)
{
    if (r->train_batch_size == RP_BATCH_MAX)
        snprintf(out, 32, "batch max");
    else
        snprintf(out, 32, "batch %" PRId64, r->train_batch_size);
}

/* own: the recipe without the command line. A title that names precision and batch names those of the run. */
static void imply_title(struct rp_run_session *r, const struct rp_recipe *own)
{
    const struct rp_recipe *is = &r->recipe;
    char was[32], now[32];
    if (!own->title || is->origin[RP_KEY_title] != RP_FROM_RECIPE)
        return;
    RP_FREE char *title = rp_strdup(own->title);
    batch_text(was, own);
    batch_text(now, is);
    if (is->train_precision != own->train_precision)
        replace_word(&title, rp_choice_name(RP_PRECISIONS, own->train_precision),
                     rp_choice_name(RP_PRECISIONS, is->train_precision));
    if (strcmp(was, now) != 0)
        replace_word(&title, was, now);
    if (strcmp(title, own->title) != 0)
        add_setting(r, rp_asprintf("title=%s", title));
}

/* ---- loading ---- */

/* set 0: without the command line. */
static int load_once(const struct rp_run_session *r, struct rp_recipe *out, const char *backend, int set,
                     struct rp_err *err)
{
    int n;
    char **settings = rp_run_settings(r->o, &n);
    const int failed = r->from->load(r->from, out, backend, (const char *const *)settings, set ? n : 0, err) < 0;
    for (int i = 0; i < n; i++)
        free(settings[i]);
    free(settings);
    return failed ? -1 : 0;
}

/* What a user's recipe does not have in it and a run by it needs: not for replications, which repeat everything. */
static int add_implied(struct rp_run_session *r, struct rp_err *err)
{
    struct rp_recipe own;
    struct rp_err ignored; /* without its command line a recipe may be wrong */
    const int before = r->implied_n;
    if (load_once(r, &own, r->backend->name, 0, &ignored) == 0) {
        r->own_batch = own.train_batch_size * rp_recipe_micro_batches(&own);
        imply_title(r, &own);
        rp_recipe_fini(&own);
    }
    imply_micro_batches(r);
    imply_tensor_core(r);
    if (r->implied_n == before)
        return 0;
    rp_recipe_fini(&r->recipe);
    return load_once(r, &r->recipe, r->backend->name, 1, err);
}

int rp_run_load_recipe(struct rp_run_session *r, struct rp_err *err)
{
    /* The backend section that applies depends on the backend, which a key may name: hence the recipe is read twice. */
    if (load_once(r, &r->recipe, NULL, 1, err) < 0)
        return -1;
    r->backend = rp_job_backend(&r->recipe, &r->passed, err);
    rp_recipe_fini(&r->recipe);
    if (!r->backend || load_once(r, &r->recipe, r->backend->name, 1, err) < 0)
        return -1;
    return r->from->first ? 0 : add_implied(r, err);
}

/* ---- notes ---- */

void rp_run_note_batch(struct rp_run_session *r)
{
    const int64_t batch = r->plan.batch * rp_recipe_micro_batches(&r->recipe);
    if (!r->own_batch || batch == r->own_batch ||
        r->recipe.origin[RP_KEY_optimizer_learning_rate] == RP_FROM_COMMAND_LINE)
        return;
    rp_progress_note(&r->progress,
                     "%" PRId64 " samples a step instead of the recipe's %" PRId64
                     ", at its learning rate of %g (--set optimizer.learning_rate=X)",
                     batch, r->own_batch, r->recipe.optimizer_learning_rate);
}

struct rp_cpu_sharers rp_run_cpu_sharers(const struct rp_run_session *r)
{
    return r->job_of_many.several ? rp_run_job_cpu_sharers(&r->job_of_many)
                                  : (struct rp_cpu_sharers){.ranks = rp_degrees_world(r->degrees)};
}

void rp_run_note_processors(struct rp_run_session *r)
{
    const int here = rp_run_cpu_sharers(r).ranks, cpus = rp_cpu_count("/");
    if (r->backend->separate_memory)
        return;
    if (here > cpus)
        rp_progress_note(&r->progress, "%d ranks on %d processor%s of this machine: they take turns", here, cpus,
                         rp_s(cpus));
    else if (here * r->recipe.run_threads > cpus)
        rp_progress_note(&r->progress,
                         "%d threads on %d processor%s of this machine: they take turns, and each needs memory",
                         here * (int)r->recipe.run_threads, cpus, rp_s(cpus));
}

int rp_run_estimate(double seconds[2], const struct rp_run_session *r)
{
    const struct rp_plan *p = &r->plan;
    const double flops = p->hardware_flops_per_sample > 0 ? p->hardware_flops_per_sample : p->flops_per_sample;
    const double samples = (double)p->batch * (double)(rp_recipe_micro_batches(&r->recipe) * rp_job_steps(&r->recipe));
    if (rp_recipe_numerics(&r->recipe) != RP_NUMERICS_fp32_1) /* which the GEMM of the probe is not */
        return -1;
    return rp_pace(seconds, r->backend, &r->device, p, flops * samples / rp_degrees_world(r->degrees), PROBE_NS);
}

const char *rp_run_time_text(char out[RP_TIME_TEXT], const double seconds[2])
{
    const char *unit = seconds[1] < 120 ? "s" : seconds[1] < 7200 ? "minutes" : "hours";
    const double each = seconds[1] < 120 ? 1 : seconds[1] < 7200 ? 60 : 3600;
    double low = seconds[0] / each, high = seconds[1] / each;
    snprintf(out, RP_TIME_TEXT, "about %.*f to %.*f %s", low < 9.5, low, high < 9.5, high, unit);
    return out;
}
