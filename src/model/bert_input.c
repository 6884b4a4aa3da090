/* From samples on the host to one micro-batch on the device: coefficients of the losses, and rows grouped by what they are summed into. */
#include "base/buf.h"
#include "model/bert.h"

#include <string.h>

static float sum128(const float *x, int n)
{
    float lane[128] = {0};
    for (int i = 0; i < n; i++)
        lane[i & 127] += x[i];
    for (int half = 64; half > 0; half >>= 1)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* By the upper halves, byte after byte; equal ones stay in their order. Returns where the result is: x or spare, n words each. */
static const uint64_t *sorted(uint64_t *x, uint64_t *spare, int n)
{
    uint64_t all = 0;
    for (int i = 0; i < n; i++)
        all |= x[i];
    for (int shift = 32; shift < 64 && all >> shift; shift += 8) {
        int at[257] = {0};
        for (int i = 0; i < n; i++)
            at[(x[i] >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            at[i + 1] += at[i];
        for (int i = 0; i < n; i++)
            spare[at[x[i] >> shift & 255]++] = x[i];
        uint64_t *done = spare;
        spare = x;
        x = done;
    }
    return x;
}

/* Keys ascending, sources ascending within a key. work: 2 * n words. */
static void group(struct rp_row_groups *g, const int32_t *keys, int n, uint64_t *work)
{
    /* the staging copy is writable; the struct is const for everybody else */
    int32_t *key = (int32_t *)g->key, *start = (int32_t *)g->start, *source = (int32_t *)g->source;
    for (int i = 0; i < n; i++)
        work[i] = (uint64_t)(uint32_t)keys[i] << 32 | (uint32_t)i;
    const uint64_t *pair = sorted(work, work + n, n);
    g->n = 0;
    for (int i = 0; i < n; i++) {
        int32_t k = (int32_t)(pair[i] >> 32);
        if (i == 0 || k != key[g->n - 1]) {
            key[g->n] = k;
            start[g->n++] = i;
        }
        source[i] = (int32_t)(uint32_t)pair[i];
    }
    start[g->n] = n;
}

/* The reader has checked every value with file and record; this guards memory against a caller that did not. */
static int check(const struct rp_bert_config *c, const struct rp_bert_samples *s, struct rp_err *err)
{
    for (int b = 0; b < c->batch; b++) {
        int attended = 0, bad = s->next[b] < 0 || s->next[b] > 1;
        for (int i = b * c->seq; i < (b + 1) * c->seq; i++) {
            attended |= s->mask[i];
            bad |= s->mask[i] > 1 || s->ids[i] < 0 || s->ids[i] >= c->vocab || s->types[i] < 0 || s->types[i] >= c->types;
        }
        for (int i = b * c->predictions; i < (b + 1) * c->predictions; i++)
            bad |= s->positions[i] < 0 || s->positions[i] >= c->seq || s->labels[i] < 0 || s->labels[i] >= c->vocab ||
                   !(s->weights[i] >= 0);
        if (bad || !attended)
            return rp_fail(err, RP_MALFORMED, "sample %d of the micro-batch has a value out of range or no token to attend to", b);
    }
    return 0;
}

static void fill(struct rp_bert_input *in, const struct rp_bert_config *c, const struct rp_bert_samples *s)
{
    int rows = c->batch * c->seq, predictions = c->batch * c->predictions;
    float total = sum128(s->weights, predictions) + 1e-5f;
    memcpy(in->ids, s->ids, (size_t)rows * 4);
    memcpy(in->types, s->types, (size_t)rows * 4);
    memcpy(in->key_mask, s->mask, (size_t)rows);
    memcpy(in->labels, s->labels, (size_t)predictions * 4);
    memcpy(in->nsp_labels, s->next, (size_t)c->batch * 4);
    in->tokens = 0;
    for (int i = 0; i < rows; i++)
        in->tokens += s->mask[i];
    for (int i = 0; i < predictions; i++) {
        in->masked[i] = i / c->predictions * c->seq + s->positions[i];
        in->coef[i] = s->weights[i] / total;
    }
    for (int b = 0; b < c->batch; b++) {
        in->cls[b] = b * c->seq;
        in->nsp_coef[b] = 1.0f / (float)c->batch;
    }
}

/* What the slot's pointers and counts become once the staging bytes are copied behind them. */
static void describe(struct rp_bert_input *slot, const struct rp_bert_input *staging)
{
    slot->tokens = staging->tokens;
    slot->by_word.n = staging->by_word.n;
    slot->by_position.n = staging->by_position.n;
    slot->by_type.n = staging->by_type.n;
    slot->by_masked.n = staging->by_masked.n;
    slot->by_cls.n = staging->by_cls.n;
}

int rp_bert_prepare(const struct rp_bert_config *c, struct rp_bert_input *in, const struct rp_bert_samples *s, struct rp_err *err)
{
    int rows = c->batch * c->seq, predictions = c->batch * c->predictions;
    if (check(c, s, err) < 0)
        return -1;
    fill(in, c, s);
    RP_FREE uint64_t *work = rp_alloc(2 * (size_t)rows * sizeof *work);
    RP_FREE int32_t *position = rp_alloc((size_t)rows * sizeof *position);
    for (int i = 0; i < rows; i++)
        position[i] = i % c->seq;
    group(&in->by_word, in->ids, rows, work);
    group(&in->by_position, position, rows, work);
    group(&in->by_type, in->types, rows, work);
    group(&in->by_masked, in->masked, predictions, work);
    group(&in->by_cls, in->cls, c->batch, work);
    return 0;
}

int rp_bert_upload(struct rp_bert *m, int micro, const struct rp_bert_input *staging, struct rp_err *err)
{
    RP_BUG_IF(micro < 0 || micro >= m->c.micros);
    describe(&m->input[micro], staging);
    return m->dev->backend->upload(m->dev, m->input[micro].start, staging->start, staging->bytes, err);
}

int rp_bert_input(struct rp_bert *m, int micro, const struct rp_bert_samples *s, struct rp_err *err)
{
    return rp_bert_prepare(&m->c, &m->staging, s, err) < 0 ? -1 : rp_bert_upload(m, micro, &m->staging, err);
}
