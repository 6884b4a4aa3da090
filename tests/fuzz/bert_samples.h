/* For fuzz targets: bytes as a file of BERT's samples, refused with one line or every value in its range.
 *
 * Flow:    bytes of the fuzzer -> a file in memory -> every sample of it.
 * Extend:  nothing to extend.
 */
#pragma once

#include "base/buf.h"
#include "data/dataset.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEQ = 8, PREDICTIONS = 2, VOCAB = 50 };

struct sample {
    int32_t ids[SEQ], segments[SEQ], positions[PREDICTIONS], labels[PREDICTIONS], next;
    uint8_t mask[SEQ];
    float weights[PREDICTIONS];
};

static void check_sample(const struct sample *s)
{
    int tokens = 0;
    for (int k = 0; k < SEQ; k++) {
        tokens += s->mask[k];
        if (s->ids[k] < 0 || s->ids[k] >= VOCAB || s->mask[k] > 1 || s->segments[k] < 0 || s->segments[k] > 1)
            abort();
    }
    for (int k = 0; k < PREDICTIONS; k++)
        if (s->positions[k] < 0 || s->positions[k] >= SEQ || s->labels[k] < 0 || s->labels[k] >= VOCAB ||
            !(s->weights[k] >= 0))
            abort();
    if (!tokens || (s->next != 0 && s->next != 1))
        abort();
}

static void read_all(const char *name, const void *data, size_t size)
{
    static const struct rp_sample_field want[] = {
        {"input_ids", RP_I32, SEQ, VOCAB},
        {"input_mask", RP_U8, SEQ, 2},
        {"segment_ids", RP_I32, SEQ, 2},
        {"masked_lm_positions", RP_I32, PREDICTIONS, SEQ},
        {"masked_lm_ids", RP_I32, PREDICTIONS, VOCAB},
        {"masked_lm_weights", RP_F32, PREDICTIONS, 0},
        {"next_sentence_labels", RP_I32, 1, 2},
    };
    const struct rp_data_format *format = rp_data_format_find(name);
    struct rp_sample_field own[RP_SAMPLE_FIELDS_MAX];
    struct sample s;
    void *const row[] = {s.ids, s.mask, s.segments, s.positions, s.labels, s.weights, &s.next};
    int n = 0;
    struct rp_err err = {0};
    const struct rp_data_opts opts = {.shuffle = 1, .seed = size};
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || rp_write_all(fd, data, size) < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct rp_dataset *d = format->open(path, want, sizeof want / sizeof *want, &opts, &err);
    if (!d)
        must_be_refusal(&err);
    for (int64_t i = 0; d && i < format->count(d); i++)
        if (format->get(d, i, row, &err) == 0)
            check_sample(&s);
        else
            must_be_refusal(&err);
    format->close(d);
    if (format->probe(path, &opts, own, &n, &err) < 0)
        must_be_refusal(&err);
    close(fd);
}
