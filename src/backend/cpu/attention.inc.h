/* The operations of attention: heads, or parts of them, divided among threads; see attention_head.inc.h.
 * Compiled once per instruction set by ops_<isa>.c. */

/* A part of a head: all of it, or, forward, some of its queries; backward, half of the parts compute dk and dv of some
 * keys, and the others dq of some queries. The longest parts come first. */
static void attention_part(struct head *x, int split)
{
    const struct att_job *o = x->o;
    const int causal = o->a->causal, both = o->d_o && o->splits > 1, pieces = both ? o->splits / 2 : o->splits;
    const int keys = both && split < pieces;
    const long each = ((x->seq + pieces - 1) / pieces + BLOCK - 1) / BLOCK * BLOCK;
    const long piece = keys || !causal ? split % pieces : pieces - 1 - split % pieces;
    const long from = least_of(piece * each, x->seq), to = least_of(from + each, x->seq);
    if (from == to)
        return;
    if (!o->d_o)
        forward_head(x, from, to);
    else if (!both)
        backward_head(x, (struct gradient){0, x->seq, 0, x->seq, 1, 1});
    else if (keys)
        backward_head(x, (struct gradient){causal ? from : 0, x->seq, from, to, 0, 1});
    else
        backward_head(x, (struct gradient){from, to, 0, causal ? to : x->seq, 1, 0});
}

static void attention_parts(void *arg, int part, int thread)
{
    const struct att_job *o = arg;
    int groups = blocks_of(o->a->heads, o->heads_each), split = part % o->splits, group = part / o->splits;
    int first = group % groups * o->heads_each;
    for (int h = first; h < o->a->heads && h < first + o->heads_each; h++) {
        struct head x = head_of(o, group / groups, h, thread);
        attention_part(&x, split);
    }
}

/* Consecutive heads of a sample use its rows of qkv while they are cached; if there are few samples, their heads are
 * distributed, and if there are few heads and many tokens, the heads are split. Split backward, scores are computed
 * twice: 7 products instead of 5. */
static void attention_run(struct att_job *o)
{
    const int heads = o->a->batch * o->a->heads, threads = o->cpu->threads, most = blocks_of(o->a->seq, 2 * BLOCK);
    o->heads_each = o->a->batch >= 8 * threads ? o->a->heads : 1;
    o->splits = 1;
    if (!o->d_o && heads < 4 * threads)
        o->splits = (int)least_of(blocks_of(4 * threads, heads), most);
    else if (o->d_o && most > 1 && 3 * heads < 2 * threads * blocks_of(heads, threads))
        o->splits = 2 * (int)least_of(blocks_of(4 * threads, heads), most);
    rp_pool_run(o->cpu->pool, o->a->batch * blocks_of(o->a->heads, o->heads_each) * o->splits, attention_parts, o);
}

static void cpu_attention_forward(struct rp_dev *dev, float *o, float *row_max, float *row_inv, uint8_t *mask,
                                  const float *qkv, const struct rp_attention *a)
{
    struct att_job job = {.cpu = rp_cpu_of(dev), .a = a, .qkv = qkv, .out = o, .row_max = row_max, .row_inv = row_inv,
                          .mask = dropout_on(&a->drop) ? mask : NULL, .decider = decider_of(&a->drop, a->seq),
                          .width = (long)a->heads * a->head_dim};
    if (rp_is_mixed(dev->numerics)) {
        low_attention_forward(dev, o, row_max, row_inv, mask, qkv, a);
        return;
    }
    job.decider.before = (long)a->first_head * a->seq;
    attention_run(&job);
}

static void cpu_attention_backward(struct rp_dev *dev, const struct rp_attention_grad *g)
{
    const struct rp_attention *a = g->a;
    int aligned = a->seq % RP_COLSUM_ROWS == 0;
    struct att_job job = {.cpu = rp_cpu_of(dev), .a = a, .qkv = g->qkv, .d_o = g->d_o, .o = g->o, .out = g->dqkv,
                          .max_in = g->row_max, .inv_in = g->row_inv, .decided = dropout_on(&a->drop) ? g->mask : NULL,
                          .work = aligned ? g->work : NULL, .decider = decider_of(&a->drop, a->seq),
                          .width = (long)a->heads * a->head_dim};
    if (rp_is_mixed(dev->numerics)) {
        low_attention_backward(dev, g);
        return;
    }
    attention_run(&job);
    if (aligned)
        colsum_finish(job.cpu, 1, (float *const[3]){g->dbias}, (float *const[3]){g->work}, (long)a->batch * a->seq,
                      3 * job.width);
    else
        cpu_colsum(dev, g->dbias, g->dqkv, a->batch * a->seq, (int)(3 * job.width), g->work);
}
