/* Any bytes as a safetensors file: refused with one line, or every tensor has the bytes that its shape and type need,
 * in the file and no other's, is found by its name, can be read, and a file that is written from what was read says the
 * same. After a first byte "m", lines that patch the header of a good file (patch.h), whose data are what follows an
 * empty line. */
#include "train/safetensors.h"
#include "train/torch_file.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/patch.h"

#include <stdio.h>
#include <unistd.h>

static const char good[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},\"b\":{\"dtype\":"
                           "\"F16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                           "\"c\":{\"dtype\":\"BF16\",\"shape\":[1,1],\"data_offsets\":[22,24]},\"d\":{\"dtype\":"
                           "\"I64\",\"shape\":[],\"data_offsets\":[24,32]},"
                           "\"__metadata__\":{\"format\":\"pt\",\"step\":\"7\"}}";

static char path[] = "/tmp/rp-fuzz-safetensors-XXXXXX", copy[sizeof path + 2];

static void remove_files(void)
{
    unlink(path);
    unlink(copy);
}

static void put(const void *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        must((fd = mkstemp(path)) >= 0);
        snprintf(copy, sizeof copy, "%s.c", path);
        atexit(remove_files);
    }
    must(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void mend(struct rp_buf *out, const char *text, size_t size)
{
    static const char gap[] = "\n\n";
    const char *data = memmem(text, size, gap, 2);
    const size_t lines = data ? (size_t)(data - text) : size, rest = data ? size - lines - 2 : 0;
    RP_BUF header = {0};
    RP_JSON *j = json_loads(good, 0, NULL);
    patch_json(j, text, lines);
    rp_json_write_line(&header, j);
    const uint64_t length = header.size;
    rp_buf_add(out, &length, sizeof length);
    rp_buf_add(out, header.data, header.size);
    for (size_t i = 0; i < (data ? rest : 32); i++)
        rp_buf_add(out, data ? data + 2 + i : "", 1);
}

static uint64_t width(const char *dtype)
{
    const size_t n = strlen(dtype);
    return strcmp(dtype, "BOOL") == 0 ? 1 : (uint64_t)atoi(dtype + (dtype[n - 1] == '8' ? n - 1 : n - 2)) / 8;
}

static void check_floats(const struct rp_st *st, const struct rp_st_tensor *t, const unsigned char *bytes)
{
    struct rp_err err;
    const size_t n = (size_t)((t->end - t->begin) / width(t->dtype));
    RP_FREE float *x = rp_alloc((n + 1) * sizeof *x);
    must(rp_st_read_floats(st, t, 0, x, n, &err) == 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        uint16_t half;
        memcpy(&bits, &x[i], 4);
        if (strcmp(t->dtype, "F32") == 0) {
            must(memcmp(&x[i], bytes + 4 * i, 4) == 0);
            continue;
        }
        memcpy(&half, bytes + 2 * i, 2);
        must(strcmp(t->dtype, "BF16") != 0 || bits == (uint32_t)half << 16);
        must(bits >> 31 == half >> 15 && (x[i] != 0) == ((half & 0x7fff) != 0));
    }
}

/* Every byte once, in some tensor of that size; of a file of torch.save in any number of them. */
static void check_tensors(const struct rp_st *st, size_t data)
{
    struct rp_err err;
    size_t all = 0;
    for (int i = 0; i < st->n; i++) {
        const struct rp_st_tensor *t = &st->t[i];
        const uint64_t size = t->end - t->begin;
        uint64_t needs = width(t->dtype);
        RP_FREE unsigned char *bytes = rp_alloc((size_t)size + 1);
        char shape[128];
        must(t->dims >= 0 && t->dims <= RP_ST_DIMS && t->begin <= t->end && t->end <= data);
        for (int d = 0; d < t->dims; d++)
            needs *= (uint64_t)t->shape[d];
        must(needs == size && rp_st_find(st, t->name) == t && (!i || strcmp(st->t[i - 1].name, t->name) < 0));
        must(rp_st_read(st, t, 0, bytes, (size_t)size, &err) == 0);
        if (rp_st_is_float(t))
            check_floats(st, t, bytes);
        rp_st_shape(shape, t->dims, t->shape);
        all += (size_t)size;
    }
    must(!st->data || all == data);
}

static int by_begin(const void *a, const void *b)
{
    const struct rp_st_tensor *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x->end > y->end) - (x->end < y->end);
}

/* A file of which all tensors are F32, written again. */
static void check_copy(const struct rp_st *st, const char *data, size_t size)
{
    struct rp_st_writer w;
    struct rp_st again;
    struct rp_err err;
    RP_FREE struct rp_st_tensor *list = rp_alloc(((size_t)st->n + 1) * sizeof *list);
    for (int i = 0; i < st->n; i++) {
        list[i] = st->t[i];
        if (strcmp(list[i].dtype, "F32") != 0)
            return;
    }
    qsort(list, (size_t)st->n, sizeof *list, by_begin);
    must(rp_st_create(&w, copy, list, st->n, NULL, &err) == 0 && rp_st_append(&w, data, size, &err) == 0 &&
         rp_st_commit(&w, &err) == 0);
    must(rp_st_open(&again, copy, &err) == 0 && again.n == st->n);
    for (int i = 0; i < st->n; i++) {
        const struct rp_st_tensor *a = &st->t[i], *b = &again.t[i];
        must(strcmp(a->name, b->name) == 0 && a->dims == b->dims && a->end - a->begin == b->end - b->begin);
        must(memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0);
        must(a->begin == b->begin || a->begin == a->end);
    }
    rp_st_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_st st;
    struct rp_err err = {0};
    RP_BUF file = {0};
    if (size && *data == 'm')
        mend(&file, (const char *)data + 1, size - 1);
    else
        rp_buf_add(&file, data, size);
    put(rp_buf_text(&file), file.size);
    if (rp_st_open(&st, path, &err) < 0) {
        must_be_refusal(&err);
        return 0;
    }
    if (rp_is_torch_file((unsigned char *)file.data)) { /* tensors may share bytes, and have others between them */
        check_tensors(&st, file.size);
        rp_st_close(&st);
        return 0;
    }
    must(st.data >= 8 && st.data <= file.size);
    check_tensors(&st, file.size - (size_t)st.data);
    check_copy(&st, file.data + st.data, file.size - (size_t)st.data);
    rp_st_close(&st);
    return 0;
}
