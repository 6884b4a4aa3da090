/* A training state that somebody hands over for a replay, as `verify --init` and `--state` read it: a good file of a
 * small model whose header is patched (patch.h) and whose data are changed, or any bytes. Refused with one line; or its
 * root is that of the good file exactly where no bit differs, a difference is within its tensor, the same in both
 * directions, and its names show nothing that a terminal obeys. */
#include "verify/replay/states.h"

#include "base/json.h"
#include "base/text.h"
#include "model/model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/patch.h"
#include "train/checkpoint.h"
#include "train/file_order.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char yaml[] =
    "workload: bert\nmodel: {vocab_size: 8, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, "
    "intermediate_size: 8, max_position_embeddings: 4}\ntask: {seq_length: 4, max_predictions_per_seq: 1}\n"
    "train: {batch_size: 1}\noptimizer: {name: lamb}\n";

static char directory[] = "/tmp/rp-fuzz-states-XXXXXX", was[64], here[64], root[RP_SHA256_HEX];
static struct rp_recipe recipe;
static struct rp_buf good;  /* the file */
static json_t *good_header;
static size_t good_data;    /* offset of the data */

static void remove_all(void)
{
    unlink(was);
    unlink(here);
    rmdir(directory);
    rp_buf_fini(&good);
    json_decref(good_header);
    rp_recipe_fini(&recipe);
}

/* Every entry of the state, of numbers that count up. */
static void make_good(void)
{
    struct rp_err err;
    struct rp_st st;
    must(mkdtemp(directory) && rp_recipe_parse(&recipe, yaml, sizeof yaml - 1, "small.yaml", NULL, NULL, 0, &err) == 0);
    snprintf(was, sizeof was, "%s/was", directory);
    snprintf(here, sizeof here, "%s/here", directory);
    struct rp_net *m = rp_net_new(&recipe, 1);
    struct rp_trained s = {
        .optimizer = rp_optimizer_of(&recipe), .weights = &m->tensors[RP_WEIGHT], .buffers = &m->tensors[RP_BUFFER]};
    const int n = rp_state_entries(&s);
    RP_FREE struct rp_state_entry *e = rp_alloc((size_t)n * sizeof *e);
    RP_FREE struct rp_st_tensor *list = rp_alloc((size_t)n * sizeof *list);
    struct rp_st_writer w;
    for (int i = 0; i < n; i++) {
        rp_state_entry_at(&e[i], &s, i);
        list[i] = rp_in_file(&e[i]);
    }
    RP_JSON *metadata = json_pack("{s:s, s:s, s:s}", "format", "pt", "step", "2", "optimizer", s.optimizer->name);
    must(rp_st_create(&w, was, list, n, metadata, &err) == 0);
    for (int i = 0, k = 0; i < n; i++)
        for (size_t at = 0; at < e[i].t->count; at++) {
            const float x = (float)(++k) / 64;
            must(rp_st_append(&w, &x, sizeof x, &err) == 0);
        }
    must(rp_st_commit(&w, &err) == 0 && rp_state_file_root(root, was, &recipe, &err) == 0);
    must(rp_read_file(&good, was, 1 << 24, &err) == 0 && rp_st_open(&st, was, &err) == 0);
    good_header = json_deep_copy(st.header);
    good_data = (size_t)st.data;
    rp_st_close(&st);
    rp_net_free(m);
    atexit(remove_all);
}

/* Lines of patches; after an empty line triples of bytes: where in the data, and by what the byte there differs. */
static void mend(struct rp_buf *out, const char *text, size_t size)
{
    const char *changes = memmem(text, size, "\n\n", 2);
    const size_t lines = changes ? (size_t)(changes - text) : size, rest = changes ? size - lines - 2 : 0;
    RP_BUF header = {0};
    RP_JSON *j = json_deep_copy(good_header);
    patch_json(j, text, lines);
    rp_json_write_line(&header, j);
    const uint64_t length = header.size;
    rp_buf_add(out, &length, sizeof length);
    rp_buf_add(out, header.data, header.size);
    const size_t data = out->size;
    rp_buf_add(out, good.data + good_data, good.size - good_data);
    for (size_t i = 0; i + 2 < rest; i += 3) {
        const unsigned char *c = (const unsigned char *)changes + 2 + i;
        out->data[data + (c[0] | (size_t)c[1] << 8) % (good.size - good_data)] ^= (char)c[2];
    }
}

static void check_difference(const struct rp_state_difference *d)
{
    must((d->tensors == 0) == (d->count == 0));
    if (d->tensors)
        must(d->first >= 0 && d->first <= d->last && d->last < d->size && d->count <= d->last - d->first + 1 &&
             *d->was && *d->here && strcmp(d->was, d->here) != 0 &&
             rp_plain_size(d->name, strlen(d->name), 0) == strlen(d->name));
}

static void put_here(const struct rp_buf *file)
{
    static int fd = -1;
    if (fd < 0)
        must((fd = open(here, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) >= 0);
    must(ftruncate(fd, 0) == 0 && pwrite(fd, rp_buf_text(file), file->size, 0) == (ssize_t)file->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_err err = {0};
    struct rp_state_difference d = {0}, back = {0};
    char is[RP_SHA256_HEX] = "";
    RP_BUF file = {0};
    if (!good.size)
        make_good();
    if (size && *data == 'm')
        mend(&file, (const char *)data + 1, size - 1);
    else
        rp_buf_add(&file, data, size);
    put_here(&file);
    const int rooted = rp_state_file_root(is, here, &recipe, &err) == 0;
    if (!rooted)
        must_be_refusal(&err);
    const int compared = rp_states_compare(&d, was, here, &err) == 0;
    if (!compared)
        must_be_refusal(&err);
    else
        check_difference(&d);
    if (rp_states_compare(&back, here, was, &err) == 0) { /* only names that both have in the one are looked at */
        check_difference(&back);
        must(!compared || (back.tensors == d.tensors && (!d.tensors || back.size > 0)));
    }
    must(!rooted || rp_is_sha256(is));
    if (rooted && strcmp(is, root) == 0)
        must(compared && d.tensors == 0);
    if (rooted && compared && d.tensors == 0 && rp_states_compare(&back, here, was, &err) == 0)
        must(strcmp(is, root) == 0);
    json_t *found = NULL;
    if (rp_checkpoint_check(here, &recipe, &found, &err) < 0)
        must_be_refusal(&err);
    else
        must(json_is_object(found));
    json_decref(found);
    return 0;
}
