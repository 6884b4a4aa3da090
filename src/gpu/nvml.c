/* Questions to NVML, and their answers in a document. */
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

rp_nvml_function *rp_nvml_symbol(const struct rp_nvml *lib, const char *symbol)
{
    return (rp_nvml_function *)dlsym(lib->so.handle, symbol);
}

nvmlReturn_t rp_nvml_ask(const struct rp_nvml *lib, const struct rp_nvml_subject *s, const struct rp_nvml_row *row,
                         struct rp_nvml_answer *a, const char **source)
{
    nvmlReturn_t rc = NVML_ERROR_FUNCTION_NOT_FOUND;
    *source = row->ways->symbol;
    for (const struct rp_nvml_way *w = row->ways; w->symbol; w++) {
        rp_nvml_function *f = rp_nvml_symbol(lib, w->symbol);
        if (!f)
            continue;
        memset(a, 0, sizeof *a);
        memset(a->n, 0xff, sizeof a->n); /* RP_NVML_NONE */
        rc = w->call(f, w, s, row, a);
        for (size_t i = 0; i < sizeof a->text / sizeof a->text[0]; i++)
            a->text[i][sizeof a->text[0] - 1] = 0;
        *source = w->symbol;
        if (rc != NVML_ERROR_FUNCTION_NOT_FOUND && rc != NVML_ERROR_ARGUMENT_VERSION_MISMATCH &&
            rc != NVML_ERROR_DEPRECATED)
            break;
    }
    return rc;
}

/* ---- answer -> value ---- */

void rp_nvml_put_failure(const struct rp_nvml *lib, json_t *obj, const char *field, nvmlReturn_t rc, const char *source)
{
    char detail[256];
    if (rc == NVML_ERROR_NOT_SUPPORTED) {
        rp_put_absent(obj, field, source);
    } else if (rc == NVML_ERROR_FUNCTION_NOT_FOUND) {
        rp_put(obj, field, RP_STATE_ABSENT, NULL, source, NULL,
               RP_FORMAT(detail, "this %s has no %s", lib->so.name, source));
    } else if (rc == NVML_ERROR_DEPRECATED) {
        rp_put(obj, field, RP_STATE_ABSENT, NULL, source, NULL,
               RP_FORMAT(detail, "deprecated: this driver no longer answers %s", source));
    } else if (rc == NVML_ERROR_ARGUMENT_VERSION_MISMATCH) {
        rp_put(obj, field, RP_STATE_ABSENT, NULL, source, NULL,
               RP_FORMAT(detail, "this driver refuses every version of %s that this program knows", source));
    } else if (rc == NVML_ERROR_NO_PERMISSION) {
        rp_put(obj, field, RP_STATE_DENIED, NULL, source, NULL, NULL);
    } else {
        const char *words = lib->error_string ? lib->error_string(rc) : NULL;
        snprintf(detail, sizeof detail, "NVML error %d: %.200s", (int)rc, words ? words : "no words for it");
        for (char *c = detail; *c; c++)
            if (*c < ' ' || *c > '~')
                *c = '?';
        rp_put(obj, field, RP_STATE_ERROR, NULL, source, NULL, detail);
    }
}

static void put_unavailable(json_t *obj, const char *field, const char *source)
{
    rp_put(obj, field, RP_STATE_ABSENT, NULL, source, NULL, "the driver gives no value");
}

static void put_number(json_t *obj, const struct rp_nvml_row *row, unsigned long long n, const char *source)
{
    unsigned scale = row->scale ? row->scale : 1;
    if (n > INT64_MAX / scale)
        rp_put(obj, row->field, RP_STATE_ERROR, NULL, source, NULL, "the number is out of every range");
    else if (row->form == RP_NVML_MILLI)
        rp_put_real(obj, row->field, (double)n / 1000, source, row->unit);
    else
        rp_put_int(obj, row->field, (int64_t)(n * scale), source, row->unit);
}

static void put_word(json_t *obj, const struct rp_nvml_row *row, unsigned long long n, const char *source)
{
    char detail[80];
    unsigned long long i = 0;
    while (i < n && row->words[i])
        i++;
    if (!row->words[i]) {
        rp_put(obj, row->field, RP_STATE_ERROR, NULL, source, NULL,
               RP_FORMAT(detail, "the answer %llu is newer than this program", n));
    } else if (!*row->words[i]) {
        put_unavailable(obj, row->field, source);
    } else {
        rp_put_str(obj, row->field, row->words[i], source);
    }
}

static void put_words(json_t *obj, const struct rp_nvml_row *row, unsigned long long bits, const char *source)
{
    json_t *list = json_array();
    const char *const *word = row->words;
    for (unsigned i = 0; i < 64; i++) {
        const char *name = *word ? *word++ : NULL;
        char unknown[16];
        snprintf(unknown, sizeof unknown, "bit %u", i);
        if (bits >> i & 1)
            json_array_append_new(list, json_string(name ? name : unknown));
    }
    rp_put(obj, row->field, RP_STATE_OK, list, source, NULL, NULL);
}

static void put_ranges(json_t *obj, const char *field, const unsigned long *set, const char *source)
{
    RP_BUF text = {0};
    const unsigned word = 8 * sizeof *set, bits = RP_NVML_SET * word;
#define IS_SET(i) ((i) < bits && (set[(i) / word] >> (i) % word & 1))
    for (unsigned i = 0; i < bits; i++) {
        unsigned from = i;
        if (!IS_SET(i))
            continue;
        while (IS_SET(i + 1))
            i++;
        rp_buf_printf(&text, i > from ? "%s%u-%u" : "%s%u", text.size ? "," : "", from, i);
    }
#undef IS_SET
    if (text.size)
        rp_put_str(obj, field, text.data, source);
    else
        put_unavailable(obj, field, source);
}

void rp_nvml_put(const struct rp_nvml *lib, json_t *obj, const struct rp_nvml_row *row, nvmlReturn_t rc,
                 const struct rp_nvml_answer *a, const char *source)
{
    if (rc != NVML_SUCCESS) {
        rp_nvml_put_failure(lib, obj, row->field, rc, source);
    } else if (row->form == RP_NVML_RANGES) {
        put_ranges(obj, row->field, a->set, source);
    } else if (row->form == RP_NVML_TEXT || row->form == RP_NVML_HIDDEN) {
        if (!*a->text[row->pick])
            put_unavailable(obj, row->field, source);
        else if (row->form == RP_NVML_TEXT)
            rp_put_str(obj, row->field, a->text[row->pick], source);
        else
            rp_gpu_put_hidden(obj, row->field, a->text[row->pick], source);
    } else if (a->n[row->pick] == RP_NVML_NONE) {
        put_unavailable(obj, row->field, source);
    } else if (row->form == RP_NVML_WORD) {
        put_word(obj, row, a->n[row->pick], source);
    } else if (row->form == RP_NVML_WORDS) {
        put_words(obj, row, a->n[row->pick], source);
    } else {
        put_number(obj, row, a->n[row->pick], source);
    }
}

void rp_nvml_put_rows(const struct rp_nvml *lib, json_t *obj, const struct rp_nvml_subject *s,
                      const struct rp_nvml_row *rows)
{
    struct rp_nvml_answer a;
    const char *source = NULL;
    nvmlReturn_t rc = NVML_SUCCESS;
    const struct rp_nvml_row *last = NULL;
    for (const struct rp_nvml_row *r = rows; r->field; last = r++) {
        if (!last || last->ways != r->ways || memcmp(last->arg, r->arg, sizeof r->arg) != 0)
            rc = rp_nvml_ask(lib, s, r, &a, &source);
        rp_nvml_put(lib, obj, r, rc, &a, source);
    }
}

/* ---- devices ---- */

/* A handle from the newest of two functions that the library has, by index where address is NULL. */
static nvmlReturn_t get_handle(const struct rp_nvml *lib, const char *const symbols[2], unsigned index,
                               const char *address, nvmlDevice_t *dev, const char **source)
{
    nvmlReturn_t rc = NVML_ERROR_FUNCTION_NOT_FOUND;
    for (int i = 0; i < 2 && rc == NVML_ERROR_FUNCTION_NOT_FOUND; i++) {
        rp_nvml_function *f = rp_nvml_symbol(lib, symbols[i]);
        *source = symbols[f ? i : 0];
        *dev = NULL;
        if (f && address)
            rc = ((nvmlReturn_t (*)(const char *, nvmlDevice_t *))f)(address, dev);
        else if (f)
            rc = ((nvmlReturn_t (*)(unsigned, nvmlDevice_t *))f)(index, dev);
    }
    return rc == NVML_SUCCESS && !*dev ? NVML_ERROR_UNKNOWN : rc;
}

nvmlReturn_t rp_nvml_device_of(const struct rp_nvml *lib, unsigned index, nvmlDevice_t *dev, const char **source)
{
    static const char *const symbols[] = {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"};
    return get_handle(lib, symbols, index, NULL, dev, source);
}

nvmlReturn_t rp_nvml_device_at(const struct rp_nvml *lib, const char *pci_address, nvmlDevice_t *dev,
                               const char **source)
{
    static const char *const symbols[] = {"nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId"};
    return get_handle(lib, symbols, 0, pci_address, dev, source);
}

int rp_nvml_load(struct rp_nvml *lib)
{
    rp_gpu_load(&lib->so, "libnvidia-ml.so.1");
    lib->error_string = lib->so.handle ? (const char *(*)(nvmlReturn_t))rp_nvml_symbol(lib, "nvmlErrorString") : NULL;
    return lib->so.handle ? 0 : -1;
}

nvmlReturn_t rp_nvml_init(const struct rp_nvml *lib, const char **source)
{
    *source = rp_nvml_symbol(lib, "nvmlInit_v2") ? "nvmlInit_v2" : "nvmlInit";
    rp_nvml_function *f = rp_nvml_symbol(lib, *source);
    return f ? ((nvmlReturn_t (*)(void))f)() : NVML_ERROR_FUNCTION_NOT_FOUND;
}
