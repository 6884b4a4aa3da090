/* Losses of single micro-batches: recorded, joined over ranks, equal to the step's loss in the mean, and computed again
 * in parts. */
/* exhaustive */
#include "tests/unit/replay_fixture.h"

#include "optim/grad_tree.h"

#define MICROS 5
#define SETTING "train.accumulation_steps=5"

/* ---- replay of some ---- */

static int replay_micros(struct rp_replay_result *r, const char *steps, int64_t first, const char *init, int64_t micros,
                         struct rp_err *err)
{
    RP_FREE char *from = init ? fx_path(init) : NULL;
    const struct real *x = changed(SETTING);
    struct rp_replay_opts o = {
        .first = first, .steps = 1, .micros = micros, .data = x->data, .init = from, .threads = 1};
    *err = (struct rp_err){0};
    return replay_with(r, x->facts, steps, &o, err);
}

TEST(some_micro_batches_are_computed_again)
{
    const struct real *x = changed(SETTING);
    struct rp_replay_result r;
    struct rp_err err;
    int seen[MICROS] = {0}, all = 0;
    for (int i = 0; i < 40 && all < MICROS; i++) {
        CHECK(replay_micros(&r, x->steps.data, 0, NULL, 2, &err) == 0, "%s", err.msg);
        CHECK(!r.diverged && r.micros == 2 && r.of_micros == MICROS && r.steps == 0 && r.start_root, "%lld of %lld",
              (long long)r.micros, (long long)r.of_micros);
        CHECK(r.micro_batch[0] < r.micro_batch[1] && r.micro_batch[1] < MICROS, "which");
        for (int k = 0; k < 2; k++)
            all += !seen[r.micro_batch[k]]++;
        rp_replay_result_fini(&r);
    }
    CHECK(all == MICROS, "40 draws chose only %d of the micro-batches", all);
}

TEST(micro_batches_of_a_later_step_need_its_state)
{
    const struct real *x = changed(SETTING);
    struct rp_replay_result r;
    struct rp_err err;
    CHECK(replay_micros(&r, x->steps.data, 2, "changed.safetensors", 99, &err) == 0, "%s", err.msg);
    CHECK(!r.diverged && r.micros == MICROS && r.first == 2 && r.start_root, "all of step 2: diverged %d", r.diverged);
    rp_replay_result_fini(&r);
    CHECK(replay_micros(&r, x->steps.data, 2, NULL, 1, &err) < 0 && err.code == RP_UNAVAILABLE &&
              strstr(err.msg, "--init"),
          "%s", err.msg);
    rp_replay_result_fini(&r);
    CHECK(replay_micros(&r, x->steps.data, 2, "middle.safetensors", 1, &err) == 0 && r.diverged &&
              strcmp(r.quantity, "state_root") == 0,
          "the state of another run: %s", err.msg);
    rp_replay_result_fini(&r);
}

/* Two of them change places: their mean stays, and only a replay finds it. */
static char *swapped(const struct real *x)
{
    char *text = rp_strdup(x->steps.data), *at = strstr(text, "\"micro_losses\":\"");
    CHECK(at, "no micro_losses");
    char *first = at + strlen("\"micro_losses\":\""), *second = strchr(first, ' ') + 1;
    RP_FREE char *a = strndup(first, strcspn(first, " ")), *b = strndup(second, strcspn(second, " "));
    const size_t n = strlen(a), m = strlen(b);
    CHECK(strcmp(a, b) != 0, "the micro-batches have equal losses");
    memcpy(first, b, m);
    first[m] = ' ';
    memcpy(first + m + 1, a, n);
    return text;
}

TEST(a_wrong_loss_of_a_micro_batch_is_named)
{
    const struct real *x = changed(SETTING);
    struct rp_replay_result r;
    struct rp_err err;
    RP_FREE char *text = swapped(x);
    CHECK(replay_micros(&r, text, 0, NULL, MICROS, &err) == 0, "%s", err.msg);
    CHECK(r.diverged && r.step == 0 && r.micro == 0 && strcmp(r.quantity, "micro_losses") == 0,
          "diverged %d, micro-batch %lld", r.diverged, (long long)r.micro);
    RP_JSON *j = rp_replay_json(&r);
    CHECK(json_integer_value(rp_json_at(j, "divergence/micro_batch")) == 0 &&
              json_integer_value(rp_json_at(j, "micro_batches/of")) == MICROS,
          "json");
    rp_replay_result_fini(&r);
    struct rp_replay_opts whole = {.steps = 1, .data = x->data, .threads = 1};
    CHECK(replay_with(&r, x->facts, text, &whole, &err) == 0 && r.diverged && r.micro == 0, "a whole step: %s",
          err.msg);
    CHECK(replay_with(&r, x->facts, x->steps.data, &whole, &err) == 0 && !r.diverged, "%s", err.msg);
}

TEST(a_run_whose_step_is_one_micro_batch_has_no_parts)
{
    struct rp_replay_result r;
    struct rp_err err = {0};
    struct rp_replay_opts o = {.steps = 1, .micros = 1, .data = real()->data, .threads = 1};
    CHECK(!strstr(real()->steps.data, "micro_losses"), "recorded");
    CHECK(replay_with(&r, real()->facts, real()->steps.data, &o, &err) < 0 && err.code == RP_UNAVAILABLE, "%s",
          err.msg);
    CHECK(strstr(err.msg, "only one"), "%s", err.msg);
}

/* ---- records ---- */

#define LOSSES "0x1.8p+2 0x1.ap+2"
#define MEAN "0x1.9p+2" /* 6.25, of 6 and 6.5 */

/* Two steps of a rank with that loss, with micro_losses in the first and the second; NULL: none. */
static void records(struct rp_buf *out, int rank, const char *first, const char *second)
{
    const char *const micro[] = {first, second};
    for (int i = 0; i < 2; i++) {
        RP_BUF one = {0};
        fx_step(&one, i, 0, 2, 1000 * (i + 1), 100, i == 1 ? 50 : 0);
        const char *at = strstr(rp_buf_text(&one), "\"phase\""), *own = strstr(one.data, "\"rank\":0");
        CHECK(at && own, "%s", one.data);
        for (char *loss = one.data; (loss = strstr(loss, "\"0x1.8p+2\""));)
            memcpy(loss, "\"" MEAN "\"", strlen("\"" MEAN "\""));
        rp_buf_add(out, one.data, (size_t)(at - one.data));
        if (micro[i])
            rp_buf_printf(out, "\"micro_losses\":\"%s\",", micro[i]);
        rp_buf_add(out, at, (size_t)(own - at));
        rp_buf_printf(out, "\"rank\":%d%s", rank, own + strlen("\"rank\":0"));
    }
}

static int parse(struct rp_records *out, int rank, const char *first, const char *second, struct rp_err *err)
{
    RP_BUF text = {0};
    *err = (struct rp_err){0};
    records(&text, rank, first, second);
    return rp_records_parse_rank(out, rank, text.data, text.size, err);
}

TEST(losses_of_micro_batches_are_read_strictly)
{
    static const char *const bad[][2] = {
        {LOSSES, NULL}, {NULL, LOSSES}, {LOSSES, "0x1.8p+2"}, {"", ""}, {LOSSES " ", LOSSES " "},
        {" " LOSSES, " " LOSSES}, {"0x1.8p+2  0x1.ap+2", LOSSES}, {"0x1.8p+2,0x1.ap+2", LOSSES}, {"6 6.5", LOSSES},
        {"0x3p+1 0x1.ap+2", LOSSES},
    };
    struct rp_records rs;
    struct rp_err err;
    CHECK(parse(&rs, 0, LOSSES, LOSSES, &err) == 0, "%s", err.msg);
    CHECK(rs.micros == 2 && rp_record_micro_losses(&rs, &rs.r[1])[1] == 6.5f, "%d", rs.micros);
    rp_records_fini(&rs);
    CHECK(parse(&rs, 0, NULL, NULL, &err) == 0 && rs.micros == 0, "%s", err.msg);
    rp_records_fini(&rs);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(parse(&rs, 0, bad[i][0], bad[i][1], &err) < 0 && err.code == RP_MALFORMED &&
                  strstr(err.msg, "steps/rank0.jsonl:"),
              "case %zu: %s", i, err.msg);
    CHECK(parse(&rs, 0, "0x1.8p+2 inf", LOSSES, &err) < 0 && err.code == RP_MISMATCH, "%s", err.msg);
    RP_BUF many = {0};
    for (int i = 0; i <= RP_MICRO_LOSSES_STEP; i++)
        rp_buf_puts(&many, i ? " 0x1p+2" : "0x1p+2");
    CHECK(parse(&rs, 0, many.data, many.data, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    many.data[many.size - strlen(" 0x1p+2")] = 0;
    CHECK(parse(&rs, 0, many.data, many.data, &err) == 0 && rs.micros == RP_MICRO_LOSSES_STEP, "the most: %s", err.msg);
    rp_records_fini(&rs);
    rp_buf_fini(&many);
    for (int i = 0; i < RP_RECORD_LINE_MAX / 17; i++)
        rp_buf_puts(&many, "-0x1.fffffep+127 ");
    CHECK(parse(&rs, 0, many.data, many.data, &err) < 0 && err.code == RP_MALFORMED && strstr(err.msg, "longer than"),
          "%s", err.msg);
}

/* Ranks of so many kinds with the same losses but for one; -1: none. */
static int join(struct rp_records *all, struct rp_degrees d, const char *losses, int odd, const char *odd_losses,
                struct rp_err *err)
{
    struct rp_all_ranks a;
    int failed = 0;
    rp_all_ranks_init(&a, d);
    for (int i = 0; i < a.ranks && !failed; i++) {
        struct rp_records one;
        const char *text = i == odd ? odd_losses : losses;
        CHECK(parse(&one, i, text, text, err) == 0, "%s", err->msg);
        failed = rp_all_ranks_add(&a, all, &one, err) < 0;
    }
    rp_all_ranks_fini(&a);
    return failed ? -1 : 0;
}

TEST(the_loss_of_a_step_is_the_mean_over_all_ranks)
{
    static const struct {
        struct rp_degrees d;
        const char *losses;
        int odd;
        const char *odd_losses, *refusal;
        int micros;
    } rows[] = {
        {{1, 1, 1}, LOSSES, -1, NULL, NULL, 2},
        {{1, 1, 1}, "0x1.8p+2 0x1.ap+2 0x1.9p+2", -1, NULL, NULL, 3},
        {{1, 1, 1}, "0x1.8p+2 0x1.acp+2", -1, NULL, "mean", 0},
        {{1, 1, 1}, "0x1.8p+2", -1, NULL, "mean", 0},
        {{2, 1, 1}, LOSSES, -1, NULL, NULL, 4},
        {{2, 1, 1}, LOSSES, 1, "0x1.ap+2 0x1.8p+2", NULL, 4}, /* their order is the signer's word */
        {{2, 1, 1}, "0x1.8p+2", 1, "0x1.ap+2", NULL, 2},
        {{2, 1, 1}, LOSSES, 1, "0x1.8p+2", "mean", 0},
        {{2, 1, 1}, LOSSES, 1, NULL, "others do not", 0},
        {{2, 1, 1}, NULL, 1, LOSSES, "others do not", 0},
        {{1, 2, 1}, LOSSES, -1, NULL, NULL, 2},
        {{1, 2, 1}, LOSSES, 1, "0x1.ap+2 0x1.8p+2", "same samples", 0},
        {{1, 1, 2}, LOSSES, 1, "0x1.ap+2 0x1.8p+2", "steps/rank1.jsonl", 0},
        {{1, 1, 2}, LOSSES, 1, NULL, "same samples", 0},
        {{2, 2, 2}, LOSSES, -1, NULL, NULL, 4},
        {{2, 2, 2}, LOSSES, 7, MEAN " " MEAN, "steps/rank7.jsonl", 0},
        {{2, 2, 2}, LOSSES, 5, MEAN, "steps/rank5.jsonl", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rp_records all = {0};
        struct rp_err err;
        const int rc = join(&all, rows[i].d, rows[i].losses, rows[i].odd, rows[i].odd_losses, &err);
        if (rows[i].refusal)
            CHECK(rc < 0 && err.code == RP_MISMATCH && strstr(err.msg, rows[i].refusal), "case %zu: %s", i, err.msg);
        else
            CHECK(rc == 0 && all.micros == rows[i].micros, "case %zu: %d: %s", i, all.micros, err.msg);
        rp_records_fini(&all);
    }
}

TEST(a_run_with_too_many_micro_batches_records_none_of_them)
{
    static const struct {
        const char *settings[2];
        int has;
    } rows[] = {
        {{"train.accumulation_steps=1", NULL}, 0},
        {{"train.accumulation_steps=1", "parallel.data=2"}, 1},
        {{"train.accumulation_steps=4096", NULL}, 1},
        {{"train.accumulation_steps=4097", NULL}, 0},
        {{"train.accumulation_steps=64", "measure.timed_steps=131071"}, 1}, /* with a step before them 2^23 */
        {{"train.accumulation_steps=64", "measure.timed_steps=131072"}, 0},
    };
    static const char text[] = "train: {batch_size: 2}\nmeasure: {warmup_steps: 1, timed_steps: 2, repeats: 1}\n";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rp_recipe r;
        struct rp_err err = {0};
        CHECK(rp_recipe_parse(&r, text, sizeof text - 1, "y", NULL, (const char **)(uintptr_t)rows[i].settings,
                              rows[i].settings[1] ? 2 : 1, &err) == 0,
              "%s", err.msg);
        CHECK(rp_job_has_micro_losses(&r) == rows[i].has, "case %zu", i);
        rp_recipe_fini(&r);
    }
}

/* What the product records follows from what it trained: the same tree, by the rule that sums gradients. */
TEST(recorded_losses_are_those_of_the_gradient_tree)
{
    const struct real *x = changed(SETTING);
    struct rp_records one, all = {0};
    struct rp_all_ranks a;
    struct rp_err err = {0};
    CHECK(rp_records_parse(&one, x->steps.data, x->steps.size, &err) == 0, "%s", err.msg);
    CHECK(one.micros == MICROS, "%d", one.micros);
    CHECK(rp_record_micro_losses(&one, &one.r[1])[0] != rp_record_micro_losses(&one, &one.r[1])[1],
          "equal losses of other samples");
    rp_all_ranks_init(&a, (struct rp_degrees){1, 1, 1});
    CHECK(rp_all_ranks_add(&a, &all, &one, &err) == 0, "%s", err.msg);
    rp_all_ranks_fini(&a);
    rp_records_fini(&all);
    RP_FREE char *text = rp_strdup(x->steps.data);
    char *at = strstr(text, "\"micro_losses\":\"");
    char *digit = at ? strchr(at + strlen("\"micro_losses\":\""), 'p') - 1 : NULL; /* the last of the first number */
    CHECK(digit, "no micro_losses");
    *digit = *digit == '8' ? 'c' : '8';
    CHECK(rp_records_parse(&one, text, strlen(text), &err) == 0, "%s", err.msg);
    rp_all_ranks_init(&a, (struct rp_degrees){1, 1, 1});
    CHECK(rp_all_ranks_add(&a, &all, &one, &err) < 0 && err.code == RP_MISMATCH && strstr(err.msg, "step 0"), "%s",
          err.msg);
    rp_all_ranks_fini(&a);
    rp_records_fini(&all);
}

TEST(a_step_has_as_many_as_its_recipe_gives)
{
    static const char text[] =
        "task: {seq_length: 16, max_predictions_per_seq: 2}\ntrain: {batch_size: 2, accumulation_steps: 2}\n"
        "measure: {warmup_steps: 0, timed_steps: 2, repeats: 1}\n";
    struct rp_recipe r;
    struct rp_err err = {0};
    CHECK(rp_recipe_parse(&r, text, sizeof text - 1, "y", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    for (int wrong = 0; wrong < 2; wrong++) {
        struct rp_records all = {0};
        CHECK(join(&all, (struct rp_degrees){1, 1, 1}, wrong ? LOSSES " " LOSSES : LOSSES, -1, NULL, &err) == 0, "%s",
              err.msg);
        const int rc = rp_records_match(&all, &r, NULL, 0, &err);
        CHECK(wrong ? rc < 0 && err.code == RP_MISMATCH && strstr(err.msg, "micro_losses") : rc == 0, "%s", err.msg);
        rp_records_fini(&all);
    }
    rp_recipe_fini(&r);
}
