/* Checkpoints there and back, continued training, and files that are not what they say. */
#include "base/json.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"
#include "tests/unit/scratch.h"
#include "tests/unit/train_fixture.h"
#include "tests/unit/tap.h"

#include <math.h>

#define DECODER "cls.predictions.decoder.weight"

/* -- the reader against bytes -- */

/* header text and `data` bytes of data behind it */
static void write_file(const char *path, const char *header, size_t data)
{
    struct rp_err err;
    RP_BUF b = {0};
    size_t n = strlen(header);
    unsigned char length[8] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16)};
    rp_buf_add(&b, length, 8);
    rp_buf_puts(&b, header);
    for (size_t i = 0; i < data; i++)
        rp_buf_add(&b, "\0", 1);
    CHECK(rp_write_file(path, b.data, b.size, 0600, &err) == 0, "%s", err.msg);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"
#define B(from, to) "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" #from "," #to "]}"

TEST(good_headers)
{
    static const char *const good[] = {
        "{" A "," B(16, 24) "}", "{" B(16, 24) "," A ",\"__metadata__\":{\"step\":\"3\"}}  ",
        "{" A "," B(16, 24) ",\"empty\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[16,16]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F16\",\"shape\":[5,2],"
        "\"data_offsets\":[4,24]}}"};
    for (int i = 0; i < 4; i++) {
        struct rp_err err = {0};
        struct rp_st st;
        write_file(scratch("good"), good[i], 24);
        CHECK(rp_st_open(&st, scratch("good"), &err) == 0, "case %d: %s", i, err.msg);
        CHECK(rp_st_find(&st, "a") && rp_st_find(&st, "b") && !rp_st_find(&st, "c"), "case %d", i);
        rp_st_close(&st);
    }
}

/* -- files of torch.save -- */

#define TORCH "tests/vectors/torch/"

static void check_elements(const struct rp_st *st, const char *name, const char *dtype, const float *want, int n)
{
    const struct rp_st_tensor *t = rp_st_find(st, name);
    struct rp_err err = {0};
    float x[6];
    if (!CHECK(t && strcmp(t->dtype, dtype) == 0 && rp_st_read_floats(st, t, 0, x, (size_t)n, &err) == 0, "%s: %s",
               name, err.msg))
        return;
    CHECK(memcmp(x, want, (size_t)n * sizeof *x) == 0, "%s: %g", name, (double)x[0]);
}

TEST(state_dicts_of_torch_are_read)
{
    static const char *const files[] = {TORCH "state_dict.pth", TORCH "nested.pth", TORCH "protocol_4.pth"};
    static const float w[] = {0, 0.25f, 0.5f, 0.75f, 1, 1.25f}, b[] = {1.5f, -2}, h[] = {0.5f}, p[] = {1, 1};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rp_err err = {0};
        struct rp_st st;
        if (!CHECK(rp_st_open(&st, files[i], &err) == 0 && st.n == 7, "%s: %s", files[i], err.msg))
            continue;
        check_elements(&st, "a.weight", "F32", w, 6);
        check_elements(&st, "tied", "F32", w, 6);
        check_elements(&st, "row", "F32", w + 3, 3);
        check_elements(&st, "p", "F32", p, 2);
        check_elements(&st, "b", "BF16", b, 2);
        check_elements(&st, "h", "F16", h, 1);
        const struct rp_st_tensor *n = rp_st_find(&st, "n");
        int64_t seven = 0;
        CHECK(n && n->dims == 0 && rp_st_read(&st, n, 0, &seven, sizeof seven, &err) == 0 && seven == 7, "%s", err.msg);
        rp_st_close(&st);
    }
}

static void expect_refusal(const char *path, const char *part)
{
    struct rp_err err = {0};
    struct rp_st st;
    CHECK(rp_st_open(&st, path, &err) < 0 && err.code == RP_MALFORMED && strstr(err.msg, part), "%s: %s", part,
          err.msg);
    rp_st_close(&st);
}

#define CODE(text) text, sizeof(text) - 1

/* Pickles in the place of the one of a file, filled with instructions that end it. */
TEST(hostile_pickles)
{
    static const struct {
        const char *code;
        size_t size;
        const char *part;
    } cases[] = {
        {CODE("cos\nsystem\n(X\4\0\0\0true" "tR."), "no dictionary of tensors"}, /* nothing is called */
        {CODE("cos\nsystem\ni."), "no instruction"},
        {CODE("}q\0X\1\0\0\0ah\0s."), "no dictionary of tensors"}, /* in itself */
        {CODE("]q\0]q\1h\0ah\1h\1e."), "fills nothing"},
        {CODE("]q\0h\0ah\0](h\0h\0e."), "no dictionary of tensors"},
        {CODE("X\xff\xff\xff\x7f"), "ends in a text"},
        {CODE("j\0\0\0\x7f."), "not kept"},
        {CODE("r\0\0\0\x7f."), "keeps nothing"},
        {CODE("N(R."), "calls nothing"},
        {CODE("t."), "lists what is not there"},
        {CODE("}X\1\0\0\0a}X\14\0\0\0data_offsets](K\1M\xff\xff" "es" "s."), "tensor 'a'"}, /* without a type */
    };
    RP_BUF file = {0};
    struct rp_err err;
    CHECK(rp_read_file(&file, TORCH "state_dict.pth", 1 << 20, &err) == 0, "%s", err.msg);
    char *at = memmem(file.data, file.size, "\x80\2ccollections", 14);
    const size_t room = 571; /* bytes of its pickle */
    for (size_t i = 0; at && i < sizeof cases / sizeof *cases; i++) {
        RP_BUF bent = {0};
        rp_buf_add(&bent, file.data, file.size);
        char *code = bent.data + (at - file.data);
        memset(code, '.', room);
        memcpy(code, cases[i].code, cases[i].size);
        CHECK(rp_write_file(scratch("bent"), bent.data, bent.size, 0600, &err) == 0, "%s", err.msg);
        expect_refusal(scratch("bent"), cases[i].part);
    }
    CHECK(at != NULL, "no pickle");
}

TEST(files_of_torch_that_are_not_read_are_named)
{
    RP_BUF file = {0};
    struct rp_err err;
    expect_refusal(TORCH "legacy.pth", "before PyTorch 1.6");
    expect_refusal(TORCH "strided.pth", "not contiguous");
    CHECK(rp_read_file(&file, TORCH "state_dict.pth", 1 << 20, &err) == 0, "%s", err.msg);
    for (size_t cut = 1; cut < file.size; cut = cut * 2 + 5) {
        CHECK(rp_write_file(scratch("cut"), file.data, file.size - cut, 0600, &err) == 0, "%s", err.msg);
        struct rp_st st;
        CHECK(rp_st_open(&st, scratch("cut"), &err) < 0, "%zu bytes fewer", cut);
        rp_st_close(&st);
    }
}

TEST(hostile_headers)
{
    static const char *const bad[] = {
        "{" A "," B(16, 25) "}",              /* past the end */
        "{" A "," B(16, 20) "}",               /* shape says 8 bytes */
        "{" A "," B(8, 16) "}",                   /* inside a */
        "{" A "," B(12, 20) "}",                  /* across the end of a */
        "{" B(16, 24) "}",                            /* nothing at 0 */
        "{" A "}",                          /* data nobody owns */
        "{" A "," B(-8, 0) "}",               /* negative */
        "{" A "," B(24, 16) "}",              /* backwards */
        "{" A "," B(16, 24) "," A "}",                    /* twice */
        "{" A "," B(16.0, 24) "}",            /* not integers */
        "{" A "," B(16, 99999999999999999999) "}",        /* no 64-bit integer */
        "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[16,24]}}", /* 2^66 */
        "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[16,24]}}",
        "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[16,24]}}",
        "{" A ",\"b\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[16,24]}}",
        "{" A ",\"b\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[16,24]}}",
        "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24],\"x\":1}}",
        "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24,32]}}",
        "{" A ",\"b\":[]}",
        "{" A "," B(16, 24) ",\"__metadata__\":[]}",
        "[" "]",
        "{" A,
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_err err = {0};
        struct rp_st st;
        write_file(scratch("bad"), bad[i], 24);
        REFUSED(rp_st_open(&st, scratch("bad"), &err) < 0 && err.code == RP_MALFORMED && strstr(err.msg, "bad"),
                err.msg);
    }
}

TEST(files_that_are_none)
{
    struct rp_err err = {0};
    struct rp_st st;
    static const unsigned char huge[] = {0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'},
                               beyond[] = {100, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    CHECK(rp_st_open(&st, scratch("absent"), &err) < 0 && err.code == RP_IO, "absent");
    CHECK(rp_st_open(&st, scratch(""), &err) < 0 && err.code == RP_IO, "a directory");
    CHECK(mkfifo(scratch("fifo"), 0600) == 0 && rp_st_open(&st, scratch("fifo"), &err) < 0 && err.code == RP_IO,
          "a FIFO");
    CHECK(rp_write_file(scratch("huge"), huge, sizeof huge, 0600, &err) == 0, "%s", err.msg);
    CHECK(rp_st_open(&st, scratch("huge"), &err) < 0 && err.code == RP_MALFORMED, "a header of 2^63 bytes");
    CHECK(rp_write_file(scratch("beyond"), beyond, sizeof beyond, 0600, &err) == 0, "%s", err.msg);
    CHECK(rp_st_open(&st, scratch("beyond"), &err) < 0 && err.code == RP_MALFORMED, "a header longer than the file");
    CHECK(rp_write_file(scratch("short"), huge, 5, 0600, &err) == 0, "%s", err.msg);
    /* five bytes, as of a text */
    REFUSED(rp_st_open(&st, scratch("short"), &err) < 0 && err.code == RP_MALFORMED, err.msg);
}

/* -- checkpoints -- */

/* The recipe of the trainers of this file. */
static struct rp_recipe own_recipe(void)
{
    struct rp_recipe r = small_recipe();
    r.model_hidden_dropout_prob = 0.1;
    r.optimizer_bias_correction = 1;
    return r;
}

static struct rp_train *small(struct fixture *f, int64_t seed)
{
    struct rp_err err;
    struct rp_recipe r = own_recipe();
    r.seed_init = seed;
    CHECK(fixture_open(f, &r, "reference", 1, 1, NULL, &err) == 0, "%s", err.msg);
    rp_recipe_fini(&r);
    return f->t;
}

static int load_for(const struct rp_recipe *r, struct rp_train *m, const char *path, int64_t *step, struct rp_err *err)
{
    struct rp_checkpoint c;
    if (rp_checkpoint_open(&c, path, r, &m->state, err) < 0)
        return -1;
    *step = c.step;
    int status = rp_checkpoint_load(&c, &m->state, err);
    rp_checkpoint_close(&c);
    return status;
}

static int load(struct rp_train *m, const char *path, int64_t *step, struct rp_err *err)
{
    struct rp_recipe r = own_recipe();
    int status = load_for(&r, m, path, step, err);
    rp_recipe_fini(&r);
    return status;
}

static void save(struct rp_train *m, const char *path, int64_t step)
{
    struct rp_err err = {0};
    struct rp_recipe r = own_recipe();
    CHECK(rp_checkpoint_save(path, &r, &m->state, step, NULL, NULL, &err) == 0, "%s", err.msg);
    rp_recipe_fini(&r);
}

static void train(struct rp_train *m, int64_t from, int64_t to)
{
    struct rp_err err = {0};
    struct rp_step_result s;
    for (int64_t step = from; step < to; step++)
        CHECK(rp_train_step(m, step, &s, &err) == 0, "%s", err.msg);
}

TEST(save_and_continue_is_the_same_run)
{
    struct rp_err err = {0};
    struct fixture f, g;
    struct rp_train *whole = small(&f, 1), *second = small(&g, 99);
    size_t bytes = whole->state.weights->bytes;
    int64_t step = -1;
    train(whole, 0, 2);
    save(whole, scratch("two"), 2);
    train(whole, 2, 4);
    CHECK(load(second, scratch("two"), &step, &err) == 0, "%s", err.msg);
    CHECK(step == 2, "step %lld", (long long)step);
    train(second, step, 4);
    CHECK(!memcmp(whole->state.w, second->state.w, bytes), "weights differ");
    for (int k = 0; k < 2; k++)
        CHECK(!memcmp(whole->state.slot[k], second->state.slot[k], bytes), "slot %d differs", k);
    fixture_fini(&f);
    fixture_fini(&g);
}

/* Rewrites the header of a checkpoint: `from` becomes `to` of the same length, everywhere. */
static void edit(const char *source, const char *target, const char *from, const char *to)
{
    struct rp_err err = {0};
    RP_BUF b = {0};
    size_t n = strlen(from);
    int found = 0;
    CHECK(n == strlen(to) && rp_read_file(&b, source, 1 << 20, &err) == 0, "%s", err.msg);
    for (size_t i = 8; i + n < b.size; i++)
        if (!memcmp(b.data + i, from, n)) {
            memcpy(b.data + i, to, n);
            found = 1;
        }
    CHECK(found && rp_write_file(target, b.data, b.size, 0600, &err) == 0, "'%s' is not in the file", from);
}

TEST(checkpoints_of_another_model)
{
    struct fixture f;
    struct rp_train *m = small(&f, 1);
    int64_t step;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\"bert.pooler.dense.weight\"", "\"bert.pooler.dense.weighs\""},
        {"\"optimizer.m.cls.predictions.bias\"", "\"optimizer.x.cls.predictions.bias\""},
        {"\"optimizer.v.cls.predictions.bias\"", "\"bert.embeddings.position_ids\"    "},
        {"\"shape\":[83,24]", "\"shape\":[24,83]"},
        {"\"step\":\"7\"", "\"stop\":\"7\""},
        {"\"step\":\"7\"", "\"step\":\"x\""},
        {"\"optimizer\":\"adamw\"", "\"optimizer\":\"adamx\""},
    };
    save(m, scratch("seven"), 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err = {0};
        edit(scratch("seven"), scratch("edited"), cases[i].from, cases[i].to);
        m->state.w[0] = 42;
        REFUSED(load(m, scratch("edited"), &step, &err) < 0 && err.code == RP_MALFORMED, err.msg);
        CHECK(m->state.w[0] == 42, "case %zu: loaded a part of a file that was refused", i);
    }
    fixture_fini(&f);
}

/* Whole numbers of the same size: of all tensors, of one moment. */
TEST(types_that_a_state_does_not_have)
{
    struct fixture f;
    struct rp_train *m = small(&f, 1);
    char name[RP_TENSOR_NAME];
    int64_t step;
    struct rp_err err = {0};
    rp_tensor_name(name, &m->state.weights->t[1]);
    RP_FREE char *from = rp_asprintf("\"optimizer.m.%s\":{\"dtype\":\"F32\"", name),
                 *to = rp_asprintf("\"optimizer.m.%s\":{\"dtype\":\"I32\"", name);
    save(m, scratch("types"), 3);
    edit(scratch("types"), scratch("integers"), "\"dtype\":\"F32\"", "\"dtype\":\"I32\"");
    CHECK(load(m, scratch("integers"), &step, &err) < 0 && err.code == RP_MALFORMED && strstr(err.msg, "F16 or BF16"),
          "%s", err.msg);
    edit(scratch("types"), scratch("moment"), from, to);
    CHECK(load(m, scratch("moment"), &step, &err) < 0 && err.code == RP_MALFORMED && strstr(err.msg, "optimizer.m."),
          "%s", err.msg);
    fixture_fini(&f);
}

/* A parameter or a moment that is no number is found where it stands, before any step. */
TEST(numbers_that_are_not_finite)
{
    struct fixture f;
    struct rp_train *m = small(&f, 1);
    const struct rp_tensor *t = &m->state.weights->t[m->state.weights->n / 2];
    char name[RP_TENSOR_NAME];
    static const struct {
        int block;
        float value;
        const char *prefix, *what;
    } cases[] = {{0, NAN, "", "NaN"}, {0, -INFINITY, "", "Inf"}, {2, INFINITY, "optimizer.v.", "Inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err = {0};
        char want[300];
        int64_t step;
        float *block[3] = {m->state.w, m->state.slot[0], m->state.slot[1]};
        float *x = rp_tensor_in(block[cases[i].block], t) + t->count - 1, kept = *x;
        *x = cases[i].value;
        save(m, scratch("bad"), 3);
        *x = kept;
        CHECK(load(m, scratch("bad"), &step, &err) < 0 && err.code == RP_MISMATCH, "case %zu: %d", i, (int)err.code);
        snprintf(want, sizeof want, "'%s', tensor '%s%s', element %zu: not finite (%s)", scratch("bad"),
                 cases[i].prefix, rp_tensor_name(name, t), t->count - 1, cases[i].what);
        CHECK_STR(err.msg, want);
    }
    struct rp_err err = {0};
    int64_t step;
    m->state.slot[1][0] = -1;
    save(m, scratch("negative"), 3);
    REFUSED(load(m, scratch("negative"), &step, &err) < 0 && err.code == RP_MISMATCH, err.msg);
    m->state.slot[1][0] = 0;
    m->state.slot[0][0] = -1;
    save(m, scratch("signed"), 3);
    CHECK(load(m, scratch("signed"), &step, &err) == 0, "%s", err.msg);
    fixture_fini(&f);
}

static int at_the_third(void *calls)
{
    return ++*(int *)calls == 3;
}

/* Parameters alone, as others publish them, with a tied decoder under its second name that is or is not the same. */
TEST(files_of_others)
{
    struct fixture f, g;
    struct rp_train *m = small(&f, 1), *from = small(&g, 5);
    int n = m->state.weights->n;
    struct rp_st_tensor *t = rp_alloc((size_t)(n + 2) * sizeof *t);
    char(*name)[RP_TENSOR_NAME] = rp_alloc((size_t)n * sizeof *name);
    for (int i = 0; i < n + 1; i++) {
        const struct rp_tensor *x = &m->state.weights->t[i < n ? i : 0];
        t[i] = (struct rp_st_tensor){.name = i < n ? rp_tensor_name(name[i], x) : DECODER, .dims = rp_tensor_dims(x),
                                     .shape = {x->dim[0], x->dim[1]}};
    }
    t[n + 1] = (struct rp_st_tensor){.name = "bert.embeddings.position_ids", .dims = 1, .shape = {16}};
    for (int tied = 0; tied < 2; tied++) {
        struct rp_err err = {0};
        struct rp_st_writer w;
        int64_t step = -1;
        float ids[16] = {0}, wrong = 1;
        CHECK(rp_st_create(&w, scratch("others"), t, n + 2, NULL, &err) == 0, "%s", err.msg);
        for (int i = 0; i < n + 1; i++) {
            const struct rp_tensor *x = &m->state.weights->t[i < n ? i : 0];
            size_t skip = i == n && !tied;
            CHECK(rp_st_append(&w, &wrong, 4 * skip, &err) == 0, "%s", err.msg);
            CHECK(rp_st_append(&w, rp_tensor_in(from->state.w, x) + skip, (x->count - skip) * 4, &err) == 0, "%s",
                  err.msg);
        }
        CHECK(rp_st_append(&w, ids, sizeof ids, &err) == 0 && rp_st_commit(&w, &err) == 0, "%s", err.msg);
        memset(m->state.slot[0], 0x11, 64);
        int status = load(m, scratch("others"), &step, &err);
        if (tied)
            CHECK(status == 0 && step == 0 && m->state.slot[0][0] != 0 &&
                      !memcmp(m->state.w, from->state.w, m->state.weights->bytes),
                  "%s", err.msg);
        else
            CHECK(status < 0 && strstr(err.msg, "tied"), "an untied decoder went through: %s", err.msg);
    }
    free(t);
    free(name);
    fixture_fini(&f);
    fixture_fini(&g);
}

/* GPT-2 as the first public files have it: names without "transformer.", no rows of padding, the causal mask of each
 * layer. */
TEST(gpt_of_others)
{
    struct rp_err err = {0};
    struct fixture f, g;
    struct rp_recipe r = small_gpt();
    CHECK(fixture_open(&f, &r, "reference", 1, 1, NULL, &err) == 0 &&
              fixture_open(&g, &r, "reference", 1, 1, NULL, &err) == 0,
          "%s", err.msg);
    const struct rp_tensors *l = f.t->state.weights;
    struct rp_st_tensor *t = rp_alloc((size_t)(l->n + 1) * sizeof *t);
    char(*name)[RP_TENSOR_NAME] = rp_alloc((size_t)l->n * sizeof *name);
    for (int rows = 80; rows <= 85; rows++) {
        struct rp_st_writer w;
        int64_t step = -1;
        float zeros[3 * 24] = {0}, mask[4] = {1, 0, 1, 1};
        for (int i = 0; i < l->n; i++)
            t[i] = (struct rp_st_tensor){.name = (char *)rp_tensor_name(name[i], &l->t[i]) + strlen("transformer."),
                                         .dims = rp_tensor_dims(&l->t[i]),
                                         .shape = {i ? l->t[i].dim[0] : rows, l->t[i].dim[1]}};
        t[l->n] = (struct rp_st_tensor){.name = "h.1.attn.bias", .dims = 2, .shape = {2, 2}};
        CHECK(rp_st_create(&w, scratch("gpt"), t, l->n + 1, NULL, &err) == 0, "%s", err.msg);
        for (int i = 0; i < l->n; i++) {
            const float *x = rp_tensor_in(g.t->state.w, &l->t[i]);
            size_t extra = i == 0 && rows > 84 ? 24 : 0, count = i ? l->t[i].count : (size_t)rows * 24 - extra;
            CHECK(rp_st_append(&w, x, count * sizeof *x, &err) == 0 &&
                      rp_st_append(&w, zeros, extra * sizeof *x, &err) == 0,
                  "%s", err.msg);
        }
        CHECK(rp_st_append(&w, mask, sizeof mask, &err) == 0 && rp_st_commit(&w, &err) == 0, "%s", err.msg);
        memset(f.t->state.w, 0, l->bytes);
        int status = load_for(&r, f.t, scratch("gpt"), &step, &err);
        if (rows < 81 || rows > 84)
            CHECK(status < 0 && err.code == RP_MALFORMED && strstr(err.msg, "wte.weight"), "%d rows: %s", rows,
                  err.msg);
        else
            CHECK(status == 0 && !memcmp(f.t->state.w, g.t->state.w, (size_t)rows * 24 * 4) &&
                      !memcmp(f.t->state.w + rows * 24, zeros, (size_t)(84 - rows) * 24 * 4) &&
                      !memcmp(f.t->state.w + l->t[1].offset / 4, g.t->state.w + l->t[1].offset / 4,
                              l->bytes - l->t[1].offset),
                  "%d rows: %s", rows, err.msg);
    }
    free(t);
    free(name);
    fixture_fini(&f);
    fixture_fini(&g);
    rp_recipe_fini(&r);
}

TEST(nothing_half_written)
{
    struct rp_err err = {0};
    struct rp_st_writer w;
    struct rp_st_tensor t = {.name = "a", .dims = 1, .shape = {4}};
    struct stat s;
    CHECK(rp_st_create(&w, scratch("half"), &t, 1, NULL, &err) == 0, "%s", err.msg);
    char *temporary = rp_strdup(w.temporary);
    CHECK(stat(scratch("half"), &s) < 0, "the name exists before the bytes");
    rp_st_abort(&w);
    CHECK(stat(temporary, &s) < 0 && stat(scratch("half"), &s) < 0, "an abandoned file is left");
    struct fixture f;
    struct rp_train *m = small(&f, 1);
    int calls = 0;
    mkdir(scratch("stopped"), 0700);
    struct rp_recipe r = own_recipe();
    CHECK(rp_checkpoint_save(scratch("stopped/x"), &r, &m->state, 1, at_the_third, &calls, &err) < 0 && calls == 3 &&
          err.code == RP_INTERRUPTED);
    CHECK(rmdir(scratch("stopped")) == 0, "a save that was stopped left a file");
    rp_recipe_fini(&r);
    fixture_fini(&f);
    CHECK(rp_st_create(&w, scratch("no/such/directory"), &t, 1, NULL, &err) < 0 && err.code == RP_IO, "no directory");
    free(temporary);
}
