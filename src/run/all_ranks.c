/* The records of several ranks as one list. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "optim/grad_tree.h"
#include "run/records.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void rp_all_ranks_init(struct rp_all_ranks *a, struct rp_degrees degrees)
{
    const int ranks = degrees.data * degrees.tensor * degrees.pipeline;
    *a = (struct rp_all_ranks){.degrees = degrees, .ranks = ranks, .share = rp_alloc((size_t)ranks * sizeof *a->share),
                               .micro = rp_alloc((size_t)degrees.data * sizeof *a->micro)};
}

void rp_all_ranks_fini(struct rp_all_ranks *a)
{
    free(a->share);
    free(a->clock);
    free(a->span);
    free(a->seconds);
    for (int i = 0; a->micro && i < a->degrees.data; i++)
        free(a->micro[i].loss);
    free(a->micro);
    *a = (struct rp_all_ranks){0};
}

static float *seconds_of(const struct rp_all_ranks *a, int rank, enum rp_rank_time what)
{
    return a->seconds + ((int64_t)rank * RP_RANK_TIMES + what) * a->steps;
}

const float *rp_rank_seconds(const struct rp_all_ranks *a, int rank, enum rp_rank_time what)
{
    return seconds_of(a, rank, what);
}

static float seconds_or_none(int64_t ns)
{
    return ns < 0 ? NAN : (float)((double)ns / 1e9);
}

/* The times of the next rank. Their number is that of the first one, as join_records() refuses any other. */
static void keep_times(struct rp_all_ranks *a, const struct rp_records *rs)
{
    int64_t at = 0;
    if (a->n == 0) {
        for (int64_t i = 0; i < rs->n; i++)
            a->steps += rs->r[i].step >= 0;
        a->steps = a->ranks < 2 || a->steps > RP_RANK_STEPS_KEPT / a->ranks ? 0 : a->steps;
        a->seconds =
            a->steps ? rp_alloc((size_t)a->ranks * RP_RANK_TIMES * (size_t)a->steps * sizeof *a->seconds) : NULL;
    }
    for (int64_t i = 0; i < rs->n && at < a->steps; i++) {
        const struct rp_step_record *r = &rs->r[i];
        if (r->step < 0)
            continue;
        seconds_of(a, a->n, RP_RANK_STEP)[at] = seconds_or_none(r->end_ns - r->start_ns);
        const struct rp_record_times t = rp_record_times(rs, r);
        seconds_of(a, a->n, RP_RANK_EXCHANGE)[at] = seconds_or_none(t.exchange_ns);
        seconds_of(a, a->n, RP_RANK_WAIT)[at++] = seconds_or_none(t.wait_ns);
    }
}

static uint64_t digest_lengths(const struct rp_records *rs)
{
    uint64_t digest = 14695981039346656037u; /* FNV-1a by words, and its high bits mixed in */
    int64_t steps = 0, fine = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        if (rs->r[i].step < 0)
            continue;
        const int64_t ns = rs->r[i].end_ns - rs->r[i].start_ns;
        digest = (digest ^ (uint64_t)ns) * 1099511628211u;
        digest ^= digest >> 29;
        fine += ns % 1000 != 0;
        steps++;
    }
    return steps >= RP_LENGTHS_LEAST && fine ? digest | 1 : 0;
}

static struct rp_rank_share share_of(const struct rp_records *rs)
{
    struct rp_rank_share s = {.overlap_ns = rs->overlaps ? rs->overlap_ns : -1, .from_ns = -1};
    for (int64_t i = 0; i < rs->n; i++) {
        const struct rp_step_record *r = &rs->r[i];
        const struct rp_record_times t = rp_record_times(rs, r);
        if (r->step >= 0) {
            s.begun_ns = s.samples ? s.begun_ns : r->start_ns;
            s.ended_ns = r->end_ns;
            s.samples = r->samples;
        }
        if (r->step >= 0 && t.wait_ns < 0)
            s.wait_ns = -1;
        if (!r->timed)
            continue;
        s.from_ns = s.from_ns < 0 ? r->start_ns : s.from_ns;
        s.span_ns = r->end_ns - s.from_ns;
        s.exchange_ns += t.exchange_ns > 0 ? t.exchange_ns : 0;
        s.wait_ns += s.wait_ns >= 0 ? t.wait_ns : 0;
    }
    s.lengths = digest_lengths(rs);
    memcpy(s.sha256, rs->sha256, sizeof s.sha256);
    return s;
}

/* Times may be any, also of a bundle that is attacked: what does not fit stays at the end of the range. */
static int64_t shift_time(int64_t ns, int64_t by)
{
    int64_t sum;
    return __builtin_add_overflow(ns, by, &sum) ? (by < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* The steps of rank a->n on the clock of rank 0. */
static void add_spans(struct rp_all_ranks *a, const struct rp_records *one, int64_t n)
{
    const struct rp_rank_clock *c = &a->clock[a->n];
    if (!a->span) {
        a->span = rp_alloc(((size_t)n + 1) * sizeof *a->span);
        for (int64_t i = 0; i < n; i++)
            a->span[i] = (struct rp_step_span){.begun_ns = INT64_MIN, .ended_ns = INT64_MAX};
    }
    for (int64_t i = 0; i < n && i < one->n && c->error_ns >= 0; i++) {
        struct rp_step_span *s = &a->span[i];
        const int64_t begun = shift_time(shift_time(one->r[i].start_ns, -c->offset_ns), -c->error_ns);
        const int64_t ended = shift_time(shift_time(one->r[i].end_ns, -c->offset_ns), c->error_ns);
        if (begun > s->begun_ns)
            *s = (struct rp_step_span){begun, s->ended_ns, a->n, s->ended_on};
        if (ended < s->ended_ns)
            *s = (struct rp_step_span){s->begun_ns, ended, s->begun_on, a->n};
    }
}

static int fail_difference(const struct rp_records *one, const struct rp_step_record *r, const char *what,
                           const char *is, const char *first, struct rp_err *err)
{
    return rp_fail(err, RP_MISMATCH, "steps/rank%d.jsonl: step %d: %s is %.66s, on rank 0 it is %.66s", one->rank,
                   r->step, what, is, first);
}

static int differ_float(const struct rp_records *one, const struct rp_step_record *r, const char *what, float is,
                        float first, struct rp_err *err)
{
    char a[32], b[32];
    rp_float_hex(a, is);
    rp_float_hex(b, first);
    return fail_difference(one, r, what, a, b, err);
}

/* What every rank records of the same step. Bits of floats: no loss is NaN. */
static int check_ranks_agree(const struct rp_records *all, const struct rp_records *one, int64_t i, struct rp_err *err)
{
    const struct rp_step_record *x = &all->r[i], *y = &one->r[i];
    char is[RP_SHA256_HEX], first[RP_SHA256_HEX];
    if (x->step != y->step || x->timed != y->timed || x->repeat != y->repeat || !x->root != !y->root)
        return rp_fail(err, RP_MISMATCH,
                       "steps/rank%d.jsonl: record %" PRId64
                       " is of another step, phase or repeat than on rank 0, or only one of them has a state root",
                       one->rank, i + 1);
    if (memcmp(&x->loss, &y->loss, sizeof x->loss) != 0)
        return differ_float(one, y, "loss", y->loss, x->loss, err);
    if (x->scale != y->scale || x->overflow != y->overflow)
        return rp_fail(err, RP_MISMATCH, "steps/rank%d.jsonl: step %d: another loss_scale or overflow than on rank 0",
                       one->rank, y->step);
    if (memcmp(&x->grad_norm, &y->grad_norm, sizeof x->grad_norm) != 0)
        return differ_float(one, y, "grad_norm", y->grad_norm, x->grad_norm, err);
    if (x->learning_rate < y->learning_rate || x->learning_rate > y->learning_rate)
        return rp_fail(err, RP_MISMATCH, "steps/rank%d.jsonl: step %d: another learning_rate than on rank 0", one->rank,
                       y->step);
    for (int k = 0; y->step >= 0 && k < all->part.n; k++)
        if (memcmp(&rp_record_loss_parts(all, x)[k], &rp_record_loss_parts(one, y)[k], sizeof(float)) != 0)
            return differ_float(one, y, all->part.name[k], rp_record_loss_parts(one, y)[k],
                                rp_record_loss_parts(all, x)[k], err);
    rp_record_root(is, one, y);
    rp_record_root(first, all, x);
    if (strcmp(is, first) != 0)
        return fail_difference(one, y, "state_root", is, first, err);
    rp_record_keyed_root(is, one, y);
    rp_record_keyed_root(first, all, x);
    return strcmp(is, first) != 0 ? fail_difference(one, y, "keyed_root", is, first, err) : 0;
}

static int add_counts(struct rp_records *all, const struct rp_records *one, int64_t i, struct rp_err *err)
{
    struct rp_step_record *x = &all->r[i];
    const struct rp_step_record *y = &one->r[i];
    uint64_t samples = (uint64_t)x->samples + y->samples;
    int full = samples > UINT32_MAX;
    x->samples = (uint32_t)samples;
    for (int k = 0; y->step >= 0 && k < all->counter.n; k++) {
        uint32_t *to = &all->count[i * all->counter.n + k];
        uint64_t sum = (uint64_t)*to + rp_record_counts(one, y)[k];
        full |= sum > UINT32_MAX;
        *to = (uint32_t)sum;
    }
    return full ? rp_fail(err, RP_MISMATCH, "step %d: the ranks counted more than 2^32", y->step) : 0;
}

/* The times of a rank that took longer. */
static void take_times(struct rp_records *all, const struct rp_records *one)
{
    for (int64_t i = 0; i < all->n; i++) {
        struct rp_step_record *to = &all->r[i];
        const struct rp_step_record *from = &one->r[i];
        to->start_ns = from->start_ns;
        to->end_ns = from->end_ns;
        to->root_ns = from->root_ns;
        to->input_ns = from->input_ns;
    }
    if (!all->times && one->times)
        all->times = rp_alloc((size_t)all->n * sizeof *all->times);
    for (int64_t i = 0; all->times && i < all->n; i++)
        all->times[i] = rp_record_times(one, &one->r[i]);
}

static int same_names(const struct rp_record_names *a, const struct rp_record_names *b)
{
    int same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = strcmp(a->name[i], b->name[i]) == 0;
    return same;
}

static int join_records(struct rp_all_ranks *a, struct rp_records *all, const struct rp_records *one,
                        struct rp_err *err)
{
    if (one->n != all->n)
        return rp_fail(err, RP_MISMATCH, "steps/rank%d.jsonl has %" PRId64 " records, that of rank 0 %" PRId64,
                       one->rank, one->n, all->n);
    if (!same_names(&all->part, &one->part) || !same_names(&all->counter, &one->counter))
        return rp_fail(err, RP_MISMATCH, "steps/rank%d.jsonl has other loss parts or counters than that of rank 0",
                       one->rank);
    /* The ranks of the first stage with the first part of each tensor: together they have all samples once. */
    const int counts = a->n % a->degrees.tensor == 0 && a->n < a->degrees.tensor * a->degrees.data;
    for (int64_t i = 0; i < all->n; i++)
        if (check_ranks_agree(all, one, i, err) < 0 || (counts && add_counts(all, one, i, err) < 0))
            return -1;
    if (a->share[a->n].span_ns > a->share[a->slowest].span_ns) {
        a->slowest = a->n;
        take_times(all, one);
    }
    return 0;
}

/* ---- losses of micro-batches ---- */

/* Those of rank a->n, which has as many records as the first: ranks that share a model have the same. They move out of
 * *one. */
static int take_micros(struct rp_all_ranks *a, struct rp_records *one, struct rp_err *err)
{
    struct rp_rank_micros *m = &a->micro[a->n / a->degrees.tensor % a->degrees.data];
    const int is_first = a->n < a->degrees.tensor * a->degrees.data && a->n % a->degrees.tensor == 0;
    if (!is_first && m->n != one->micros)
        return rp_fail(err, RP_MISMATCH,
                       "steps/rank%d.jsonl: a step has %d micro_losses, on a rank with the same samples %d", one->rank,
                       one->micros, m->n);
    for (int64_t i = 0; !is_first && m->n && i < one->n; i++)
        if (one->r[i].step >= 0 &&
            memcmp(m->loss + i * m->n, rp_record_micro_losses(one, &one->r[i]), (size_t)m->n * sizeof *m->loss) != 0)
            return rp_fail(err, RP_MISMATCH,
                           "steps/rank%d.jsonl: step %d: other micro_losses than on a rank with the same samples",
                           one->rank, one->r[i].step);
    if (is_first) {
        *m = (struct rp_rank_micros){one->micros, one->micro_loss};
        one->micro_loss = NULL;
    }
    return 0;
}

/* A step's loss is the balanced tree over those of its micro-batches, times 1/n. */
static int check_mean(const struct rp_records *all, const struct rp_step_record *r, struct rp_err *err)
{
    const float *micro = rp_record_micro_losses(all, r);
    struct rp_grad_tree tree;
    struct rp_losses sum;
    rp_grad_tree_init(&tree, NULL, NULL, RP_GRADIENT_BLOCKS, 0);
    for (int i = 0; i < all->micros; i++)
        rp_grad_tree_push(&tree, i, &(struct rp_losses){.loss = micro[i]});
    rp_grad_tree_finish(&tree, &sum);
    const float mean = sum.loss * (1.0f / (float)all->micros);
    if (memcmp(&mean, &r->loss, sizeof mean) == 0)
        return 0;
    return rp_fail(err, RP_MISMATCH, "step %d: the mean of its %d micro_losses is %a, its loss is %a", r->step,
                   all->micros, (double)mean, (double)r->loss);
}

/* Joins those of all ranks, in their order, which is that of the samples. */
static int join_micros(struct rp_all_ranks *a, struct rp_records *all, struct rp_err *err)
{
    const int ranks = a->degrees.data;
    int64_t micros = 0, lacking = 0;
    for (int i = 0; i < ranks; i++) {
        micros += a->micro[i].n;
        lacking += a->micro[i].n == 0;
    }
    if (micros && (lacking || micros > RP_MICRO_LOSSES_STEP || micros * all->n > RP_MICRO_LOSSES_RUN))
        return rp_fail(err, RP_MISMATCH, "%s", lacking ? "some ranks have micro_losses, and others do not"
                                                       : "the ranks have more micro_losses than a run may have");
    all->micros = (int)micros;
    all->micro_loss = ranks == 1 ? a->micro[0].loss
                      : micros   ? rp_alloc((size_t)(micros * all->n) * sizeof *all->micro_loss)
                                 : NULL;
    for (int64_t i = 0, at = 0; ranks > 1 && micros && i < all->n; i++)
        for (int k = 0; k < ranks; at += a->micro[k++].n)
            memcpy(all->micro_loss + at, a->micro[k].loss + i * a->micro[k].n,
                   (size_t)a->micro[k].n * sizeof *all->micro_loss);
    for (int k = 0; k < ranks; k++) {
        if (ranks > 1)
            free(a->micro[k].loss);
        a->micro[k].loss = NULL;
    }
    for (int64_t i = 0; micros && i < all->n; i++)
        if (all->r[i].step >= 0 && check_mean(all, &all->r[i], err) < 0)
            return -1;
    return 0;
}

int rp_all_ranks_add(struct rp_all_ranks *a, struct rp_records *all, struct rp_records *one, struct rp_err *err)
{
    RP_BUG_IF(a->n >= a->ranks);
    a->share[a->n] = share_of(one);
    if (a->clock && a->ranks > 1)
        add_spans(a, one, a->n ? all->n : one->n);
    if (a->keep)
        keep_times(a, one);
    if ((a->n && join_records(a, all, one, err) < 0) || take_micros(a, one, err) < 0) {
        rp_records_fini(one);
        return -1;
    }
    if (a->n == 0) {
        *all = *one;
        *one = (struct rp_records){.rank = one->rank};
    } else {
        rp_records_fini(one);
    }
    if (++a->n < a->ranks)
        return 0;
    if (join_micros(a, all, err) < 0)
        return -1;
    if (a->ranks == 1)
        return 0;
    RP_BUF digests = {0};
    for (int i = 0; i < a->ranks; i++)
        rp_buf_printf(&digests, "%s\n", a->share[i].sha256);
    rp_sha256_hex(all->sha256, digests.data, digests.size);
    return 0;
}
