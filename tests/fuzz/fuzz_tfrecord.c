/* Any bytes as a TFRecord file: refused with one line, or read, and then every value is in its range. The bytes are also given to the
 * tf.Example parser alone, and framed with good checksums, because few inputs get past the checksums otherwise. */
#include "base/buf.h"
#include "data/bert_data.h"
#include "data/example.h"
#include "data/tfrecord.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEQ = 8, PREDICTIONS = 2, VOCAB = 50 };

static void one_line(const struct rp_err *err)
{
    if (err->code == RP_OK || !*err->msg || strchr(err->msg, '\n'))
        abort();
}

static void check_sample(const struct rp_bert_sample *s)
{
    int tokens = 0;
    for (int k = 0; k < SEQ; k++) {
        tokens += s->input_mask[k];
        if (s->input_ids[k] < 0 || s->input_ids[k] >= VOCAB || s->input_mask[k] > 1 || s->segment_ids[k] < 0 || s->segment_ids[k] > 1)
            abort();
    }
    for (int k = 0; k < PREDICTIONS; k++)
        if (s->masked_lm_positions[k] < 0 || s->masked_lm_positions[k] >= SEQ || s->masked_lm_ids[k] < 0 ||
            s->masked_lm_ids[k] >= VOCAB || !(s->masked_lm_weights[k] >= 0))
            abort();
    if (!tokens || (s->next_sentence_label != 0 && s->next_sentence_label != 1))
        abort();
}

static void read_all(const void *data, size_t size)
{
    static const struct rp_bert_limits limits = {.seq = SEQ, .predictions = PREDICTIONS, .vocab = VOCAB, .type_vocab = 2};
    int32_t ids[SEQ], segments[SEQ], positions[PREDICTIONS], labels[PREDICTIONS];
    uint8_t mask[SEQ];
    float weights[PREDICTIONS];
    struct rp_bert_sample s = {ids, mask, segments, positions, labels, weights, 0};
    struct rp_err err = {0};
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || rp_write_all(fd, data, size) < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct rp_bert_data *d = rp_bert_data_open(path, &limits, 1, size, &err);
    if (!d)
        one_line(&err);
    for (int64_t i = 0; d && i < rp_bert_data_count(d); i++)
        if (rp_bert_data_get(d, i, &s, &err) == 0)
            check_sample(&s);
        else
            one_line(&err);
    rp_bert_data_close(d);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RP_BUF framed = {0};
    if (size > 65536)
        return 0;
    read_all(data, size);
    rp_tfrecord_append(&framed, data, size);
    read_all(framed.data, framed.size);
    return 0;
}
