/* BERT samples: values, every refusal with its exact words, files and their order, shuffling. */
#include "tests/unit/tap.h"

#include "data/shuffle.h"
#include "tests/unit/data_fixture.h"

static struct rp_err err;

TEST(values_arrive_as_written)
{
    struct rows r;
    put_samples("good.tfrecord", 3, 2);
    struct rp_dataset *d = open_bert(scratch("good.tfrecord"), NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 2, "%s", err.msg);
    CHECK(d && get_sample(d, 0, &r, &err) == 0, "%s", err.msg);
    const int32_t ids[SEQ] = {13, 14, 15, 16, 17, 18, 0, 0}, segments[SEQ] = {0, 0, 0, 0, 1, 1, 0, 0};
    const uint8_t mask[SEQ] = {1, 1, 1, 1, 1, 1, 0, 0};
    CHECK(memcmp(r.ids, ids, sizeof ids) == 0 && memcmp(r.segments, segments, sizeof ids) == 0);
    CHECK(memcmp(r.mask, mask, sizeof mask) == 0 && r.next == 1);
    CHECK(r.positions[0] == 1 && r.positions[1] == 4 && r.labels[0] == 11 && r.labels[1] == 14);
    CHECK(r.weights[0] == 1.0f && r.weights[1] == 0.5f);
    CHECK(d && get_sample(d, 5, &r, &err) == 0 && r.ids[0] == 14, "sample 5 of 2 records is record 1");
    close_data(d);
    rp_data_format_find("bert_tfrecord")->close(NULL);
}

/* ---- refusals ---- */

/* One change of a good record: the 8 bytes at `at` become `value`. */
#define AT(member, value) offsetof(struct sample, member), {.i = value}
static const struct spoil {
    size_t at;
    union {
        int64_t i;
        float f[2]; /* both weights */
        const char *name;
    } value;
} cases[] = {
    {AT(field[0].count, SEQ + 1)},
    {AT(field[1].count, SEQ - 1)},
    {AT(field[4].count, 1)},
    {AT(field[5].count, 3)},
    {AT(field[6].count, 2)},
    {offsetof(struct sample, field[0].name), {.name = "ids"}},
    {offsetof(struct sample, field[6].name), {.name = "next_sentence_label"}},
    {AT(ids[2], VOCAB)},
    {AT(ids[2], -1)},
    {AT(ids[2], 0x100000001)},
    {AT(mask[5], 2)},
    {AT(segments[0], 2)},
    {AT(positions[1], SEQ)},
    {AT(positions[0], -1)},
    {AT(positions[1], SEQ - 1)},
    {AT(labels[1], VOCAB)},
    {offsetof(struct sample, weights), {.f = {__builtin_nanf(""), 0.5f}}},
    {offsetof(struct sample, weights), {.f = {1, -1}}},
    {AT(next[0], 2)},
};

/* A set of two files: two good records, then a good one and `s`. */
static void spoiled_set(const struct sample *s)
{
    RP_BUF f = {0};
    struct sample good;
    mkdir(scratch("spoiled"), 0755);
    put_samples("spoiled/a.tfrecord", 0, 2);
    good_sample(&good, 0);
    add_sample(&f, &good);
    add_sample(&f, s);
    put_file("spoiled/b.tfrecord", f.data, f.size);
}

/* Record 3 of the set: by get() and by check(). */
static void last_is_refused(void)
{
    struct rows r;
    struct rp_data_check c;
    char got[sizeof err.msg];
    struct rp_dataset *d = open_bert(scratch("spoiled"), NULL, 0, 0, &err);
    CHECK(d && get_sample(d, 2, &r, &err) == 0, "the records before are good");
    REFUSED(d && get_sample(d, 3, &r, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    strcpy(got, err.msg);
    err.msg[0] = 0;
    CHECK(d && check_data(d, &c, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
    CHECK_STR(err.msg, got);
    close_data(d);
}

TEST(every_refusal_names_file_record_and_field)
{
    struct sample s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        good_sample(&s, 0);
        memcpy((char *)&s + cases[i].at, &cases[i].value, sizeof cases[i].value);
        spoiled_set(&s);
        last_is_refused();
    }
    good_sample(&s, 0);
    memset(s.mask, 0, sizeof s.mask);
    spoiled_set(&s);
    last_is_refused();
    good_sample(&s, 0);
    s.field[4].want = RP_EXAMPLE_FLOAT;
    s.field[4].out.f32 = s.weights;
    spoiled_set(&s);
    last_is_refused();
    good_sample(&s, 0);
    spoiled_set(&s);
    struct rp_data_check c;
    struct rp_dataset *d = open_bert(scratch("spoiled"), NULL, 0, 0, &err);
    CHECK(d && check_data(d, &c, &err) == 0, "the unspoiled record is good: %s", err.msg);
    close_data(d);
}

TEST(padding_of_predictions_is_no_refusal)
{
    RP_BUF f = {0};
    struct sample s;
    struct rows r;
    good_sample(&s, 0);
    s.weights[1] = 0; /* position 7 is padding, but it counts for nothing */
    s.positions[1] = SEQ - 1;
    add_sample(&f, &s);
    struct rp_dataset *d = open_bert(put_file("p.tfrecord", f.data, f.size), NULL, 0, 0, &err);
    CHECK(d && get_sample(d, 0, &r, &err) == 0, "%s", err.msg);
    close_data(d);
}

TEST(a_checked_frame_that_is_no_example)
{
    RP_BUF f = {0};
    struct rows r;
    rp_tfrecord_append(&f, "\x0a\x05zz", 4);
    struct rp_dataset *d = open_bert(put_file("x.tfrecord", f.data, f.size), NULL, 0, 0, &err);
    REFUSED(d && get_sample(d, 0, &r, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    close_data(d);
}

/* ---- files ---- */

static void open_fails(const char *path, enum rp_code code)
{
    struct rp_dataset *d = open_bert(path, NULL, 0, 0, &err);
    REFUSED(!d && err.code == code, d ? "opened" : err.msg);
    close_data(d);
}

static int first_id(struct rp_dataset *d, int64_t sample)
{
    struct rows r;
    return d && get_sample(d, sample, &r, &err) == 0 ? r.ids[0] : -1;
}

TEST(directories_globs_and_their_order)
{
    mkdir(scratch("set"), 0755);
    mkdir(scratch("set/inner"), 0755);
    put_samples("set/z.tfrecord-00001-of-00002", 20, 1);
    put_samples("set/inner/b.tfrecord", 5, 1);
    put_samples("set/inner/B.tfrecord", 6, 2);
    put_samples("set/inner/a.tfrecords", 7, 1);
    put_samples("set/inner/.hidden.tfrecord", 9, 1);
    put_file("set/inner/empty.tfrecord", "", 0);
    put_file("set/inner/README", "x", 1);
    struct rp_dataset *d = open_bert(scratch("set/inner"), NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 4, "%s", err.msg);
    CHECK(first_id(d, 0) == 16 && first_id(d, 1) == 17 && first_id(d, 2) == 17 && first_id(d, 3) == 15,
          "B, a, b: byte-wise");
    close_data(d);
    d = open_bert(scratch("set/inner/*.tfrecord"), NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 3, "%s", err.msg);
    close_data(d);
    d = open_bert(scratch("set"), NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 1 && first_id(d, 0) == 30, "a directory with files of its own does not descend");
    close_data(d);
    unlink(scratch("set/z.tfrecord-00001-of-00002"));
    d = open_bert(scratch("set"), NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 4, "one folder on top is looked into: %s", err.msg);
    close_data(d);
    open_fails(scratch("none"), RP_IO);
    open_fails(scratch("none*"), RP_IO);
    open_fails(scratch("se?"), RP_IO);
    mkdir(scratch("bare"), 0755);
    put_file("bare/x.txt", "x", 1);
    open_fails(scratch("bare"), RP_IO);
    struct rp_files other;
    CHECK(rp_files_open(&other, scratch("bare"), ".txt", &err) == 0 && other.n == 1, "files of another format: %s",
          err.msg);
    rp_files_close(&other);
    open_fails(scratch("set/inner/empty.tfrecord"), RP_MALFORMED);
    open_fails("/dev/null", RP_IO);
    open_fails("embedded:nothing.tar", RP_IO);
}

TEST(digest_is_what_stock_tools_compute)
{
    char command[600], line[80] = "";
    mkdir(scratch("dig"), 0755);
    put_samples("dig/a.tfrecord", 0, 3);
    put_samples("dig/b.tfrecord", 3, 2);
    struct rp_data_check c;
    struct rp_dataset *d = open_bert(scratch("dig"), NULL, 1, 1, &err);
    CHECK(d && check_data(d, &c, &err) == 0, "%s", err.msg);
    snprintf(command, sizeof command, "cd %s && sha256sum a.tfrecord b.tfrecord | cut -c1-64 | sha256sum | cut -c1-64",
             scratch("dig"));
    FILE *p = popen(command, "r");
    CHECK(p && fgets(line, sizeof line, p));
    if (p)
        pclose(p);
    line[64] = 0;
    CHECK_STR(c.digest, line);
    CHECK(c.files == 2 && c.records == 5 && fact(&c, "tokens") == 30 && fact(&c, "predictions") == 10 &&
          fact(&c, "full_records") == 0 && fact(&c, "random_next") == 2 && fact(&c, "distinct_ids") == 11);
    close_data(d);
}

TEST(a_file_that_changes_under_a_run_is_an_error)
{
    struct rows r;
    put_samples("shrink.tfrecord", 0, 2);
    struct rp_dataset *d = open_bert(scratch("shrink.tfrecord"), NULL, 0, 0, &err);
    CHECK(d && truncate(scratch("shrink.tfrecord"), 20) == 0);
    REFUSED(d && get_sample(d, 1, &r, &err) < 0 && err.code == RP_IO, err.msg);
    close_data(d);
}

TEST(probe_finds_the_lengths)
{
    struct rp_sample_field f[RP_SAMPLE_FIELDS_MAX];
    const struct rp_data_format *format = rp_data_format_find("bert_tfrecord");
    int n = 0;
    put_samples("probe.tfrecord", 0, 1);
    if (!CHECK(format->probe(scratch("probe.tfrecord"), &(struct rp_data_opts){0}, f, &n, &err) == 0 &&
                   n == BERT_FIELDS,
               "%s", err.msg))
        return;
    for (int i = 0; i < n; i++)
        CHECK(strcmp(f[i].name, small_fields[i].name) == 0 && f[i].dtype == small_fields[i].dtype &&
                  f[i].count == small_fields[i].count,
              "%s: %ld", f[i].name, f[i].count);
    CHECK(f[0].below == 30522 && f[1].below == 2, "ranges of public data");
    struct rp_dataset *d = format->open(scratch("probe.tfrecord"), f, n, &(struct rp_data_opts){0}, &err);
    CHECK(d && d->format == format && d->format->count(d) == 1, "what probe finds can be opened: %s", err.msg);
    close_data(d);
}

/* Lengths follow from the first record: a list of nothing has none, and one of another kind neither. */
TEST(probe_refuses_fields_without_a_length)
{
    struct rp_sample_field f[RP_SAMPLE_FIELDS_MAX];
    const struct rp_data_format *format = rp_data_format_find("bert_tfrecord");
    int64_t ids[4] = {1, 2, 3, 4};
    struct rp_example_bytes text = {(const unsigned char *)"x", 1};
    const struct rp_example_field rows[][2] = {
        {{.name = "input_ids", .want = RP_EXAMPLE_INT64, .out.i64 = ids, .count = 4}},
        {{.name = "masked_lm_positions", .want = RP_EXAMPLE_INT64, .out.i64 = ids, .count = 4}},
        {{.name = "input_ids", .want = RP_EXAMPLE_INT64, .out.i64 = ids, .count = 0},
         {.name = "masked_lm_positions", .want = RP_EXAMPLE_INT64, .out.i64 = ids, .count = 4}},
        {{.name = "input_ids", .want = RP_EXAMPLE_BYTES, .out.bytes = &text, .count = 1},
         {.name = "masked_lm_positions", .want = RP_EXAMPLE_INT64, .out.i64 = ids, .count = 4}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RP_BUF message = {0}, file = {0};
        int n;
        rp_example_write(&message, (struct rp_example_field *)(uintptr_t)rows[i], rows[i][1].name ? 2 : 1);
        rp_tfrecord_append(&file, message.data, message.size);
        CHECK(format->probe(put_file("odd.tfrecord", file.data, file.size), &(struct rp_data_opts){0}, f, &n, &err) <
                      0 &&
                  err.code == RP_MALFORMED,
              "%zu: %s", i, err.msg);
    }
}

static int stop_at_once(void *arg, int64_t done, int64_t all)
{
    (void)arg;
    return done < all;
}

TEST(check_can_be_stopped)
{
    struct rp_data_check c;
    put_samples("stop.tfrecord", 0, 2);
    struct rp_dataset *d = open_bert(scratch("stop.tfrecord"), NULL, 0, 0, &err);
    CHECK(d && d->format->check(d, &c, stop_at_once, NULL, &err) < 0 && err.code == RP_INTERRUPTED);
    close_data(d);
}

/* ---- the border ---- */

TEST(formats_are_found_by_name)
{
    struct rp_recipe r = {0};
    for (int i = 0; rp_data_formats[i]; i++) {
        const struct rp_data_format *f = rp_data_formats[i];
        CHECK(rp_data_format_find(f->name) == f && *f->summary && *f->in_name && f->probe && f->open && f->close &&
                  f->count && f->get && f->check,
              "%s", f->name);
        r.data_format = i;
        CHECK(rp_data_format_of(&r) == f);
    }
    CHECK(!rp_data_format_find("bert") && !rp_data_format_find("") && !rp_data_format_find("imagenet"));
}

static void wants_fail(const struct rp_sample_field *f, int n)
{
    struct rp_dataset *d = rp_data_format_find("bert_tfrecord")
                               ->open(put_samples("wants.tfrecord", 0, 1), f, n, &(struct rp_data_opts){0}, &err);
    REFUSED(!d && err.code == RP_USAGE, d ? "opened" : err.msg);
    close_data(d);
}

TEST(fields_that_no_record_can_have_are_refused)
{
    struct rp_sample_field f[BERT_FIELDS];
    memcpy(f, small_fields, sizeof f);
    f[0].name = "image/encoded";
    for (int i = 1; i < BERT_FIELDS; i++)
        wants_fail(f, BERT_FIELDS);
    wants_fail(f, BERT_FIELDS);
    memcpy(f, small_fields, sizeof f);
    f[2].count = SEQ + 1;
    wants_fail(f, BERT_FIELDS);
    memcpy(f, small_fields, sizeof f);
    f[6].count = 2;
    wants_fail(f, BERT_FIELDS);
    f[6].count = 0;
    wants_fail(f, BERT_FIELDS);
    memcpy(f, small_fields, sizeof f);
    f[1].dtype = RP_I32;
    wants_fail(f, BERT_FIELDS);
}

/* Fields in another order, some of them alone: rows follow the order that was asked for, and only what is wanted is
 * checked. */
TEST(a_model_may_want_some_of_the_fields)
{
    const struct rp_sample_field f[2] = {{"segment_ids", RP_I32, SEQ, 0}, {"input_ids", RP_I32, SEQ, VOCAB}};
    const int32_t want[2][SEQ] = {{0, 0, 0, 0, 1, 1, 0, 0}, {10, 11, 12, 13, 14, 15, 0, 0}};
    int32_t got[2][SEQ];
    void *const row[2] = {got[0], got[1]};
    struct rp_data_check c;
    struct sample s;
    RP_BUF file = {0};
    good_sample(&s, 0);
    s.field[6].name = "unknown";
    s.positions[1] = SEQ;
    add_sample(&file, &s);
    const struct rp_data_format *format = rp_data_format_find("bert_tfrecord");
    struct rp_dataset *d =
        format->open(put_file("some.tfrecord", file.data, file.size), f, 2, &(struct rp_data_opts){0}, &err);
    CHECK(d && format->get(d, 0, row, &err) == 0 && memcmp(got, want, sizeof got) == 0, "%s", err.msg);
    CHECK(d && check_data(d, &c, &err) == 0 && c.facts == 2 && fact(&c, "seq_length") == SEQ &&
              fact(&c, "distinct_ids") == 7,
          "%s", err.msg);
    close_data(d);
    /* the format's own range holds where the model names none */
    s.segments[0] = 2;
    file.size = 0;
    add_sample(&file, &s);
    d = format->open(put_file("some.tfrecord", file.data, file.size), f, 2, &(struct rp_data_opts){0}, &err);
    REFUSED(d && format->get(d, 0, row, &err) < 0 && err.code == RP_MALFORMED, err.msg);
    close_data(d);
}

/* Positions index the sequence, whatever range a model names. */
TEST(no_range_is_wider_than_the_format_allows)
{
    struct rp_sample_field f[BERT_FIELDS];
    struct sample s;
    struct rows r;
    RP_BUF file = {0};
    memcpy(f, small_fields, sizeof f);
    f[1].below = f[3].below = f[6].below = 1000;
    good_sample(&s, 0);
    s.positions[1] = SEQ;
    add_sample(&file, &s);
    good_sample(&s, 0);
    s.mask[0] = 256;
    add_sample(&file, &s);
    struct rp_dataset *d = open_bert(put_file("wide.tfrecord", file.data, file.size), f, 0, 0, &err);
    REFUSED(d && get_sample(d, 0, &r, &err) < 0, err.msg);
    REFUSED(d && get_sample(d, 1, &r, &err) < 0, err.msg);
    close_data(d);
}

/* ---- order ---- */

TEST(shuffle_is_a_permutation_for_every_size_seed_and_epoch)
{
    static unsigned char seen[2048];
    int bad = 0;
    for (uint64_t n = 1; n <= 300; n += n < 20 ? 1 : 37)
        for (uint64_t seed = 0; seed < 3; seed++)
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                memset(seen, 0, sizeof seen);
                for (uint64_t i = 0; i < n; i++) {
                    uint64_t p = rp_shuffle(i, n, seed, epoch);
                    bad += p >= n || seen[p]++;
                }
            }
    CHECK(bad == 0, "%d values out of range or twice", bad);
    int fixed = 0, again = 0;
    for (uint64_t i = 0; i < 2048; i++) {
        fixed += rp_shuffle(i, 2048, 3, 0) == i;
        again += rp_shuffle(i, 2048, 3, 0) == rp_shuffle(i, 2048, 3, 1);
    }
    CHECK(fixed < 10 && again < 10, "%d fixed points, %d the same in two epochs (about 1 expected)", fixed, again);
    CHECK(rp_shuffle(UINT64_C(0xffffffffff), UINT64_C(1) << 40, 1, 0) < UINT64_C(1) << 40);
}

/* Pinned: another order would be another run under the same recipe. */
TEST(shuffle_values_are_pinned)
{
    char text[128] = "";
    for (uint64_t i = 0; i < 8; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%llu ",
                 (unsigned long long)rp_shuffle(i, 2048, 3, i / 4));
    CHECK_STR(text, "1783 1511 644 764 713 1580 252 1716 ");
}

TEST(epochs_wrap_and_differ)
{
    put_samples("epochs.tfrecord", 0, 10);
    struct rp_dataset *d = open_bert(scratch("epochs.tfrecord"), NULL, 1, 42, &err);
    int sum = 0, same = 0;
    for (int i = 0; d && i < 10; i++) {
        sum += first_id(d, i) - first_id(d, 10 + i);
        same += rp_sample_record(i, 10, 1, 42) == rp_sample_record(10 + i, 10, 1, 42);
    }
    CHECK(sum == 0 && same < 10, "each epoch has every record once, in another order");
    close_data(d);
}
